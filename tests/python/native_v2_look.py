"""Looking at messages and groups over the native API, and stopping and moving them, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_look.py
"""

import urllib.parse

from _broker import Case, main, seconds, until


class Why(Case):
    """Why a message waits."""

    # Identities that are forgotten at once let two messages with one key live side by side.
    flags = ("--idempotency-ttl-ms", "1")

    def setUp(self):
        super().setUp()
        self.create(lease_ms=60_000)
        self.assertEqual(self.lease(), [], "the group begins")

    def waits(self, place, state, **more):
        found = self.await_state(place, state)
        self.assertTrue(found["since"])
        self.assertEqual({name: found.get(name) for name in more}, more)
        return found

    def test_a_group_counts_why_messages_wait(self):
        self.produce(*"abcd", {"value": "later", "delay_ms": 3_600_000})
        self.settle("nack", self.lease(owner="holder", max=2)[0], delay_ms=3_600_000)
        self.assertEqual(self.group()["waiting"], {"scheduled": 1, "in_flight": 1, "backoff": 1, "ready": 2})
        self.call("PATCH", f"/topics/{self.topic}", {"max_in_flight": 1})
        waiting = {"scheduled": 1, "in_flight": 1, "backoff": 1, "window_full": 2}
        self.assertEqual(self.group()["waiting"], waiting)
        self.call("POST", f"/topics/{self.topic}/pause")
        waiting = {"scheduled": 1, "in_flight": 1, "backoff": 1, "paused": 2}
        self.assertEqual(self.group()["waiting"], waiting)

    def test_a_group_knows_who_reads(self):
        self.produce(*"abc")
        self.lease(owner="caller", max=2)
        stream = self.open(owner="listener", credit=5)
        until(lambda: len(stream.items) == 1, "the third message")
        members = sorted((member["owner"], member["kind"], member["in_flight"]) for member in self.group()["members"])
        self.assertEqual(members, [("caller", "lease", 2), ("listener", "stream", 1), ("w", "lease", 0)])  # `w` has just asked

    def test_ready(self):
        place, = self.produce("v")
        self.waits(place, "ready", attempt=0)

    def test_scheduled(self):
        place, = self.produce({"value": "v", "deliver_at": "2030-01-01T00:00:00Z"})
        found = self.waits(place, "scheduled", attempt=0)
        self.assertTrue(found["until"].startswith("2030-01-01T00:00:00"), found)

    def test_in_flight(self):
        place, = self.produce("v")
        (item,) = self.lease(owner="holder")
        self.waits(place, "in_flight", owner="holder", attempt=1, until=item["lease"]["expires_at"])

    def test_backoff(self):
        place, = self.produce("v")
        self.settle("nack", *self.lease(owner="unlucky"), delay_ms=60_000, error="boom")
        found = self.waits(place, "backoff", attempt=1, last_error="boom")
        self.assertGreater(seconds(found["until"]), seconds(found["since"]) + 50)
        self.assertEqual([(past["owner"], past["error"]) for past in found["history"]], [("unlucky", "boom")])

    def test_key_busy(self):
        self.call("PATCH", f"/topics/{self.topic}", {"ordering": "key"})
        _, place = self.produce({"value": "a", "key": "k"}, {"value": "b", "key": "k"})
        self.lease()
        self.waits(place, "key_busy", attempt=0)

    def test_same_key_running(self):
        message = {"value": "v", "envelope": {"idempotency_key": "i"}}
        self.produce(message)
        place = until(lambda: not (again := self.produce(message)[0])["duplicate"] and again, "it is forgotten")
        self.assertEqual(len(self.lease(max=9)), 1, "one at a time")
        self.waits(place, "same_key_running", attempt=0)

    def test_window_full(self):
        self.call("PATCH", f"/topics/{self.topic}", {"max_in_flight": 1})
        _, place = self.produce("a", "b")
        (item,) = self.lease(max=9)
        self.waits(place, "window_full", attempt=0)
        self.settle("ack", item)
        self.waits(place, "ready")

    def test_paused(self):
        place, = self.produce("v")
        for path in (f"/topics/{self.topic}", f"/topics/{self.topic}/groups/g"):
            self.assertTrue(self.call("POST", f"{path}/pause")["paused_at"])
            self.waits(place, "paused")
            self.assertIsNone(self.call("POST", f"{path}/resume").get("paused_at"))
            self.waits(place, "ready")

    def test_done(self):
        place, = self.produce("v")
        self.lease(group="slow")
        self.settle("ack", *self.lease())
        self.assertEqual(self.state(place)["state"], "done")
        self.assertEqual(self.state(place, "slow")["state"], "in_flight")
        self.refused("GET", f"/topics/{self.topic}/messages/0/999", status=404, code="MESSAGE_UNKNOWN")


