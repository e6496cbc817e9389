"""Several effects and several commits in one call, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_effects_together.py
"""

from _broker import main
from _effects import LONG_MS, CommitCase

MANY = 1000


class Begins(CommitCase):
    def begins(self, *effects, **more):
        effects = [{"scope": self.topic, **effect} for effect in effects]
        return self.call("POST", "/effects/begin", {"effects": effects, **more})["results"]

    def test_a_thousand_effects_in_one_call(self):
        results = self.begins(*({"key": f"k{number}", "lease_ms": LONG_MS} for number in range(MANY)))
        tokens = {self.executes(result)["token"] for result in results}
        self.assertEqual(len(tokens), MANY)
        again = self.begins(*({"key": f"k{number}"} for number in range(MANY)))
        self.assertEqual({result["decision"] for result in again}, {"in_progress"})

    def test_each_has_the_answer_that_it_would_have_alone(self):
        done = self.execute("done")
        self.conclude(done, body="x")
        self.execute("other", request_hash="a")
        failed = self.execute("failed")
        self.conclude(failed, "failed_retryable", error="no")
        self.made_unknown("unknown")
        results = self.begins(
            {"key": "done"},
            {"key": "other", "request_hash": "b"},
            {"key": "failed"},
            {"key": "unknown"},
            {"key": "new", "request_id": "r"},
            {"key": "new"},
            {"key": "tied", "lease_token": "no-such-token"},
        )
        self.replays(results[0], "succeeded", done, body="x")
        problem = results[1]["problem"]
        self.assertEqual((results[1]["decision"], problem["code"], problem["status"]), ("refused", "KEY_REUSED", 422))
        self.assertEqual(results[2]["decision"], "retryable")
        self.assertEqual(results[3]["decision"], "unknown")
        lease = self.executes(results[4])
        self.assertEqual(results[5]["decision"], "in_progress")
        self.assertEqual((results[6]["decision"], results[6]["problem"]["code"]), ("refused", "LEASE_UNKNOWN"))
        (same,) = self.begins({"key": "new", "request_id": "r"})
        self.assertEqual(same["lease"]["token"], lease["token"], "the same call again gets the same lease")

    def test_what_is_not_a_call(self):
        for body in ({"effects": []},
                     {"effects": [{"scope": "s", "key": "k", "wait_ms": 5}]},
                     {"effects": [{"scope": "s"}]},
                     {"effects": [{"scope": "s", "key": "k"}], "scope": "s"},
                     {"scope": "s", "key": "k", "effects": []}):
            answer = self.client.call("POST", "/v2/effects/begin", body)
            self.assertIn((answer.status, answer.json["code"]), ((400, "INVALID_ARGUMENT"), (400, "INVALID_JSON")), body)


class Commits(CommitCase):
    def commits(self, *commits):
        return self.call("POST", "/commit", {"commits": list(commits)})["results"]

    def test_each_is_all_or_nothing_on_its_own(self):
        items = [self.item(f"v{number}") for number in range(3)]
        leases = [self.execute(f"k{number}", lease_ms=LONG_MS) for number in range(3)]
        parts = [self.parts(item, lease, f"p{number}") for number, (item, lease) in enumerate(zip(items, leases))]
        parts[1]["fence"] = [items[0]["lease"]["token"]]
        results = self.commits(*parts)
        self.assertEqual([result["result"] for result in results], ["committed", "refused", "committed"])
        problem = results[1]["problem"]
        self.assertEqual((problem["code"], problem["part"]), ("STALE_LEASE", "fence[0]"))
        states = [self.effect(f"k{number}")["state"] for number in range(3)]
        self.assertEqual(states, ["succeeded", "in_progress", "succeeded"])
        self.assertEqual(self.values(), ["p0", "p2"])
        self.assertEqual(self.group()["lag"], 1)
        again = self.commits(*parts)
        self.assertEqual([result["result"] for result in again], ["already_committed", "refused", "already_committed"])
        self.assertEqual(again[0]["produced"], results[0]["produced"])
        self.server.restart()
        self.assertEqual(self.commits(parts[0])[0]["result"], "already_committed")

    def test_a_key_names_a_commit(self):
        message = lambda value: {"produce": [{"topic": self.out, "message": {"value": value}}]}
        results = self.commits({**message("a"), "idempotency_key": "one"}, {**message("a"), "idempotency_key": "two"},
                               {**message("a"), "idempotency_key": "one"}, {**message("b"), "idempotency_key": "two"})
        words = [result["result"] for result in results]
        self.assertEqual(words, ["committed", "committed", "already_committed", "refused"])
        self.assertEqual(results[3]["problem"]["code"], "KEY_REUSED")
        alone = self.call("POST", "/commit", {**message("a"), "idempotency_key": "one"})
        self.assertEqual(alone["result"], "already_committed")
        self.assertEqual(self.values(), ["a", "a"])

    def test_what_is_not_a_call(self):
        message = {"produce": [{"topic": self.out, "message": {"value": "v"}}]}
        for body in ({"commits": []}, {"commits": [{}]}, {"commits": [message], **message}):
            answer = self.client.call("POST", "/v2/commit", body)
            self.assertIn((answer.status, answer.json["code"]), ((400, "INVALID_ARGUMENT"), (400, "INVALID_JSON")), body)
        many = {"produce": message["produce"] * 1000}
        self.refused("POST", "/commit", {"commits": [many] * 11}, 400, "INVALID_ARGUMENT")
        self.assertEqual(self.values(), [], "nothing of it")


if __name__ == "__main__":
    main()
