"""Effects over the native API when many ask at once, answers get lost, lists are long and the broker dies.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_effects_many.py
"""

import threading
import time
from collections import Counter

from _broker import Client, main, seconds, until
from _effects import LONG_MS, SHORT_MS, EffectCase, at_once

MANY = 100
WAIT_MS = 30_000


class Crowd(EffectCase):
    """One key, many callers."""

    def ask(self, **request):
        """One caller with a connection of its own."""
        client = Client(self.server)
        try:
            answer = client.call("POST", "/v2/effects/begin", {"scope": self.topic, "key": "k", **request})
            self.assertEqual(answer.status, 200, str(answer))
            return answer.json
        finally:
            client.close()

    def waiters(self, count, **request):
        """Callers that wait; answers the threads and the list into which they put what they were told."""
        told = []
        wait = lambda: told.append(self.ask(wait_ms=WAIT_MS, **request))
        threads = [threading.Thread(target=wait) for _ in range(count)]
        for thread in threads:
            thread.start()
        return threads, told

    def test_exactly_one_of_a_hundred_executes_and_all_others_get_its_result(self):
        body = "the one result ü " * 100

        def work(index):
            answer = self.ask(wait_ms=WAIT_MS, lease_ms=LONG_MS)
            if answer["decision"] == "execute":
                finish = {"token": answer["lease"]["token"], "status": "succeeded", "code": index, "body": body}
                client = Client(self.server)
                self.assertEqual(client.call("POST", "/v2/effects/finish", finish).status, 200)
                client.close()
            return answer

        said = at_once(work, MANY)
        self.assertNotIn(None, said, "every call was answered")
        decisions = [answer["decision"] for answer in said]
        self.assertEqual(Counter(decisions), {"execute": 1, "replay": MANY - 1})
        winner = decisions.index("execute")
        replays = [answer for answer in said if answer["decision"] == "replay"]
        self.replays(replays[0], "succeeded", {"epoch": 1, "attempt": 1}, code=winner, body=body)
        self.assertTrue(all(answer == replays[0] for answer in replays), "the exact result")

    def test_who_does_not_wait_is_told_so(self):
        said = at_once(lambda index: self.ask(lease_ms=LONG_MS), MANY)
        decisions = Counter(answer["decision"] for answer in said)
        self.assertEqual(decisions, {"execute": 1, "in_progress": MANY - 1})

    def test_after_a_lapse_exactly_one_waiter_takes_over(self):
        request = {"on_lapse": "retry", "lease_ms": LONG_MS}
        self.execute(on_lapse="retry", lease_ms=500)
        threads, told = self.waiters(20, **request)
        until(lambda: told, "somebody takes over")
        new = self.executes(told[0], 2, 2)
        # The others must go on waiting; this is time for a second one to show itself.
        time.sleep(0.3)
        self.assertEqual(len(told), 1, told)
        self.conclude(new, body="by the second")
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(told), 20)
        for answer in told[1:]:
            self.replays(answer, "succeeded", new, body="by the second")

    def test_when_it_becomes_unknown_all_waiters_learn_it(self):
        self.execute(on_lapse="hold", lease_ms=500)
        threads, told = self.waiters(5)
        for thread in threads:
            thread.join(20)
        said = [(answer["decision"], answer["epoch"], answer["attempt"]) for answer in told]
        self.assertEqual(said, [("unknown", 1, 1)] * 5)

    def test_a_failure_that_may_be_tried_again_ends_the_wait(self):
        lease = self.execute(lease_ms=LONG_MS)
        threads, told = self.waiters(3)
        # A waiter that has not arrived yet is answered the same.
        time.sleep(0.1)
        self.conclude(lease, "failed_retryable", error="later")
        for thread in threads:
            thread.join(20)
        self.assertEqual([answer["decision"] for answer in told], ["retryable"] * 3)
        self.assertEqual({answer["outcome"]["error"] for answer in told}, {"later"})

    def test_a_wait_ends_in_time(self):
        self.execute(lease_ms=LONG_MS)
        begun = time.monotonic()
        answer = self.begin(wait_ms=300)
        self.assertTrue(0.29 <= time.monotonic() - begun < 10)
        self.assertEqual((answer["decision"], answer["epoch"], answer["attempt"]), ("in_progress", 1, 1))
        self.assertGreater(answer["retry_after_ms"], 1000)

    def test_at_the_cap_nobody_takes_over(self):
        self.execute(on_lapse="retry", lease_ms=SHORT_MS, max_attempts=1)
        threads, told = self.waiters(3, on_lapse="retry", max_attempts=1)
        for thread in threads:
            thread.join(20)
        self.assertEqual([answer["decision"] for answer in told], ["unknown"] * 3)


