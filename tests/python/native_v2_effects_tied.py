"""Effects that are tied to a delivery, and workers that crash between effect and ack, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_effects_tied.py
"""

import time

from _broker import Client, main, until
from _effects import LONG_MS, SHORT_MS, EffectCase


def token(item):
    return item["lease"]["token"]


class Tied(EffectCase):
    def setUp(self):
        super().setUp()
        self.create(retry_policy={"backoff_ms": 0, "jitter": "none"})

    def test_it_knows_its_message(self):
        self.produce("first", {"value": "v", "envelope": {"run_id": "r", "step_id": "s"}})
        self.taken()
        item = self.taken()
        self.execute(lease_token=token(item))
        effect = self.effect()
        place = {**{name: item[name] for name in ("topic", "partition", "offset")}, "attempt": 1}
        self.assertEqual((effect["message"], effect["run_id"], effect["step_id"]), (place, "r", "s"))

    def test_a_newer_attempt_shuts_it_out_and_takes_over_at_once(self):
        _, lease, new = self.fenced(on_lapse="retry")
        before = self.effect()
        self.assertEqual((before["state"], before["epoch"], before["lease_live"]), ("in_progress", 1, False))
        self.is_shut_out(lease)
        self.assertEqual(self.effect(), before)
        # Its own lease would run for a minute, but its delivery is over.
        again = self.execute(epoch=2, attempt=2, on_lapse="retry", lease_token=token(new))
        self.is_shut_out(lease)
        self.conclude(again, body="by the second")
        self.settle("ack", new)
        self.replays(self.begin(), "succeeded", again, body="by the second")

    def test_a_newer_attempt_of_one_that_must_not_be_repeated(self):
        _, lease, new = self.fenced(on_lapse="hold")
        answer = self.begin(lease_token=token(new))
        self.assertEqual((answer["decision"], answer["epoch"], answer["attempt"]), ("unknown", 1, 1))
        self.is_shut_out(lease)
        self.assertEqual(self.keys(state="unknown"), ["k"])
        self.resolve(status="failed_retryable")
        again = self.execute(epoch=3, attempt=2, reacquire=True, lease_token=token(new))
        self.conclude(again)
        self.settle("ack", new)

    def test_a_nack_shuts_it_out_as_soon_as_the_next_attempt_begins(self):
        self.produce("v")
        first = self.taken()
        lease = self.execute(on_lapse="retry", lease_ms=LONG_MS, lease_token=token(first))
        self.settle("nack", first)
        second = self.taken()
        self.is_shut_out(lease)
        self.conclude(self.execute(epoch=2, attempt=2, on_lapse="retry", lease_token=token(second)))

    def test_a_lapse_of_the_delivery_alone_takes_nothing_away(self):
        place, = self.produce("v")
        item = self.taken(lease_ms=SHORT_MS)
        lease = self.execute(lease_ms=LONG_MS, lease_token=token(item))
        until(lambda: self.state(place)["state"] != "in_flight", "the delivery lapses")
        self.conclude(lease, body="late")
        self.settle("ack", item)
        self.replays(self.begin(), "succeeded", lease, body="late")

    def test_a_delivery_on_loan_keeps_it_alive(self):
        """A heartbeat for the delivery is enough; the effect needs none of its own."""
        self.produce("v")
        item = self.taken(lease_ms=900)
        lease = self.execute(lease_ms=100, on_lapse="retry", lease_token=token(item))
        end = time.monotonic() + 2
        while time.monotonic() < end:
            self.settle("extend", item, lease_ms=900)
            answer = self.begin(on_lapse="retry")
            self.assertEqual((answer["decision"], answer["epoch"]), ("in_progress", 1))
            self.assertGreater(answer["retry_after_ms"], 0)
            time.sleep(0.1)
        effect = self.effect()
        self.assertEqual((effect["state"], effect["lease_live"]), ("in_progress", True))
        self.conclude(lease, body="slow")
        self.settle("ack", item)
        self.replays(self.begin(), "succeeded", lease, body="slow")

    def test_without_its_delivery_its_own_lease_decides(self):
        self.produce("acked", "lapsed")
        acked, lapsed = self.taken(), self.taken(lease_ms=SHORT_MS)
        self.execute("acked", lease_ms=SHORT_MS, on_lapse="retry", lease_token=token(acked))
        self.execute("lapsed", lease_ms=1, lease_token=token(lapsed))
        self.settle("ack", acked)
        self.await_lapse("acked")
        self.execute("acked", epoch=2, attempt=2, on_lapse="retry")
        self.await_unknown("lapsed")

    def test_a_token_that_is_over_or_nobodys_begins_nothing(self):
        old, _, new = self.fenced()
        request = {"scope": self.topic, "key": "k"}
        self.refused("POST", "/effects/begin", {**request, "lease_token": token(old)}, 409, "STALE_LEASE")
        self.refused("POST", "/effects/begin", {**request, "lease_token": "nobody's"}, 404, "LEASE_UNKNOWN")
        self.settle("ack", new)
        self.refused("POST", "/effects/begin", {**request, "lease_token": token(new)}, 409, "STALE_LEASE")
        self.absent()
        self.conclude(self.execute(), "failed_retryable")
        before = self.effect()
        for verb in ("begin", "reacquire"):
            body = {**request, "lease_token": token(old)}
            if verb == "begin":
                body["reacquire"] = True
            self.refused("POST", f"/effects/{verb}", body, 409, "STALE_LEASE")
        self.assertEqual(self.effect(), before)

    def test_a_kill_leaves_it_and_its_delivery_as_they_are(self):
        self.produce("v")
        item = self.taken(owner="a")
        lease = self.execute(lease_ms=LONG_MS, on_lapse="retry", lease_token=token(item))
        self.server.restart()
        # The message is on loan as before: nobody else gets it, and its holder goes on.
        self.assertEqual(self.lease(owner="b"), [])
        answer = self.begin(on_lapse="retry")
        self.assertEqual((answer["decision"], answer["epoch"]), ("in_progress", 1))
        self.conclude(lease, body="by a")
        self.replays(self.begin(on_lapse="retry"), "succeeded", lease, body="by a")
        self.settle("ack", item)