class Browse(Case):
    def setUp(self):
        super().setUp()
        self.create(partitions=3, lease_ms=60_000)
        self.produce(*(
            {
                "value": f"m{index:02}",
                "key": f"k{index % 5}",
                "envelope": {
                    "run_id": f"r{index % 4}", "tenant_id": f"t{index % 3}", "partition_override": index % 3,
                    "labels": {"even": str(index % 2 == 0), "name with = & ü": "x y"},
                    "idempotency_key": f"i{index}",
                },
            }
            for index in range(30)
        ))

    def find(self, limit=7, **query):
        """All pages of a question."""
        found = []
        while True:
            query["limit"] = limit
            page = self.call("GET", f"/topics/{self.topic}/messages?{urllib.parse.urlencode(query)}")
            self.assertLessEqual(len(page["messages"]), limit)
            found += [int(item["value"][1:]) for item in page["messages"]]
            if "cursor" not in page:
                return found
            query["cursor"] = page["cursor"]

    def where(self, condition):
        """Ordered as answers are: by partition, then by offset."""
        return sorted((index for index in range(30) if condition(index)), key=lambda index: (index % 3, index))

    def test_by_everything(self):
        every = self.where(lambda _: True)
        for limit in (1, 7, 1000):
            self.assertEqual(self.find(limit), every)
        self.assertEqual(self.find(partition=1), self.where(lambda index: index % 3 == 1))
        self.assertEqual(self.find(key="k2"), self.where(lambda index: index % 5 == 2))
        self.assertEqual(self.find(run_id="r3"), self.where(lambda index: index % 4 == 3))
        self.assertEqual(self.find(tenant_id="t0"), self.where(lambda index: index % 3 == 0))
        self.assertEqual(self.find(**{"label.even": "True"}), self.where(lambda index: index % 2 == 0))
        self.assertEqual(self.find(**{"label.name with = & ü": "x y"}), every)
        self.assertEqual(self.find(**{"label.even": "True", "label.name with = & ü": "z"}), [])
        self.assertEqual(self.find(run_id="r3", tenant_id="t0", key="k2"), self.where(
            lambda index: index % 4 == 3 and index % 3 == 0 and index % 5 == 2))
        middle = self.call("GET", f"/topics/{self.topic}/messages?key=k1&tenant_id=t1&run_id=r0")["messages"][0]
        later = self.where(lambda index: index % 3 == 1 and index >= 16)
        self.assertEqual(self.find(partition=1, **{"from": middle["offset"]}), later)

    def test_by_idempotency_key(self):
        self.assertEqual(self.find(idempotency_key="i17", tenant_id="t2"), [17])
        self.assertEqual(self.find(idempotency_key="i17", tenant_id="t1"), [])
        self.assertEqual(self.find(idempotency_key="i17"), [17], "also without its tenant")

    def test_by_state(self):
        held = sorted(int(item["value"][1:]) for item in self.lease(max=4))
        self.assertEqual(sorted(self.find(state="in_flight")), held)
        self.assertEqual(len(self.find(state="ready")), 26)
        self.produce({"value": "m99", "delay_ms": 3_600_000})
        self.assertEqual(self.find(state="scheduled"), [99])
        self.settle("nack", *self.lease(owner="x"), delay_ms=3_600_000)
        self.assertEqual(len(self.find(state="backoff")), 1)

    def test_by_states_that_depend_on_others(self):
        topic = self.topic = f"{self.topic}-key"
        self.create(topic, ordering="key", lease_ms=60_000)
        self.produce({"value": "m1", "key": "k"}, {"value": "m2", "key": "k"}, {"value": "m3", "key": "l"})
        self.lease(group="slow")
        self.settle("ack", *self.lease(group="g", max=2))
        self.assertEqual(self.find(state="key_busy"), [2], "behind the first one of its key in one group")
        self.assertEqual(self.find(state="done"), [1, 3])
        self.call("POST", f"/topics/{topic}/groups/g/pause")
        self.assertEqual(self.find(state="paused"), [2])

    def test_a_page_that_found_nothing_goes_on(self):
        topic = self.topic = f"{self.topic}-long"
        self.create(topic, partitions=2)
        needle = {"tenant_id": "needle", "partition_override": 1}
        self.produce({"value": "m1", "envelope": needle})
        # A page looks at a bounded number of messages; the border may lie between two partitions.
        for count in (2000, 1, 1499):
            self.produce(*({"value": "m2", "envelope": {"partition_override": 0}} for _ in range(count)))
            for limit in (7, 1000):
                self.assertEqual(self.find(limit, tenant_id="needle"), [1])

    def test_what_is_not_a_question_is_refused(self):
        for query in ("limit=0", "limit=x", "limit=1001", "state=asleep", "cursor=zz", "partition=-1", "nonsense=1",
                      "key=a&key=b", "label.=1", "from=1.5", "partition=9999"):
            answer = self.client.call("GET", f"/v2/topics/{self.topic}/messages?{query}")
            self.assertEqual((answer.status, answer.kind), (400, "application/problem+json"), str(answer))
            self.assertIn(query.split("=")[0].split(".")[0], answer.json["detail"], str(answer))


