"""Leases, streams and what a token is worth over the native API, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_lease.py
"""

import threading
import time

from _broker import Case, main, seconds, until

SHORT_MS = 150


class Lending(Case):
    def test_a_long_poll_is_woken_by_a_produce(self):
        self.create()
        waiter, got = self.connect(), []
        path = f"/v2/topics/{self.topic}/groups/g/lease"
        wait = lambda: got.append(waiter.call("POST", path, {"owner": "w", "wait_ms": 25_000}))
        thread = threading.Thread(target=wait)
        begun = time.monotonic()
        thread.start()
        # A group begins with its first reader, so its name says that the call has arrived.
        until(lambda: self.call("GET", f"/topics/{self.topic}")["groups"] == ["g"], "the group")
        self.produce("news")
        thread.join(30)
        self.assertEqual([item["value"] for item in got[0].json["messages"]], ["news"], str(got[0]))
        self.assertLess(time.monotonic() - begun, 20, "woken, not timed out")

    def test_a_long_poll_without_messages_ends_in_time(self):
        self.create()
        begun = time.monotonic()
        self.assertEqual(self.lease(wait_ms=300), [])
        self.assertGreaterEqual(time.monotonic() - begun, 0.29)
        self.refused("POST", "/topics/nowhere/groups/g/lease", {"owner": "w"}, 404, "TOPIC_UNKNOWN")

    def test_a_repeated_request_gets_the_same_messages(self):
        self.create()
        self.produce(*(f"m{index}" for index in range(6)))
        first = self.lease(max=3, request_id="r1")
        self.assertEqual(self.lease(max=3, request_id="r1"), first, "a lost answer loses nothing")
        second = self.lease(max=3, request_id="r2")
        self.assertEqual([item["value"] for item in first + second], [f"m{index}" for index in range(6)])
        self.assertEqual(self.group()["in_flight"], 6)
        self.settle("ack", *first)
        self.assertEqual(self.group()["lag"], 3)

    def test_a_stream_never_exceeds_its_credit(self):
        self.create()
        self.produce(*(f"m{index}" for index in range(20)))
        stream, settled = self.open(owner="w", credit=3), 0
        while settled < 20:
            expected = min(settled + 3, 20)
            until(lambda: len(stream.items) >= expected, f"{expected} messages")
            self.assertEqual(self.group()["in_flight"], expected - settled)
            # Time for a message too many to show itself.
            self.assertFalse(stream.has_ended.wait(0.02), stream.error)
            self.assertEqual(len(stream.items), expected, "never more than the credit")
            self.settle("ack", stream.items[settled])
            settled += 1
        self.assertEqual([item["value"] for item in stream.items], [f"m{index}" for index in range(20)])

    def test_a_token_outlives_its_stream(self):
        self.create()
        self.produce("a", "b")
        stream = self.open(owner="w", credit=2, lease_ms=60_000)
        until(lambda: len(stream.items) == 2, "both messages")
        self.settle("ack", stream.items[0])
        stream.close()
        until(lambda: self.group()["consumers"] == 0, "the stream is gone")
        self.settle("ack", stream.items[1])
        self.assertEqual(self.group()["lag"], 0)


class Fencing(Case):
    """A worker that sleeps past its lease."""

    def lapsed(self, *values, **request):
        """Deliveries to worker `a` whose leases have lapsed, with no newer attempt."""
        places = self.produce(*values)
        items = self.lease(owner="a", max=len(values), lease_ms=SHORT_MS, **request)
        self.assertEqual(len(items), len(values))
        for place in places:
            until(lambda: self.state(place)["state"] != "in_flight", "the lease lapses")
        return places, items

    def test_before_a_newer_attempt_late_calls_are_accepted(self):
        self.create()
        places, (acked, nacked, extended) = self.lapsed("ack", "nack", "extend")
        self.settle("ack", acked)
        self.settle("extend", extended, lease_ms=60_000)
        self.settle("nack", nacked)
        self.assertEqual(self.state(places[2])["state"], "in_flight", "held again")
        taken = self.lease(owner="b", max=10, wait_ms=5000)
        self.assertEqual([(item["value"], item["lease"]["attempt"]) for item in taken], [("nack", 2)])
        self.settle("ack", extended)

    def test_once_a_newer_attempt_started_a_stale_worker_changes_nothing(self):
        self.create()
        places, (old,) = self.lapsed("v")
        (new,) = self.lease(owner="b", lease_ms=60_000, wait_ms=5000)
        self.assertEqual((old["lease"]["attempt"], new["lease"]["attempt"]), (1, 2))
        before = self.state(places[0])
        for verb in ("ack", "nack", "extend", "release"):
            self.stale(verb, old, attempt=2)
            self.assertEqual(self.state(places[0]), before, verb)
        tokens = [{"token": item["lease"]["token"]} for item in (old, new)] + [{"token": "nobody's"}]
        results = self.call("POST", "/leases/extend", {"leases": tokens})["results"]
        self.assertEqual([result["status"] for result in results], ["stale", "ok", "unknown"])
        self.assertEqual(results[0]["attempt"], 2)
        self.settle("ack", new)
        for verb in ("ack", "nack", "extend", "release"):
            self.stale(verb, old)
        self.settle("ack", new)
        self.assertEqual(self.group()["lag"], 0)

    def test_a_repeated_ack_succeeds_also_after_a_kill(self):
        self.create()
        self.produce("a", "b")
        first, second = self.lease(max=2, lease_ms=60_000)
        for _ in range(2):
            self.settle("ack", first)
        self.server.restart()
        self.settle("ack", first)
        self.stale("nack", first)
        # The second one is its holder's as before; the first is never lent again.
        self.assertEqual(self.lease(max=2), [])
        self.settle("ack", second)
        self.server.restart()
        for item in (first, second):
            self.settle("ack", item)
        self.assertEqual(self.lease(max=2), [])

    def test_a_token_is_authority_for_one_delivery(self):
        self.create()
        place, = self.produce("v")
        (one,), (two,) = self.lease(group="g1"), self.lease(group="g2")
        self.assertNotEqual(one["lease"]["token"], two["lease"]["token"])
        self.settle("ack", one)
        self.assertEqual(self.state(place, "g2")["state"], "in_flight", "another group's loan is another loan")
        token = two["lease"]["token"]
        for forged in (token[:-1], token + "A", token[::-1], token.swapcase(), "A" * len(token), "\u0000", "ä"):
            body = {"leases": [{"token": forged}]}
            self.refused("POST", "/leases/ack", body, 404, "LEASE_UNKNOWN")
        self.settle("ack", two)