class Crash(Exception):
    """The worker is gone; nothing after this line runs."""


class CrashingWorker(EffectCase):
    """The published pattern for side effects, with the broker's effects in the place of the worker's own store."""

    policy = {"backoff_ms": 0, "jitter": "none"}

    def setUp(self):
        super().setUp()
        self.create(retry_policy=self.policy)
        self.artifacts = []
        envelope = {"run_id": self.topic, "step_id": "charge_card"}
        self.place, = self.produce({"value": "order-7", "envelope": envelope})

    def work(self, crash=None, fail=False):
        """Takes one delivery and handles it as the pattern says; answers what it decided."""
        item = self.taken(lease_ms=LONG_MS if crash is None else SHORT_MS)
        envelope = item["envelope"]
        key = f"{envelope['run_id']}:{envelope['step_id']}:{item['value']}"
        if fail:
            self.settle("nack", item, error="before the effect")
            return "failed"
        answer = self.begin(key, on_lapse="hold", lease_token=token(item))
        if answer["decision"] == "execute":
            self.artifacts.append(key)
            self.crash_at("effect", crash)
            self.conclude(answer["lease"], body=f"ticket for {key}")
        elif answer["decision"] == "unknown":
            self.settle("nack", item, delay_ms=100, error="somebody has to look")
            return "unknown"
        self.crash_at("finish", crash)
        self.settle("ack", item)
        return answer["decision"]

    def crash_at(self, point, crash):
        if point == crash:
            raise Crash(point)

    def is_done(self, attempts):
        """One effect in the world, one in the ledger, one ack."""
        key = f"{self.topic}:charge_card:order-7"
        self.assertEqual(self.artifacts, [key])
        self.assertEqual([(effect["key"], effect["state"]) for effect in self.listed()], [(key, "succeeded")])
        self.assertEqual((self.group()["lag"], self.group()["in_flight"]), (0, 0))
        self.assertEqual(self.lease(wait_ms=200), [], "it is not delivered again")
        run = self.call("GET", f"/runs/{self.topic}")
        messages = [message for step in run["steps"] for message in step["messages"]
                    if message["topic"] == self.topic]
        states = [(group["state"], group["attempts"]) for group in messages[0]["groups"]]
        self.assertEqual((len(messages), states), (1, [("done", attempts)]))

    def test_a_failure_before_the_effect_is_a_plain_retry(self):
        self.assertEqual(self.work(fail=True), "failed")
        self.assertEqual(self.work(), "execute")
        self.is_done(attempts=2)

    def test_a_crash_between_the_finish_and_the_ack_repeats_nothing(self):
        with self.assertRaises(Crash):
            self.work(crash="finish")
        self.assertEqual(self.work(), "replay")
        self.is_done(attempts=2)

    def test_a_crash_between_the_effect_and_the_finish_is_not_repeated_blindly(self):
        with self.assertRaises(Crash):
            self.work(crash="effect")
        self.assertEqual(self.work(), "unknown")
        self.resolve(f"{self.topic}:charge_card:order-7", "succeeded", body="the ticket is there")
        self.assertEqual(self.work(), "replay")
        self.is_done(attempts=3)

    def test_a_crash_of_both(self):
        with self.assertRaises(Crash):
            self.work(crash="finish")
        self.server.restart()
        self.assertEqual(self.work(), "replay")
        self.is_done(attempts=2)


