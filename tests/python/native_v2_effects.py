"""Effects over the native API: who may run a side effect, and what everybody else is told, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_effects.py
"""

import base64
import math
import time

from _broker import main, seconds, until
from _effects import LONG_MS, SHORT_MS, EffectCase

RESULT_BYTES_MAX = 256 * 1024
EVERY_BYTE = bytes(range(256))


class Deciding(EffectCase):
    def test_the_first_begin_executes(self):
        before = time.time()
        lease = self.execute(lease_ms=LONG_MS, owner="worker-1", run_id="r", step_id="s", request_hash="h")
        ends = seconds(lease["expires_at"]) - LONG_MS / 1000
        self.assertTrue(before - 0.002 <= ends <= time.time() + 0.002, lease)
        effect = self.effect()
        times = {name: effect.pop(name) for name in ("created_at", "begun_at", "lease_expires_at")}
        self.assertEqual(times["lease_expires_at"], lease["expires_at"])
        self.assertEqual(times["created_at"], times["begun_at"])
        self.assertEqual(effect, {
            "tenant_id": "", "scope": self.topic, "key": "k", "state": "in_progress", "epoch": 1, "attempt": 1,
            "on_lapse": "hold", "request_hash": "h", "owner": "worker-1", "run_id": "r", "step_id": "s",
            "lease_live": True,
        })

    def test_an_identity_is_tenant_scope_and_key(self):
        for tenant in ("", "t1", "t2"):
            for scope in (self.topic, self.topic + "-2"):
                for key in ("a", "b"):
                    self.execute(key, tenant_id=tenant, scope=scope)
        self.assertEqual(self.begin("a", tenant_id="t2")["decision"], "in_progress")

    def test_a_result_comes_back_byte_for_byte(self):
        text = "line\r\n\t\"quoted\" ü 漢 \U0001f680 \u0000 end"
        headers = {"content-type": "text/plain", "X-Odd": "a: b, c; \"d\"", "empty": ""}
        shown = [
            ({"body": text}, {"body": text}),
            ({"body": ""}, {"body": ""}),
            ({"body_b64": base64.b64encode(text.encode()).decode()}, {"body": text}),
            ({"body_b64": base64.b64encode(EVERY_BYTE).decode()},) * 2,
            ({"code": 201, "headers": headers, "body": "{}"},) * 2,
            ({"code": -2147483648, "error": "it did not work: ü"},) * 2,
            ({},) * 2,
        ]
        for index, (stored, expected) in enumerate(shown):
            for status in ("succeeded", "failed_final"):
                key = f"{status}-{index}"
                lease = self.execute(key)
                self.conclude(lease, status, **stored)
                outcome = self.replays(self.begin(key), status, lease, **expected)
                self.assertEqual(self.begin(key, reacquire=True, wait_ms=5000)["outcome"], outcome)
                self.assertEqual(self.effect(key)["outcome"], outcome)

    def test_others_are_told_when_to_come_again(self):
        self.execute(lease_ms=LONG_MS)
        for _ in range(2):
            answer = self.begin()
            left = answer.pop("retry_after_ms")
            self.assertEqual(answer, {"decision": "in_progress", "epoch": 1, "attempt": 1})
            self.assertTrue(LONG_MS - 20_000 < left <= LONG_MS, left)
            self.assertEqual(self.last.headers["Retry-After"], str(math.ceil(left / 1000)))
        self.execute("soon", lease_ms=900)
        self.assertEqual(self.begin("soon")["decision"], "in_progress")
        self.assertEqual(self.last.headers["Retry-After"], "1", "whole seconds, at least one")

    def test_another_request_under_the_same_key_changes_nothing(self):
        mine = {"request_hash": "h"}
        self.execute("running", **mine)
        self.lapsed("lapsed", **mine)
        self.made_unknown("unknown", **mine)
        for status in ("succeeded", "failed_final", "failed_retryable"):
            self.conclude(self.execute(status, **mine), status, body=status)
        states = {effect["key"]: effect for effect in self.listed()}
        self.assertEqual(len(states), 6)
        for key in states:
            before = self.effect(key)
            other = {"scope": self.topic, "key": key, "request_hash": "another", "on_lapse": "retry"}
            for more in ({}, {"reacquire": True}, {"wait_ms": 5000}, {"request_id": "r"}):
                self.refused("POST", "/effects/begin", {**other, **more}, 422, "KEY_REUSED")
            self.refused("POST", "/effects/reacquire", other, 422, "KEY_REUSED")
            self.assertEqual(self.effect(key), before, key)
        # Whoever does not say what it asks for agrees with everything.
        self.assertEqual(self.begin("succeeded")["decision"], "replay")
        self.conclude(self.execute("unsaid"))
        self.assertEqual(self.begin("unsaid", **mine)["decision"], "replay")

    def test_what_cannot_be_meant_is_refused(self):
        good = {"scope": self.topic, "key": "k"}
        bad = ({"lease_ms": 0}, {"on_lapse": "maybe"}, {"scope": ""}, {"key": "x" * 4097}, {"wait_ms": 60_001},
               {"max_attempts": 0}, {"ttl_ms": 0})
        for change in bad:
            self.refused("POST", "/effects/begin", {**good, **change}, says=next(iter(change)))
        self.refused("POST", "/effects/begin", {**good, "nonsense": 1}, 400, "INVALID_JSON", "nonsense")
        self.absent()
        lease = self.execute()
        for change in ({"status": "unknown"}, {"status": "succeeded", "body": "a", "body_b64": "YQ=="},
                       {"status": "succeeded", "body_b64": "?"}, {"status": "succeeded", "code": 2**31}):
            self.refused("POST", "/effects/finish", {"token": lease["token"], **change})
        for verb, more in (("finish", {"status": "succeeded"}), ("renew", {})):
            for token in ("nobody's", lease["token"][:-1], lease["token"] + "A"):
                self.refused("POST", f"/effects/{verb}", {"token": token, **more}, 404, "LEASE_UNKNOWN")
        self.absent("another")
        identity = {"scope": self.topic, "key": "another"}
        self.refused("POST", "/effects/reacquire", identity, 404, "EFFECT_UNKNOWN")
        self.assertEqual(self.effect()["state"], "in_progress")