class LostAnswers(EffectCase):
    def test_the_same_call_again_gets_the_same_lease(self):
        mine = {"request_id": "call-1", "lease_ms": LONG_MS, "owner": "w"}
        first = self.begin(**mine)
        self.executes(first)
        self.assertEqual(self.begin(**mine), first)
        self.assertEqual(self.begin(**{**mine, "request_id": "call-2"})["decision"], "in_progress")
        self.assertEqual(self.begin()["decision"], "in_progress")
        self.server.restart()
        self.assertEqual(self.begin(**mine), first, "also after a kill")
        self.conclude(first["lease"], body="done")
        self.replays(self.begin(**mine), "succeeded", first["lease"], body="done")

    def test_a_takeover_can_be_asked_for_again(self):
        self.lapsed()
        mine = {"request_id": "call-1", "lease_ms": LONG_MS, "on_lapse": "retry"}
        second = self.begin(**mine)
        self.executes(second, 2, 2)
        self.assertEqual(self.begin(**mine), second)
        self.conclude(second["lease"], "failed_retryable")
        third = self.reacquire(**{**mine, "request_id": "call-2"})
        self.executes(third, 3, 3)
        self.assertEqual(self.reacquire(**{**mine, "request_id": "call-2"}), third)


class Listing(EffectCase):
    def test_filters_and_pages(self):
        total, ended = 250, {0: "succeeded", 1: "failed_final", 2: "failed_retryable"}
        for index in range(total):
            lease = self.execute(f"k{index:03}", tenant_id=f"t{index % 3}", lease_ms=LONG_MS)
            if index % 5 in ended:
                headers = {"secret": "not in a list"}
                self.conclude(lease, ended[index % 5], code=index, headers=headers, body="not in a list")
        everything = [f"k{index:03}" for index in range(total)]
        for limit in (1000, 100, 7):
            self.assertEqual(self.keys(limit=limit), everything, "oldest first, each once")
        for rest, state in {**ended, 3: "in_progress"}.items():
            expected = [key for index, key in enumerate(everything)
                        if index % 5 == rest or (rest == 3 and index % 5 == 4)]
            self.assertEqual(self.keys(state=state, limit=30), expected, state)
        both = self.keys(state="succeeded", tenant_id="t1")
        self.assertEqual(both, [key for index, key in enumerate(everything) if index % 5 == 0 and index % 3 == 1])
        self.assertEqual(self.keys(scope="another"), [])
        for effect in self.listed(state="succeeded"):
            self.assertEqual(effect["outcome"]["code"], int(effect["key"][1:]))
            self.assertFalse({"body", "body_b64", "headers"} & set(effect["outcome"]), effect)
            full = self.effect(effect["key"], tenant_id=effect["tenant_id"])
            self.assertEqual(full["outcome"].pop("body"), "not in a list")
            self.assertEqual(full["outcome"].pop("headers"), {"secret": "not in a list"})
            self.assertEqual(effect, full)
        page = self.call("GET", f"/effects?scope={self.topic}&limit=10")
        self.assertGreaterEqual(page["scanned"], 10)
        for query in ("state=nonsense", "limit=0", "limit=1001", "cursor=nonsense", "nonsense=1"):
            self.refused("GET", f"/effects?{query}")


class Restarting(EffectCase):
    def test_everything_is_there_after_a_kill(self):
        live = self.execute("live", lease_ms=LONG_MS, max_attempts=3, request_hash="h", owner="w", run_id="r")
        renewed = self.execute("renewed", lease_ms=5000)
        self.renew(renewed, lease_ms=LONG_MS)
        for status in ("succeeded", "failed_final", "failed_retryable"):
            outcome = {"code": 5, "headers": {"a": "b"}, "body_b64": "/wD+", "error": "e"}
            self.conclude(self.execute(status), status, **outcome)
        self.lapsed("taken")
        taken = self.execute("taken", epoch=2, attempt=2, lease_ms=LONG_MS, on_lapse="retry")
        old = self.lapsed("lapsed")
        held = self.made_unknown("held")
        self.made_unknown("resolved")
        self.resolve("resolved", "failed_final", body="found")
        before = {key: self.effect(key) for key in self.keys()}
        self.assertEqual(len(before), 9)
        for _ in range(2):
            self.server.restart()
            self.assertEqual({key: self.effect(key) for key in self.keys()}, before)
        self.assertEqual(self.keys(state="unknown"), ["held"])
        for key in ("live", "renewed", "taken"):
            self.assertEqual(self.begin(key, on_lapse="retry")["decision"], "in_progress")
        for lease in (live, renewed, taken, held, old):
            self.conclude(lease, body="after the kill")
            self.server.restart()
            self.conclude(lease, result="already_committed", body="after the kill")
        self.assertEqual(self.executes(self.reacquire("failed_retryable"), 2, 2)["epoch"], 2)

    def test_a_lapse_while_the_broker_is_down_is_a_lapse(self):
        held = self.execute("held", lease_ms=SHORT_MS)
        retried = self.execute("retried", lease_ms=SHORT_MS, on_lapse="retry")
        self.conclude(self.execute("forgotten", ttl_ms=SHORT_MS))
        self.server.kill()
        time.sleep(SHORT_MS / 1000 + 0.1)
        self.server.start()
        self.await_unknown("held")
        self.assertGreaterEqual(seconds(self.begin("held")["since"]), seconds(held["expires_at"]))
        self.execute("retried", epoch=2, attempt=2, on_lapse="retry")
        self.is_shut_out(retried)
        self.execute("forgotten")


if __name__ == "__main__":
    main()