class Moving(Case):
    def test_pause_and_resume(self):
        self.create()
        self.produce("v")
        self.settle("release", *self.lease())
        path = f"/topics/{self.topic}"
        self.call("POST", f"{path}/pause")
        self.produce("w")
        self.assertEqual(self.lease(wait_ms=100), [])
        self.server.restart()
        self.assertEqual(self.lease(max=9, wait_ms=100), [], "a pause survives")
        stream = self.open(owner="s")
        self.call("POST", f"{path}/resume")
        until(lambda: len(stream.items) == 2, "the waiting stream gets them")
        self.settle("ack", *stream.items)
        self.call("POST", f"{path}/groups/g/pause")
        self.produce("x")
        self.assertEqual(self.lease_values(group="h", max=9)[-1:], ["x"], "another group goes on")
        self.assertEqual(self.lease(), [])
        self.call("POST", f"{path}/groups/g/resume")
        until(lambda: len(stream.items) == 3, "it flows again")
        self.refused("POST", f"{path}/groups/nobody/pause", status=404, code="GROUP_UNKNOWN")

    def test_seek(self):
        self.create(lease_ms=60_000)
        self.lease(group="keeper")
        places = self.produce("a", "b", "c")
        until(lambda: self.state(places[2], "keeper"), "they are there")
        second = self.call("GET", f"/topics/{self.topic}/messages/0/{places[1]['offset']}")
        path = f"/topics/{self.topic}/groups/g/seek"
        items = self.lease(max=9)
        self.settle("ack", *items)
        self.assertEqual(self.lease(), [])
        self.call("POST", path, {"to": "earliest"})
        held = self.lease(max=9)
        self.assertEqual([item["value"] for item in held], ["a", "b", "c"])
        self.call("POST", path, {"to": {"offset": places[2]["offset"]}})
        self.assertEqual(self.lease_values(max=9), ["c"])
        body = {"leases": [{"token": held[0]["lease"]["token"]}]}
        answer = self.client.call("POST", "/v2/leases/nack", body)
        self.assertEqual((answer.status, answer.json["code"]), (409, "STALE_LEASE"), str(answer))
        self.call("POST", path, {"to": {"time": second["produced_at"]}, "partition": 0})
        self.assertIn(self.lease_values(max=9), (["a", "b", "c"], ["b", "c"]), "produced then or later")
        self.call("POST", path, {"to": {"time": "2099-01-01T00:00:00Z"}})
        self.assertEqual(self.lease(max=9), [])
        sought = self.call("POST", path, {"to": "latest"})
        self.assertEqual([part["lag"] for part in sought["partitions"]], [0])
        self.server.restart()
        self.assertEqual(self.lease(max=9), [])
        self.produce("d")
        self.assertEqual(self.lease_values(max=9), ["d"])
        for bad in ({"to": "middle"}, {"to": {}}, {"to": {"offset": 1, "time": "2025-01-01T00:00:00Z"}}, {}):
            answer = self.client.call("POST", "/v2" + path, bad)
            self.assertEqual((answer.status, answer.kind), (400, "application/problem+json"), str(answer))

    def test_a_group_is_forgotten_only_with_its_name(self):
        self.create()
        self.produce("v")
        (item,) = self.lease()
        path = f"/topics/{self.topic}/groups/g"
        self.refused("DELETE", path, status=400, code="CONFIRMATION_REQUIRED")
        self.call("DELETE", f"{path}?confirm=g", expect=204)
        self.refused("GET", path, status=404, code="GROUP_UNKNOWN")
        answer = self.client.call("POST", "/v2/leases/ack", {"leases": [{"token": item["lease"]["token"]}]})
        self.assertIn(answer.status, (404, 409), str(answer))
        self.assertEqual(self.lease_values(), ["v"], "it begins anew")


if __name__ == "__main__":
    main()
