"""Effects that are given up, and messages that wait for effects without losing an attempt, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_effects_waiting.py
"""

import threading
import time

from _broker import Client, main, until
from _effects import LONG_MS, SHORT_MS, EffectCase

ROUNDS = 50


def token(item):
    return item["lease"]["token"]


class GivenUp(EffectCase):
    def release(self, lease, result="released", **more):
        answer = self.call("POST", "/effects/release", {"token": lease["token"], **more})
        self.assertEqual(answer, {"result": result})

    def test_the_next_one_has_it_at_once(self):
        for reacquire in (False, True):
            key = f"k{reacquire}"
            lease = self.execute(key, lease_ms=LONG_MS, max_attempts=1)
            self.release(lease)
            self.release(lease, "already_released")
            self.server.restart()
            self.release(lease, "already_released")
            effect = self.effect(key)
            stands = (effect["state"], effect["lease_live"], effect["released"], effect["attempt"])
            self.assertEqual(stands, ("in_progress", False, True, 0))
            again = self.execute(key, epoch=3, attempt=1, reacquire=reacquire, max_attempts=1)
            self.is_shut_out(lease)
            self.refused("POST", "/effects/release", {"token": lease["token"]}, 409, "STALE_LEASE")
            self.conclude(again, body="done")

    def test_one_who_waits_has_it_at_once(self):
        lease = self.execute(lease_ms=LONG_MS)
        told, client = [], Client(self.server)
        thread = threading.Thread(target=lambda: told.append(self.begin(client=client, wait_ms=30_000)))
        thread.start()
        until(lambda: self.waiting() == 1, "the waiter")
        begun = time.monotonic()
        self.release(lease)
        thread.join(30)
        client.close()
        self.executes(told[0], epoch=3)
        self.assertLess(time.monotonic() - begun, 10)

    def waiting(self):
        line = next(line for line in self.metrics().splitlines() if line.startswith("driftq_effects_waiting"))
        return int(float(line.rsplit(" ", 1)[1]))

    def metrics(self):
        return self.client.call("GET", "/metrics").raw.decode()

    def test_what_may_have_happened_is_unknown_at_once(self):
        lease = self.execute(lease_ms=LONG_MS)
        self.release(lease, uncertain=True)
        self.assertEqual(self.begin()["decision"], "unknown")
        self.conclude(lease, body="it happened after all")

    def test_one_asker_s_cap_is_nobody_else_s(self):
        self.execute(on_lapse="retry", lease_ms=SHORT_MS)
        until(lambda: not self.effect()["lease_live"], "the lapse")
        own = {"scope": self.topic, "key": "k", "on_lapse": "retry", "max_attempts": 1}
        self.refused("POST", "/effects/begin", own, 409, "ATTEMPTS_EXHAUSTED")
        self.assertEqual(self.effect()["state"], "in_progress")
        self.execute(epoch=2, attempt=2, on_lapse="retry")

    def test_a_key_may_be_as_long_as_a_message_s(self):
        key = "k" * 4096
        self.execute(key)
        self.assertEqual(self.effect(key)["key"], key)
        body = {"scope": "s", "key": key + "k"}
        self.refused("POST", "/effects/begin", body, 400, "INVALID_ARGUMENT")


class Waiting(EffectCase):
    def setUp(self):
        super().setUp()
        self.create(retry_policy={"max_attempts": 3, "backoff_ms": 0, "jitter": "none"})
        self.produce({"value": "v", "envelope": {"tenant_id": "acme", "run_id": "r", "step_id": "s"}})

    def put_off(self, item, delay_ms=LONG_MS, **effect):
        effect = {"scope": self.topic, "key": "k", **effect}
        lease = {"token": token(item), "effect": effect, "delay_ms": delay_ms}
        self.assertEqual(self.call("POST", "/leases/release", {"leases": [lease]}), {"results": [{"status": "ok"}]})

    def stands(self):
        (group,) = self.call("GET", f"/topics/{self.topic}/messages/0/0")["groups"]
        return group["state"], group["attempt"]

    def test_fifty_rounds_burn_no_attempt_and_the_resolution_brings_it_at_once(self):
        self.made_unknown()
        for _ in range(ROUNDS):
            item = self.taken(wait_ms=10_000)
            self.assertEqual(item["lease"]["attempt"], 1)
            self.put_off(item, delay_ms=1)
        item = self.taken(wait_ms=10_000)
        self.put_off(item)
        self.assertEqual(self.stands(), ("effect", 0))
        self.server.restart()
        self.assertEqual(self.stands(), ("effect", 0))
        self.assertEqual(self.lease(), [])
        begun = time.monotonic()
        self.resolve()
        item = self.taken(wait_ms=30_000)
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(item["lease"]["attempt"], 1)
        self.settle("ack", item)
        self.assertEqual(self.group()["lag"], 0)
        self.refused("GET", f"/dlq/{self.topic}/0/0", status=404, code="TOPIC_UNKNOWN")

    def test_it_comes_when_the_effect_ends_is_given_up_or_may_be_taken_over(self):
        ways = [
            ("finished", lambda lease: self.conclude(lease)),
            ("released", lambda lease: self.call("POST", "/effects/release", {"token": lease["token"]})),
            ("lapsed", lambda lease: None),
        ]
        for name, free in ways:
            lease_ms = SHORT_MS if name == "lapsed" else LONG_MS
            lease = self.execute(name, lease_ms=lease_ms, on_lapse="retry")
            self.put_off(self.taken(wait_ms=10_000), key=name)
            free(lease)
            begun = time.monotonic()
            item = self.taken(wait_ms=30_000)
            self.assertLess(time.monotonic() - begun, 20, name)
            self.assertEqual(item["lease"]["attempt"], 1)
            self.settle("release", item)

    def test_an_effect_of_a_delivery_inherits_and_shows_the_delivery(self):
        item = self.taken()
        self.settle("nack", item)
        item = self.taken(wait_ms=10_000)
        self.execute(lease_token=token(item))
        self.absent()
        effect = self.effect(tenant_id="acme")
        place = {"topic": self.topic, "partition": 0, "offset": 0, "attempt": 2}
        self.assertEqual((effect["message"], effect["run_id"], effect["step_id"]), (place, "r", "s"))
        answer = self.call("POST", "/effects/begin", {"effects": [
            {"scope": self.topic, "key": "many", "lease_token": token(item)},
            {"scope": self.topic, "key": "many", "tenant_id": "other", "lease_token": token(item)},
        ]})
        for result, tenant in zip(answer["results"], ("acme", "other")):
            self.executes(result)
            self.assertEqual(self.effect("many", tenant_id=tenant)["tenant_id"], tenant)


if __name__ == "__main__":
    main()
