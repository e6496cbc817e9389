"""What topics keep, which retries are in force, and what deadlines do, over the native API, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_policy.py
"""

import time

from _broker import Case, main, seconds, until


class History(Case):
    """What every group is done with, in topics that keep it."""

    def partition(self):
        return self.call("GET", f"/topics/{self.topic}")["partitions"][0]

    def work(self, *values, group="g"):
        self.produce(*values)
        items = self.lease(group=group, max=100)
        self.settle("ack", *items)
        return [item["value"] for item in items]

    def browse(self, **query):
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return self.call("GET", f"/topics/{self.topic}/messages?{asked}")["messages"]

    def test_a_late_group_reads_what_others_are_done_with(self):
        self.create(keep_ms=3_600_000)
        self.work(*"abc")
        self.assertEqual(self.lease_values(group="late", max=9), ["a", "b", "c"])

    def test_without_the_setting_it_is_gone(self):
        self.create()
        self.work(*"abc")
        self.assertEqual(self.lease_values(group="late", max=9), [])

    def test_it_survives_a_restart_and_a_group_can_go_back(self):
        self.create(keep_bytes=100)
        self.work(*"abc")
        self.server.restart()
        self.client = self.connect()
        self.call("POST", f"/topics/{self.topic}/groups/g/seek", {"to": "earliest"})
        self.assertEqual(self.lease_values(max=9), ["a", "b", "c"])

    def test_it_is_shown(self):
        self.create(keep_ms=3_600_000)
        self.work(*"ab")
        self.produce("c")
        self.assertEqual([(item["value"], item.get("kept", False)) for item in self.browse()],
                         [("a", True), ("b", True), ("c", False)])
        self.assertEqual([item["value"] for item in self.browse(state="done")], ["a", "b"])
        found = self.partition()
        shown = {name: found[name] for name in ("messages", "kept_messages", "kept_bytes", "oldest_offset",
                                                "earliest_offset")}
        self.assertEqual(shown, {"messages": 1, "kept_messages": 2, "kept_bytes": 2, "oldest_offset": 2,
                                 "earliest_offset": 0})

    def test_it_is_bounded_and_goes_when_it_is_not_wanted(self):
        self.create(keep_bytes=2)
        self.work(*"abcd")
        until(lambda: self.partition()["kept_messages"] == 2, "the oldest go")
        self.assertEqual(self.partition()["earliest_offset"], 2)
        changed = self.call("PATCH", f"/topics/{self.topic}", {"keep_bytes": None})["changed"]
        self.assertEqual(changed, [{"setting": "keep_bytes", "before": 2, "after": None}])
        until(lambda: self.partition()["kept_messages"] == 0, "all go")

    def test_it_goes_by_age(self):
        self.create(keep_ms=100)
        self.work("a")
        until(lambda: self.partition()["kept_messages"] == 0, "it is too old")

    def test_history_stops_no_producer(self):
        self.create(keep_bytes=100, partition_messages_max=2)
        for _ in range(3):
            self.work("a", "b")
        self.assertEqual(self.lease_values(group="late", max=1), ["a"])
        self.produce("c")

    def test_nothing_is_no_setting(self):
        for name in ("keep_ms", "keep_bytes"):
            self.refused("PUT", f"/topics/{self.topic}", {name: 0}, says=name)


class Retries(Case):
    """Which retry policy is in force."""

    flags = ("--retry-max-attempts", "3", "--retry-backoff-ms", "1", "--retry-max-backoff-ms", "2")
    server_policy = {"max_attempts": 3, "backoff_ms": 1, "max_backoff_ms": 2, "jitter": "full"}

    def tries(self):
        """Fails the message until it is gone; says how often."""
        for attempt in range(1, 99):
            item, = until(lambda: self.lease(max=1) or self.dead(), "the next attempt, or none")
            if "lease" not in item:
                return attempt - 1
            self.settle("nack", item)

    def dead(self):
        listed = self.call("GET", "/dlq")["topics"]
        return [letters for letters in listed if letters["name"] == self.topic]

    def policy(self, place):
        path = f"/topics/{self.topic}/messages/{place['partition']}/{place['offset']}"
        return self.call("GET", path)["retry_policy"]

    def test_a_message_without_a_policy_ends(self):
        self.create()
        place, = self.produce("v")
        self.assertEqual(self.policy(place), self.server_policy)
        described = self.call("GET", f"/topics/{self.topic}")["settings"]
        self.assertEqual((described["retry_policy"], described["set"]), (self.server_policy, []))
        self.assertEqual(self.tries(), 3)

    def test_topics_and_messages_decide_for_themselves(self):
        self.create(retry_policy={"max_attempts": 2, "jitter": "none"})
        first, second = self.produce("v", {"value": "w", "envelope": {"retry_policy": {"max_attempts": 1}}})
        self.assertEqual(self.policy(first), {"max_attempts": 2, "backoff_ms": 0, "jitter": "none"})
        self.assertEqual(self.policy(second)["max_attempts"], 1)

    def test_over_v1_there_is_no_limit(self):
        self.create()
        answer = self.client.call("POST", "/v1/produce", {"topic": self.topic, "value": "v"})
        self.assertEqual(answer.status, 200, answer)
        self.assertNotIn("max_attempts", self.policy({"partition": 0, "offset": 0}))


class Deadlines(Case):
    """Messages that nobody is to begin any more."""

    def letters(self):
        answer = self.client.call("GET", f"/v2/dlq/{self.topic}")
        return answer.json["letters"] if answer.status == 200 else []

    def soon(self):
        moment = time.time() + 0.3
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"

    def test_nobody_reads_and_it_becomes_a_dead_letter(self):
        self.create()
        self.assertEqual(self.lease(), [], "the group begins")
        self.produce({"value": "v", "envelope": {"deadline": self.soon()}})
        letter, = until(self.letters, "the letter")
        found = letter["envelope"]["dead_letter"]
        self.assertEqual((found["reason"], found["attempts"], found["group"]), ("deadline_passed", 0, "g"))
        self.assertEqual(self.group()["lag"], 0)

    def test_who_holds_it_may_end_it(self):
        self.create()
        place, = self.produce({"value": "v", "envelope": {"deadline": self.soon()}})
        item, = self.lease()
        deadline = seconds(item["envelope"]["deadline"])
        until(lambda: time.time() > deadline, "its time is over")
        self.settle("extend", item)
        self.assertEqual(self.state(place)["state"], "in_flight")
        self.settle("ack", item)
        self.assertEqual(self.letters(), [])

    def test_what_would_be_dropped_before_it_is_due_is_refused(self):
        self.create(retention_ms=60_000)
        self.refused("POST", f"/topics/{self.topic}/messages", {"value": "v", "delay_ms": 60_000}, says="retention_ms")
        self.produce({"value": "v", "delay_ms": 50_000})


class Unbegun(Case):
    """What a worker borrowed ahead of time and dies with."""

    def test_it_loses_no_attempt(self):
        self.create(lease_ms=60_000)
        place, = self.produce("v")
        item, = self.lease()
        self.settle("extend", item, started=False, lease_ms=50)
        until(lambda: self.state(place)["state"] == "ready", "it lapses")
        self.assertEqual(self.state(place)["attempt"], 0)
        item, = self.lease()
        self.assertEqual(item["lease"]["attempt"], 1)
        self.settle("extend", item, lease_ms=50)
        item, = until(lambda: self.lease(), "it lapses again")
        self.assertEqual(item["lease"]["attempt"], 2)


if __name__ == "__main__":
    main()
