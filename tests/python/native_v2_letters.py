"""Dead letters over the native API: how messages die, come back, and are thrown away, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_letters.py
"""

import urllib.parse

from _broker import Case, main, seconds, until


class Letters(Case):
    def letters(self, **query):
        return self.call("GET", f"/dlq/{self.topic}?{urllib.parse.urlencode(query)}")["letters"]

    def bury(self, *messages, group="g"):
        """Produces messages that a group gives up at once, and waits for their letters."""
        before = len(self.letters()) if self.is_there() else 0
        self.produce(*messages)
        items = self.lease(group=group, max=len(messages))
        self.settle("nack", *items, dead=True, error="poison")
        until(lambda: self.is_there() and len(self.letters()) == before + len(messages), "the letters")
        return items

    def is_there(self):
        return any(topic["name"] == self.topic for topic in self.call("GET", "/dlq?limit=1000")["topics"])

    def redrive(self, **body):
        return self.job(f"/dlq/{self.topic}/redrive", body)

    def test_a_letter_tells_its_history(self):
        self.create(retry_policy={"max_attempts": 3, "backoff_ms": 0, "jitter": "none"})
        envelope = {"run_id": "r", "tenant_id": "t", "labels": {"a": "1"}, "idempotency_key": "i"}
        self.produce({"value": "v", "key": "k", "priority": 3, "envelope": envelope})
        for attempt in (1, 2, 3):
            (item,) = self.lease(owner=f"worker-{attempt}", wait_ms=10_000)
            self.settle("nack", item, error=f"error {attempt}")
        until(self.is_there, "the letter")
        (letter,) = self.letters()
        dead = letter["envelope"]["dead_letter"]
        self.assertEqual((dead["topic"], dead["group"], dead["attempts"]), (self.topic, "g", 3))
        self.assertEqual((dead["last_error"], letter["value"], letter["key"]), ("error 3", "v", "k"))
        self.assertTrue(dead["reason"])
        history = [(attempt["attempt"], attempt["owner"], attempt["error"]) for attempt in dead["history"]]
        self.assertEqual(history, [(attempt, f"worker-{attempt}", f"error {attempt}") for attempt in (1, 2, 3)])
        for attempt in dead["history"]:
            self.assertLessEqual(seconds(attempt["leased_at"]), seconds(attempt["ended_at"]))
        path = f"/dlq/{self.topic}/{letter['partition']}/{letter['offset']}"
        self.assertEqual(self.call("GET", path), letter)
        self.server.restart()
        self.assertEqual(self.call("GET", path), letter)
        self.assertEqual(self.lease(max=5), [])

    def test_letters_are_found_by_what_they_were(self):
        self.create()
        self.bury(*(
            {"value": f"v{index}", "key": f"k{index % 2}",
             "envelope": {"tenant_id": f"t{index % 3}", "run_id": "r", "labels": {"n": str(index)}}}
            for index in range(6)
        ))
        values = lambda **query: [letter["value"] for letter in self.letters(**query)]
        self.assertEqual(values(key="k1"), ["v1", "v3", "v5"])
        self.assertEqual(values(tenant_id="t1", key="k1"), ["v1"])
        self.assertEqual(values(**{"label.n": "4"}), ["v4"])
        self.assertEqual(values(group="another"), [])
        self.assertEqual(values(before="2020-01-01T00:00:00Z"), [])
        self.assertEqual(len(values(after="2020-01-01T00:00:00Z")), 6)
        seen, query = [], {"limit": 4}
        while True:
            page = self.call("GET", f"/dlq/{self.topic}?{urllib.parse.urlencode(query)}")
            self.assertLessEqual(len(page["letters"]), 4)
            seen += [letter["value"] for letter in page["letters"]]
            if "cursor" not in page:
                break
            query["cursor"] = page["cursor"]
        self.assertEqual(seen, [f"v{index}" for index in range(6)])

    def test_redrive_one_some_and_all(self):
        self.create()
        self.bury(*({"value": f"v{index}", "key": f"k{index % 2}"} for index in range(6)))
        dry = self.redrive(all=True, dry_run=True)
        self.assertEqual((dry["state"], dry["matched"], dry["done"], dry["dry_run"]), ("done", 6, 0, True), dry)
        self.assertEqual(len(self.letters()), 6, "a dry run moves nothing")
        place = {name: self.letters()[2][name] for name in ("partition", "offset")}
        self.assertEqual(self.redrive(letters=[place])["done"], 1)
        self.assertEqual(self.lease_values(max=9, wait_ms=5000), ["v2"])
        again = self.redrive(letters=[place])
        self.assertEqual((again["state"], again["done"]), ("done", 0), again)
        self.assertEqual(self.redrive(filter={"key": "k1"})["done"], 3)
        self.assertEqual(self.lease_values(max=9, wait_ms=5000), ["v1", "v3", "v5"])
        job = self.redrive(all=True)
        self.assertEqual((job["matched"], job["done"], job["failed"]), (2, 2, 0), job)
        self.assertEqual(self.lease_values(max=9, wait_ms=5000), ["v0", "v4"])
        self.assertEqual(self.letters(), [])
        self.assertIn(job["id"], [known["id"] for known in self.call("GET", "/jobs")["jobs"]])

    def test_a_slow_redrive_shows_progress_and_can_be_stopped(self):
        self.create()
        self.bury(*(f"v{index}" for index in range(10)))
        body = {"all": True, "rate_per_second": 2}
        headers = {"Idempotency-Key": "redrive-1"}
        job = self.client.call("POST", f"/v2/dlq/{self.topic}/redrive", body, headers).json
        again = self.client.call("POST", f"/v2/dlq/{self.topic}/redrive", body, headers)
        self.assertEqual((again.status, again.json["id"]), (202, job["id"]), str(again))
        self.refused("POST", f"/dlq/{self.topic}/redrive", {"all": True}, 422, "KEY_REUSED", headers=headers)
        path = f"/jobs/{job['id']}"
        until(lambda: 1 <= self.call("GET", path)["done"] < 10, "some are done, not all")
        self.assertEqual(self.call("GET", path)["state"], "running")
        for _ in range(2):
            self.call("DELETE", path)
        stopped = until(lambda: (now := self.call("GET", path))["state"] == "cancelled" and now, "it stops")
        self.assertEqual(len(self.letters()), 10 - stopped["done"], "what is done stays done, the rest stays")
        self.assertEqual(len(self.lease(max=10)), stopped["done"])

    def test_redriven_messages_pass_both_gates(self):
        self.create()
        message = {"value": "v", "envelope": {"idempotency_key": "once", "tenant_id": "t"}}
        self.bury(message)
        self.assertTrue(self.produce(message)[0]["duplicate"])
        self.assertEqual(self.redrive(all=True)["done"], 1)
        (item,) = self.lease(wait_ms=5000)
        self.assertEqual((item["value"], item["lease"]["attempt"]), ("v", 1), "its attempts begin anew")
        self.assertEqual(item["envelope"]["idempotency_key"], "once", "it keeps its identity")
        self.settle("nack", item, dead=True)
        until(lambda: len(self.letters()) == 1, "it dies again")
        self.server.restart()
        self.assertEqual(self.redrive(all=True)["done"], 1)
        (item,) = self.lease(wait_ms=5000)
        self.settle("ack", item)
        self.assertTrue(self.produce(message)[0]["duplicate"], "still the same operation")
        self.assertEqual((self.lease(), self.letters()), ([], []))

    def test_redrive_comes_to_the_group_that_gave_up(self):
        self.create()
        self.produce("v")
        (done,), (failed,) = self.lease(group="h"), self.lease(group="g")
        self.settle("ack", done)
        self.settle("nack", failed, dead=True)
        until(self.is_there, "the letter")
        self.assertEqual(self.redrive(filter={"group": "h"})["matched"], 0)
        self.assertEqual(self.redrive(filter={"group": "g"})["done"], 1)
        self.assertEqual(self.lease_values(group="g", wait_ms=5000), ["v"])
        self.assertEqual(self.lease(group="h"), [], "it was done with it")

    def test_redrive_to_another_topic(self):
        other = f"{self.topic}-other"
        self.create()
        self.create(other)
        self.bury("v")
        self.assertEqual(self.redrive(all=True, target_topic=other)["done"], 1)
        self.assertEqual(self.lease_values(topic=other, wait_ms=5000), ["v"])
        self.assertEqual(self.lease(), [])

    def test_what_has_no_key_is_spread_over_another_topic(self):
        self.create()
        other = f"{self.topic}.other"
        self.create(other, partitions=4)
        self.bury(*(f"v{index}" for index in range(24)))
        self.assertEqual(self.redrive(all=True, target_topic=other)["done"], 24)
        partitions = {item["partition"] for item in self.lease(topic=other, max=24, wait_ms=5000)}
        self.assertEqual(partitions, {0, 1, 2, 3})

    def test_purge(self):
        self.create()
        self.bury(*({"value": f"v{index}", "key": f"k{index % 2}"} for index in range(4)))
        path = f"/dlq/{self.topic}/purge"
        self.assertEqual(self.job(path, {"all": True, "dry_run": True})["matched"], 4)
        self.assertEqual(self.job(path, {"filter": {"key": "k0"}})["done"], 2)
        self.assertEqual([letter["value"] for letter in self.letters()], ["v1", "v3"])
        self.assertEqual(self.job(path, {"all": True})["done"], 2)
        self.assertFalse(self.is_there())
        self.assertEqual(self.lease(max=5), [], "purged messages do not come back")

    def test_a_selection_must_be_one_and_clear(self):
        self.create()
        self.bury("v")
        place = {"partition": 0, "offset": 0}
        for body in ({}, {"all": False}, {"filter": {}}, {"letters": []}, {"all": True, "filter": {"key": "k"}},
                     {"letters": [place], "all": True}, {"filter": {"labels": {}}}):
            for verb in ("redrive", "purge"):
                answer = self.client.call("POST", f"/v2/dlq/{self.topic}/{verb}", body)
                self.assertEqual((answer.status, answer.kind), (400, "application/problem+json"), str(answer))
        self.refused("GET", "/jobs/nothing", status=404, code="JOB_UNKNOWN")
        self.assertEqual(len(self.letters()), 1)


if __name__ == "__main__":
    main()