class Helper:
    """The consumer's helper of v1.6 in its own words, on effects: scope = topic, FAILED may begin again."""

    def __init__(self, server):
        self.client, self.tokens = Client(server), {}

    def post(self, verb, **body):
        answer = self.client.call("POST", f"/v2/effects/{verb}", body)
        return answer.json if answer.status == 200 else None

    def begin(self, tenant, topic, key):
        """The status, and whether the caller is the one who runs it."""
        identity = {"tenant_id": tenant, "scope": topic, "key": key}
        said = self.post("begin", on_lapse="retry", reacquire=True, **identity)
        if said["decision"] == "execute":
            self.tokens[tenant, topic, key] = said["lease"]["token"]
        return "COMMITTED" if said["decision"] == "replay" else "PENDING", said["decision"] == "execute"

    def mark_success(self, tenant, topic, key, result=""):
        self.post("finish", token=self.tokens[tenant, topic, key], status="succeeded", body=result)

    def mark_failure(self, tenant, topic, key, error):
        self.post("finish", token=self.tokens[tenant, topic, key], status="failed_retryable", error=error)

    def status(self, tenant, topic, key):
        words = {"in_progress": "PENDING", "succeeded": "COMMITTED", "failed_retryable": "FAILED"}
        effect = self.post("get", tenant_id=tenant, scope=topic, key=key)
        return effect and words[effect["state"]]


class OldWords(EffectCase):
    """The example flows of the v1.6 contract."""

    def setUp(self):
        super().setUp()
        self.create(retry_policy={"backoff_ms": 0, "jitter": "none"})
        self.helper, self.done = Helper(self.server), []
        self.addCleanup(self.helper.client.close)
        self.produce({"value": "v", "envelope": {"tenant_id": "acme", "idempotency_key": "order-1"}})

    @property
    def operation(self):
        return "acme", self.topic, "order-1"

    def handle(self, item, error=None):
        """What the contract asks of a worker."""
        status, mine = self.helper.begin(*self.operation)
        if mine and error:
            self.helper.mark_failure(*self.operation, error)
            self.settle("nack", item, error=error)
            return "FAILED"
        if mine:
            self.done.append(item["value"])
            self.helper.mark_success(*self.operation, "result")
        self.settle("ack", item)
        return status if not mine else "RUN"

    def is_committed(self):
        self.assertEqual(self.helper.status(*self.operation), "COMMITTED")
        self.assertEqual((self.done, self.group()["lag"]), (["v"], 0))
        self.assertEqual(self.lease(wait_ms=100), [])

    def test_success_on_the_first_attempt(self):
        self.assertIsNone(self.helper.status(*self.operation))
        item = self.taken()
        self.assertEqual(item["lease"]["attempt"], 1)
        self.assertEqual(self.handle(item), "RUN")
        self.is_committed()

    def test_failure_then_success(self):
        self.assertEqual(self.handle(self.taken(), error="db_deadlock"), "FAILED")
        self.assertEqual(self.helper.status(*self.operation), "FAILED")
        item = self.taken()
        self.assertEqual((item["lease"]["attempt"], item["last_error"]), (2, "db_deadlock"))
        self.assertEqual(self.handle(item), "RUN")
        self.is_committed()

    def test_a_duplicate_delivery_skips(self):
        first = self.taken(lease_ms=SHORT_MS)
        self.assertEqual(self.helper.begin(*self.operation), ("PENDING", True))
        self.assertEqual(self.helper.begin(*self.operation), ("PENDING", False), "one at a time")
        self.done.append(first["value"])
        self.helper.mark_success(*self.operation, "result")
        second = self.taken()
        self.assertEqual(second["lease"]["attempt"], 2, "the first ack was never sent")
        self.assertEqual(self.handle(second), "COMMITTED")
        self.is_committed()

    def test_another_topic_or_tenant_is_another_operation(self):
        self.assertEqual(self.helper.begin("acme", self.topic, "order-1"), ("PENDING", True))
        self.assertEqual(self.helper.begin("acme", self.topic + "-2", "order-1"), ("PENDING", True))
        self.assertEqual(self.helper.begin("", self.topic, "order-1"), ("PENDING", True))


if __name__ == "__main__":
    main()