class Lapsing(EffectCase):
    def test_retry_is_taken_over_and_shuts_the_old_one_out(self):
        old = self.lapsed(owner="old")
        new = self.execute(epoch=2, attempt=2, lease_ms=LONG_MS, on_lapse="retry", owner="new")
        self.assertNotEqual(new["token"], old["token"])
        before = self.effect()
        self.assertEqual((before["owner"], before["epoch"], before["lease_live"]), ("new", 2, True))
        self.is_shut_out(old)
        self.assertEqual(self.effect(), before)
        self.conclude(new, body="mine")
        self.is_shut_out(old)
        self.replays(self.begin(), "succeeded", new, body="mine")

    def test_hold_becomes_unknown_by_itself_and_is_not_run_again(self):
        lease = self.execute(lease_ms=SHORT_MS)
        self.await_unknown("k")
        for request in ({}, {"reacquire": True}, {"on_lapse": "retry", "reacquire": True}, {"wait_ms": 5000}):
            answer = self.begin(**request)
            since = answer.pop("since")
            self.assertEqual(answer, {"decision": "unknown", "epoch": 1, "attempt": 1})
            self.assertGreaterEqual(seconds(since), seconds(lease["expires_at"]))
        self.assertEqual(self.reacquire()["decision"], "unknown")
        self.assertEqual(self.effect()["state"], "unknown")
        self.assertNotIn("lease_live", self.effect())

    def test_a_late_finish_counts_until_somebody_took_over(self):
        lapsed = self.lapsed("retry")
        self.conclude(lapsed, body="late")
        self.replays(self.begin("retry"), "succeeded", lapsed, body="late")
        unknown = self.made_unknown("hold")
        self.conclude(unknown, "failed_final", error="late")
        self.replays(self.begin("hold"), "failed_final", unknown, error="late")
        self.assertEqual(self.keys(state="unknown"), [])

    def test_renewing_keeps_a_lease_alive(self):
        lease, renewed = self.execute(lease_ms=900, on_lapse="retry"), 0
        end = time.monotonic() + 2
        while time.monotonic() < end:
            answer = self.begin(on_lapse="retry")
            self.assertEqual((answer["decision"], answer["epoch"]), ("in_progress", 1), f"renewed {renewed} times")
            self.renew(lease, lease_ms=900)
            renewed += 1
            time.sleep(0.1)
        longer = self.renew(lease, lease_ms=LONG_MS)
        self.assertGreater(seconds(longer["expires_at"]), time.time() + 50)
        self.assertEqual(self.effect()["lease_expires_at"], longer["expires_at"])
        self.conclude(lease)
        self.refused("POST", "/effects/renew", {"token": lease["token"]}, 409, "STALE_LEASE")