class Settling(Case):
    def test_extend_lengthens_and_tells_of_a_cancellation(self):
        self.create()
        place, = self.produce("v")
        (item,) = self.lease(lease_ms=30_000)
        (result,) = self.settle("extend", item, lease_ms=90_000)
        self.assertGreater(seconds(result["expires_at"]), seconds(item["lease"]["expires_at"]) + 50)
        self.assertFalse(result.get("cancelled"))
        path = f"/topics/{self.topic}/messages/{place['partition']}/{place['offset']}"
        for _ in range(2):
            self.assertEqual(self.call("DELETE", path), {"cancelled": True, "running": ["g"]})
        self.assertTrue(self.settle("extend", item)[0]["cancelled"])
        self.settle("nack", item)
        self.assertEqual(self.lease(wait_ms=100), [], "no further attempt begins")

    def test_a_cancelled_message_is_never_lent(self):
        self.create()
        gone, kept = self.produce("gone", {"value": "kept"})
        later, = self.produce({"value": "later", "delay_ms": 50})
        for place in (gone, later):
            path = f"/topics/{self.topic}/messages/{place['partition']}/{place['offset']}"
            self.assertEqual(self.call("DELETE", path), {"cancelled": True, "running": []})
        (item,) = self.lease(max=5, wait_ms=200)
        self.assertEqual(item["value"], "kept")
        # A first delivery may be made again after a kill; an extension that was confirmed is kept.
        self.settle("extend", item, lease_ms=60_000)
        self.server.restart()
        self.assertEqual(self.lease_values(max=5, wait_ms=200), [], "what is on loan stays on loan")

    def test_release_uses_no_attempt(self):
        self.create(retry_policy={"max_attempts": 1})
        self.produce("v")
        for _ in range(3):
            (item,) = self.lease(wait_ms=2000)
            self.assertEqual(item["lease"]["attempt"], 1)
            self.settle("release", item)
        (item,) = self.lease(wait_ms=2000)
        self.settle("ack", item)

    def test_release_with_a_delay_uses_no_attempt_and_survives_a_restart(self):
        self.create(retry_policy={"max_attempts": 1})
        place, = self.produce("v")
        (item,) = self.lease()
        begun = time.monotonic()
        self.settle("release", item, delay_ms=600)
        self.server.restart()
        self.assertEqual((self.state(place)["state"], self.lease()), ("backoff", []))
        (item,) = self.lease(wait_ms=10_000)
        self.assertGreaterEqual(time.monotonic() - begun, 0.59)
        self.assertEqual(item["lease"]["attempt"], 1)
        self.settle("ack", item)

    def test_nack_with_a_delay_and_an_error(self):
        self.create()
        place, = self.produce("v")
        (item,) = self.lease()
        begun = time.monotonic()
        self.settle("nack", item, delay_ms=400, error="the database is away")
        state = self.state(place)
        self.assertEqual((state["state"], state["last_error"]), ("backoff", "the database is away"))
        self.assertEqual(self.lease(), [])
        (item,) = self.lease(wait_ms=10_000)
        self.assertGreaterEqual(time.monotonic() - begun, 0.39)
        self.assertEqual((item["lease"]["attempt"], item["last_error"]), (2, "the database is away"))

    def test_backoff_grows_as_the_policy_says(self):
        self.create(retry_policy={"backoff_ms": 100, "max_backoff_ms": 200, "jitter": "none"})
        self.produce("v")
        for least in (0.1, 0.2, 0.2):
            (item,) = self.lease(wait_ms=10_000)
            begun = time.monotonic()
            self.settle("nack", item)
            (item,) = self.lease(wait_ms=10_000)
            self.assertGreaterEqual(time.monotonic() - begun, least - 0.005)
            self.settle("release", item)


if __name__ == "__main__":
    main()
