"""The order of deliveries over the native API, and what is not promised about it, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_order.py
"""

import threading

from _broker import Case, main, until


class Caveats(Case):
    """Best-effort order in one queue, with its five caveats."""

    def test_1_one_queue_is_first_in_first_out(self):
        values = [f"m{index:02}" for index in range(40)]
        for ordering in ("fifo", "priority"):
            topic = f"{self.topic}-{ordering}"
            self.create(topic, ordering=ordering)
            for start in range(0, 40, 10):
                self.produce(*values[start : start + 10], topic=topic)
            got = []
            while len(got) < 40:
                items = self.lease(topic=topic, max=7)
                self.assertTrue(items)
                self.settle("ack", *items)
                got += [item["value"] for item in items]
            self.assertEqual(got, values)

    def test_2_a_retry_may_be_overtaken(self):
        self.create()
        self.produce("first", "second", "third")
        (first,) = self.lease()
        self.settle("nack", first, delay_ms=300)
        self.assertEqual(self.lease_values(max=5), ["second", "third"])
        self.assertEqual(self.lease_values(max=5, wait_ms=10_000), ["first"])

    def test_3_a_higher_priority_skips_ahead(self):
        messages = [{"value": f"p{priority}-{index}", "priority": priority}
                    for index in range(3) for priority in (0, 9, 5)]
        by_priority = sorted((message["value"] for message in messages), key=lambda value: (-int(value[1]), value))
        self.create()
        self.produce(*messages)
        self.assertEqual(self.lease_values(max=20), by_priority)
        topic = f"{self.topic}-fifo"
        self.create(topic, ordering="fifo")
        self.produce(*messages, topic=topic)
        in_order = [message["value"] for message in messages]
        self.assertEqual(self.lease_values(topic=topic, max=20), in_order, "fifo heeds no priority")

    def test_4_workers_claim_side_by_side(self):
        self.create()
        values = [f"m{index:02}" for index in range(60)]
        self.produce(*values)
        got, lock = [], threading.Lock()

        def work(owner):
            client = self.connect()
            while True:
                body = {"owner": owner, "max": 2, "lease_ms": 60_000}
                answer = client.call("POST", f"/v2/topics/{self.topic}/groups/g/lease", body)
                items = answer.json["messages"]
                if not items:
                    return
                with lock:
                    got.extend((owner, item["value"]) for item in items)
                tokens = [{"token": item["lease"]["token"]} for item in items]
                client.call("POST", "/v2/leases/ack", {"leases": tokens})

        workers = [threading.Thread(target=work, args=(f"w{index}",)) for index in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        self.assertEqual(sorted(value for _, value in got), values, "each message to exactly one worker")
        for owner in ("w0", "w1", "w2"):
            claimed = [value for worker, value in got if worker == owner]
            self.assertEqual(claimed, sorted(claimed), "what one worker claims is in order")
        # While one worker is slow, another finishes later messages first.
        self.produce("slow", "quick")
        (slow,), (quick,) = self.lease(owner="a"), self.lease(owner="b")
        self.settle("ack", quick)
        self.settle("ack", slow)
        self.assertEqual((slow["value"], quick["value"]), ("slow", "quick"))

    def test_5_queues_know_nothing_of_each_other(self):
        one, two = f"{self.topic}-one", f"{self.topic}-two"
        self.create(one)
        self.create(two)
        self.produce("early", topic=one)
        self.produce("late", topic=two)
        self.assertEqual(self.lease_values(topic=two), ["late"], "the later message of another queue, first")
        self.call("POST", f"/topics/{one}/pause")
        self.produce("later", topic=two)
        self.assertEqual(self.lease_values(topic=two), ["later"])
        self.call("POST", f"/topics/{one}/resume")
        self.assertEqual(self.lease_values(topic=one), ["early"])


class KeyOrder(Case):
    def test_one_in_flight_per_key(self):
        self.create(ordering="key", partitions=2)
        self.produce(*({"value": f"{key}{index}", "key": key} for index in range(4) for key in "abc"))
        seen = {key: [] for key in "abc"}
        for _ in range(4):
            items = self.lease(max=20, lease_ms=60_000, wait_ms=5000)
            self.assertEqual(sorted(item["key"] for item in items), ["a", "b", "c"], "one of each key")
            self.assertEqual(self.lease(max=20), [])
            for item in items:
                seen[item["key"]].append(item["value"])
            self.settle("ack", *items)
        self.assertEqual(seen, {key: [f"{key}{index}" for index in range(4)] for key in "abc"})

    def test_strict_through_a_nack_with_backoff_and_a_kill(self):
        self.create(ordering="key")
        places = self.produce(*({"value": f"a{index}", "key": "a"} for index in range(3)),
                              {"value": "b0", "key": "b"})
        items = self.lease(max=20)
        self.assertEqual([item["value"] for item in items], ["a0", "b0"])
        self.settle("nack", items[0], delay_ms=700, error="not yet")
        self.settle("ack", items[1])
        self.assertEqual(self.state(places[1])["state"], "key_busy")
        self.assertEqual(self.lease(max=20), [], "the key waits with its first message")
        self.server.restart()
        self.assertEqual(self.state(places[1])["state"], "key_busy")
        got = []
        while len(got) < 3:
            (item,) = self.lease(max=20, wait_ms=10_000)
            got.append((item["value"], item["lease"]["attempt"]))
            self.settle("ack", item)
        self.assertEqual(got, [("a0", 2), ("a1", 1), ("a2", 1)])

    def test_a_lapse_does_not_let_the_next_one_pass(self):
        self.create(ordering="key")
        place, _ = self.produce({"value": "a0", "key": "a"}, {"value": "a1", "key": "a"})
        self.lease(lease_ms=100)
        until(lambda: self.state(place)["state"] != "in_flight", "the lease lapses")
        self.assertEqual(self.lease_values(max=5, wait_ms=5000), ["a0"])

    def test_messages_without_a_key_do_not_wait_for_each_other(self):
        self.create(ordering="key")
        self.produce("x", "y", "z")
        self.assertEqual(self.lease_values(max=5), ["x", "y", "z"])


class Sharing(Case):
    """Retries and fresh messages side by side."""

    def poison(self, count):
        """Messages that have failed and are due again."""
        self.create(retry_policy={"backoff_ms": 0, "jitter": "none"})
        places = self.produce(*(f"poison{index}" for index in range(count)))
        self.settle("nack", *self.lease(max=count), delay_ms=0)
        for place in places:
            self.await_state(place, "ready")

    def test_poison_takes_its_share_and_no_more(self):
        self.poison(10)
        self.produce(*(f"fresh{index}" for index in range(300)))
        fresh = retries = 0
        while fresh < 300:
            items = self.lease(max=10, lease_ms=60_000)
            done = [item for item in items if item["value"].startswith("fresh")]
            failed = [item for item in items if not item["value"].startswith("fresh")]
            fresh, retries = fresh + len(done), retries + len(failed)
            if done:
                self.settle("ack", *done)
            if failed:
                self.settle("nack", *failed, delay_ms=0)
        share = retries / (fresh + retries)
        self.assertTrue(0.15 <= share <= 0.25, f"retries got {share:.1%}")
        self.assertEqual(self.group()["lag"], 10, "none of them is gone")

    def test_a_flood_of_fresh_messages_does_not_starve_a_retry(self):
        self.poison(3)
        self.produce(*(f"fresh{index}" for index in range(500)))
        values = self.lease_values(max=25)
        self.assertEqual([value for value in values if value.startswith("poison")], ["poison0", "poison1", "poison2"])
        self.assertEqual(len(values), 25)

    def test_the_share_is_the_topics(self):
        self.create(retry_policy={"backoff_ms": 0, "jitter": "none"}, retry_share_percent=50)
        places = self.produce(*(f"poison{index}" for index in range(50)))
        self.settle("nack", *self.lease(max=50), delay_ms=0)
        for place in places:
            self.await_state(place, "ready")
        self.produce(*(f"fresh{index}" for index in range(100)))
        values = self.lease_values(max=40)
        retries = sum(value.startswith("poison") for value in values)
        self.assertTrue(18 <= retries <= 22, f"{retries} of 40")


if __name__ == "__main__":
    main()