class Finishing(EffectCase):
    def test_the_same_result_again_is_committed_already(self):
        result = {"code": 7, "headers": {"a": "b"}, "body": "x"}
        lease = self.execute()
        first = self.conclude(lease, **result)
        again = self.conclude(lease, result="already_committed", **result)
        self.assertEqual(again["expires_at"], first["expires_at"])
        before = self.effect()
        different = ({**result, "code": 8}, {**result, "headers": {"a": "c"}}, {**result, "body": "y"},
                     {"body": "x"}, {**result, "status": "failed_final"}, {**result, "error": "e"})
        for change in different:
            body = {"token": lease["token"], "status": "succeeded", **change}
            self.refused("POST", "/effects/finish", body, 409, "STALE_LEASE")
        self.assertEqual(self.effect(), before)

    def test_a_failure_that_was_taken_again_is_over(self):
        lease = self.execute(max_attempts=5)
        self.conclude(lease, "failed_retryable", error="try later")
        self.conclude(lease, "failed_retryable", "already_committed", error="try later")
        again = self.executes(self.reacquire(lease_ms=LONG_MS), 2, 2)
        body = {"token": lease["token"], "status": "failed_retryable", "error": "try later"}
        self.refused("POST", "/effects/finish", body, 409, "STALE_LEASE")
        self.conclude(again)

    def test_a_result_may_be_large_but_not_too_large(self):
        lease = self.execute()
        large = {"body": "x" * (RESULT_BYTES_MAX + 1)}
        headers = {"headers": {f"h{index}": "x" * 8000 for index in range(40)}}
        for outcome in (large, headers):
            body = {"token": lease["token"], "status": "succeeded", **outcome}
            self.refused("POST", "/effects/finish", body, 413, "RESULT_TOO_LARGE")
        self.assertEqual(self.effect()["state"], "in_progress")
        fits = "x" * (RESULT_BYTES_MAX - 1024)
        self.conclude(lease, body=fits)
        self.replays(self.begin(), "succeeded", lease, body=fits)
        self.made_unknown("held")
        self.unresolved("held", 413, "RESULT_TOO_LARGE", **large)
        self.assertEqual(self.effect("held")["state"], "unknown")

    def test_an_outcome_is_forgotten_after_its_time(self):
        for status in ("succeeded", "failed_final", "failed_retryable"):
            old = self.execute(status, ttl_ms=500)
            told = self.conclude(old, status, body="old")
            outcome = self.effect(status)["outcome"]
            lasts = seconds(told["expires_at"]) - seconds(outcome["finished_at"])
            self.assertAlmostEqual(lasts, 0.5, delta=0.0015)
            until(lambda: status not in self.keys(), "it is forgotten")
            self.absent(status)
            new = self.execute(status)
            self.assertNotEqual(new["token"], old["token"])
            self.is_shut_out(old)
            body = {"token": old["token"], "status": status, "body": "old"}
            self.refused("POST", "/effects/finish", body, 409, "STALE_LEASE")
            self.assertEqual(self.effect(status)["state"], "in_progress")

    def test_what_runs_or_is_unknown_is_never_forgotten(self):
        self.execute("runs", ttl_ms=1)
        self.made_unknown("held", ttl_ms=1)
        left = self.execute("left", ttl_ms=1, lease_ms=SHORT_MS, on_lapse="retry")
        until(lambda: "left" not in self.keys(), "what nobody runs and anybody may run again is forgotten")
        self.assertEqual(self.keys(), ["runs", "held"])
        self.assertEqual(self.begin("runs")["decision"], "in_progress")
        self.assertEqual(self.begin("held")["decision"], "unknown")
        self.execute("left")
        self.is_shut_out(left)


