"""Where messages were born, over the native API: the same after death and redrive, for effects and for runs.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_origins.py
"""

import hashlib
import json

from _broker import Case, main, until


class Origins(Case):
    def letters(self):
        return self.call("GET", f"/dlq/{self.topic}")["letters"]

    def die(self, item):
        self.settle("nack", item, dead=True, error="poison")
        until(lambda: any(topic["name"] == self.topic for topic in self.call("GET", "/dlq?limit=1000")["topics"]), "it dies")

    def redrive(self, **body):
        return self.job(f"/dlq/{self.topic}/redrive", body or {"all": True})

    def key(self, item):
        """The derived key of an effect, as the SDKs make it for a message without a run and without a key."""
        origin = item["origin"]
        anchor = ["message", origin["topic"], origin["incarnation"], origin["partition"], origin["offset"]]
        name = json.dumps([anchor, None], separators=(",", ":"))
        return "auto-" + hashlib.sha256(name.encode()).hexdigest()

    def begin(self, item):
        return self.call("POST", "/effects/begin", {
            "scope": "charge", "key": self.key(item), "lease_token": item["lease"]["token"], "ttl_ms": 1, "reacquire": True,
        })

    def test_a_redriven_message_finds_what_it_did_before(self):
        self.create()
        self.produce("charge 5")
        (item,) = self.lease()
        born = {name: item[name] for name in ("topic", "partition", "offset")}
        self.assertEqual({name: item["origin"][name] for name in born}, born, "a fresh message was born where it lies")
        begun = self.begin(item)
        self.assertEqual(begun["decision"], "execute", begun)
        self.call("POST", "/effects/finish", {"token": begun["lease"]["token"], "status": "succeeded", "body": "ch_1"})
        for turn in range(2):
            self.die(item)
            (letter,) = self.letters()
            self.assertEqual(letter["origin"], item["origin"])
            self.assertNotIn("lease", letter)
            self.server.restart()
            self.assertEqual(self.redrive()["done"], 1)
            (again,) = self.lease(wait_ms=5000)
            self.assertEqual((again["origin"], again["offset"]), (item["origin"], turn + 1))
            # The record's own time was a millisecond.
            replayed = self.begin(again)
            self.assertEqual((replayed["decision"], self.key(again)), ("replay", self.key(item)), replayed)
            item = again
        path = f"/topics/{self.topic}/messages"
        (seen,) = self.call("GET", path)["messages"]
        one = self.call("GET", f"{path}/0/{item['offset']}")
        self.assertEqual((seen["origin"], one["origin"]), (item["origin"], item["origin"]))
        self.settle("ack", item)
        # Nothing is left that could ask for it: whoever does now begins anew.
        anew = self.call("POST", "/effects/begin", {"scope": "charge", "key": self.key(item)})
        self.assertEqual((anew["decision"], anew["lease"]["epoch"]), ("execute", 1), anew)

    def test_a_topic_made_anew_is_another_one(self):
        self.create()
        envelope = {"idempotency_key": "once"}
        self.produce({"value": "v", "envelope": envelope})
        (old,) = self.lease()
        self.die(old)
        self.call("DELETE", f"/topics/{self.topic}?confirm={self.topic}", expect=204)
        self.create()
        (stored,) = self.produce({"value": "v", "envelope": envelope})
        self.assertFalse(stored["duplicate"])
        (new,) = self.lease()
        self.assertEqual((new["origin"]["topic"], new["origin"]["offset"]), (self.topic, 0))
        self.assertNotEqual(new["origin"]["incarnation"], old["origin"]["incarnation"])
        self.assertNotEqual(self.key(new), self.key(old))
        self.settle("ack", new)
        # The letter of the old one goes to the new one, and stays what it was.
        self.assertEqual(self.redrive()["done"], 1)
        (again,) = self.lease(wait_ms=5000)
        self.assertEqual(again["origin"], old["origin"])

    def test_a_letter_whose_group_is_gone_stays(self):
        self.create()
        self.produce("v")
        (done,), (failed,) = self.lease(group="h"), self.lease(group="g")
        self.settle("ack", done)
        self.die(failed)
        self.call("DELETE", f"/topics/{self.topic}/groups/g?confirm=g", expect=204)
        job = self.redrive()
        self.assertEqual((job["state"], job["matched"], job["done"], job["refused"], job["failed"]), ("done", 1, 0, 1, 0), job)
        self.assertIn("GROUP_UNKNOWN", job["error"])
        self.assertEqual((len(self.letters()), self.lease(group="h")), (1, []), "the other group is done with it")
        self.assertEqual(self.lease(group="g"), [])
        self.assertEqual(self.redrive()["done"], 1)
        self.assertEqual(self.lease_values(group="g", wait_ms=5000), ["v"])

    def test_a_redriven_message_stays_in_its_run(self):
        self.create()
        self.produce({"value": "v", "priority": 4, "envelope": {"run_id": f"run-{self.topic}", "step_id": "charge"}})
        (item,) = self.lease()
        self.die(item)
        self.assertEqual(self.redrive()["done"], 1)
        (again,) = self.lease(wait_ms=5000)
        self.assertEqual((again["priority"], again["origin"]), (4, item["origin"]))
        self.settle("ack", again)
        run = self.call("GET", f"/runs/run-{self.topic}")
        (step,) = run["steps"]
        states = [message["groups"][0]["state"] for message in step["messages"]]
        self.assertEqual((run["messages"], states, run["open"]), (2, ["dead_lettered", "done"], 0), run)


if __name__ == "__main__":
    main()