class Resolving(EffectCase):
    """A resolution raises the epoch, so that whoever held the lease has no say any more. It is not an attempt."""

    def test_unknown_is_settled_by_somebody_who_knows(self):
        told = {"resolved_by": "ann", "resolved_why": "looked it up"}
        for status in ("succeeded", "failed_final"):
            lease = self.made_unknown(status)
            result = {"code": 3, "headers": {"a": "b"}, "body": "found"}
            for said in ("committed", "already_committed"):
                answer = self.resolve(status, status, said, **result)
                self.assertEqual((answer["epoch"], answer["attempt"]), (2, 1))
            self.is_shut_out(lease)
            self.replays(self.begin(status), status, answer, **result, **told)
            self.unresolved(status, 409, "EFFECT_FINISHED", body="another story")
            self.assertEqual(self.effect(status)["outcome"]["body"], "found")

    def test_what_did_not_happen_may_run_again(self):
        lease = self.made_unknown()
        for said in ("committed", "already_committed"):
            self.resolve("k", "failed_retryable", said)
        self.is_shut_out(lease)
        answer = self.begin()
        self.assertEqual((answer["decision"], answer["epoch"], answer["attempt"]), ("retryable", 2, 1))
        self.assertNotIn("attempts_left", answer)
        self.assertEqual(answer["outcome"]["resolved_by"], "ann")
        again = self.executes(self.reacquire(lease_ms=LONG_MS), 3, 2)
        self.conclude(again, body="now")
        self.replays(self.begin(), "succeeded", again, body="now")

    def test_a_lapsed_one_and_a_failed_one_are_resolved_too(self):
        lapsed = self.lapsed("lapsed")
        self.resolve("lapsed", "failed_final", epoch=1)
        self.is_shut_out(lapsed)
        self.conclude(self.execute("failed"), "failed_retryable", error="e")
        self.resolve("failed", "succeeded", body="it did work")
        self.assertEqual(self.begin("failed")["outcome"]["body"], "it did work")

    def test_what_runs_or_ended_is_left_alone(self):
        self.unresolved("nothing", 404, "EFFECT_UNKNOWN")
        lease = self.execute("runs")
        self.assertTrue(self.unresolved("runs", 409, "EFFECT_RUNNING")["retryable"])
        self.conclude(lease, body="mine")
        before = self.effect("runs")
        self.assertFalse(self.unresolved("runs", 409, "EFFECT_FINISHED")["retryable"])
        self.assertEqual(self.effect("runs"), before)

    def test_a_guard_on_the_epoch(self):
        self.lapsed()
        self.execute(epoch=2, attempt=2, lease_ms=SHORT_MS, on_lapse="retry")
        self.await_lapse()
        before = self.effect()
        for epoch in (1, 3):
            self.unresolved("k", 409, "STALE_LEASE", epoch=epoch)
        self.assertEqual(self.effect(), before)
        self.resolve(epoch=2)

    def test_who_and_why_must_be_said(self):
        self.made_unknown()
        for change in ({"by": ""}, {"why": ""}, {"by": "x" * 256}, {"why": "x" * 4097}, {"status": "unknown"}):
            self.unresolved("k", 400, "INVALID_ARGUMENT", **change)
        self.assertEqual(self.effect()["state"], "unknown")


class Capping(EffectCase):
    """Workers say the cap with every call, as they would; what a person grants counts all the same."""

    cap = {"max_attempts": 2, "on_lapse": "retry"}

    def retryable(self, epoch, left, attempt=2, **request):
        """Checks a begin that must answer how many attempts are left."""
        answer = self.begin(**self.cap, **request)
        outcome = answer.pop("outcome")
        self.assertEqual(outcome["status"], "failed_retryable")
        expected = {"decision": "retryable", "epoch": epoch, "attempt": attempt, "attempts_left": left}
        self.assertEqual(answer, expected)

    def exhausted(self):
        body = {"scope": self.topic, "key": "k", **self.cap}
        self.refused("POST", "/effects/reacquire", body, 409, "ATTEMPTS_EXHAUSTED")

    def use_up(self):
        """Two failures, and nothing is left."""
        self.conclude(self.execute(**self.cap), "failed_retryable", error="one")
        self.retryable(1, 1, attempt=1)
        second = self.execute(epoch=2, attempt=2, reacquire=True, **self.cap)
        self.conclude(second, "failed_retryable", error="two")
        self.retryable(2, 0)
        self.retryable(2, 0, reacquire=True)
        self.exhausted()
        self.assertEqual(self.effect()["max_attempts"], 2)

    def test_failures_use_the_attempts_up_and_a_person_grants_one_more(self):
        self.use_up()
        self.resolve(status="failed_retryable")
        self.retryable(3, 1)
        third = self.executes(self.reacquire(**self.cap), 4, 3)
        self.conclude(third, "failed_retryable")
        self.retryable(4, 0, attempt=3)
        self.exhausted()

    def test_one_more_is_granted_also_to_those_who_do_not_say_the_cap(self):
        self.use_up()
        self.resolve(status="failed_retryable")
        self.assertEqual(self.begin()["attempts_left"], 1)
        self.conclude(self.executes(self.reacquire(), 4, 3))

    def test_a_lapse_of_the_last_attempt_is_unknown(self):
        self.lapsed(max_attempts=2)
        last = self.execute(epoch=2, attempt=2, lease_ms=SHORT_MS, **self.cap)
        self.await_unknown("k")
        self.assertEqual(self.begin(**self.cap)["decision"], "unknown")
        self.resolve(status="failed_retryable")
        self.is_shut_out(last)
        self.retryable(3, 1)
        self.conclude(self.executes(self.reacquire(**self.cap), 4, 3), body="at last")
        self.assertEqual(self.begin(**self.cap)["outcome"]["body"], "at last")


if __name__ == "__main__":
    main()
