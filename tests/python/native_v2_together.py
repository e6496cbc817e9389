"""The native API and v1 on the same messages, and a stop while everybody waits, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_together.py
"""

import threading
import time

from _broker import Case, Client, Server, Stream, main, until

MESSAGES = 120


class BothVersions(Case):
    def v1(self, client, call, **body):
        answer = client.call("POST", f"/v1/{call}", body)
        self.assertLess(answer.status, 300, str(answer))

    def test_what_one_stores_the_other_sees(self):
        self.v1(self.client, "topics", name=self.topic, partitions=2)
        self.assertEqual(len(self.call("GET", f"/topics/{self.topic}")["partitions"]), 2)
        envelope = {"run_id": "r", "tenant_id": "t", "idempotency_key": "i"}
        self.v1(self.client, "produce", topic=self.topic, value="from v1", key="k", envelope=envelope)
        (item,) = self.lease()
        self.assertEqual((item["value"], item["key"]), ("from v1", "k"))
        self.assertEqual({name: item["envelope"][name] for name in envelope}, envelope)
        self.assertTrue(self.produce({"value": "again", "envelope": envelope})[0]["duplicate"], "one identity")
        self.settle("ack", item)
        self.produce({"value": "from v2", "key": "k"}, {"value": "scheduled", "delay_ms": 3_600_000})
        stream = Stream(self.server, "/v1/consume", topic=self.topic, group="g", owner="w", lease_ms=60_000)
        self.addCleanup(stream.close)
        until(lambda: stream.items, "the message")
        (item,) = stream.items
        self.assertEqual((item["value"], item["key"], item["attempts"]), ("from v2", "k", 1))
        place = {"partition": item["partition"], "offset": item["offset"]}
        self.v1(self.client, "ack", topic=self.topic, group="g", owner="w", **place)
        self.assertEqual((self.group()["in_flight"], self.group()["lag"]), (0, 1))

    def test_one_group_through_both_at_once(self):
        self.create(partitions=2, lease_ms=60_000, max_in_flight=20)
        done, lock, through = [], threading.Lock(), threading.Event()

        def note(version, value):
            with lock:
                done.append((version, value))
                if len(done) >= MESSAGES:
                    through.set()

        def old(index):
            query = {"topic": self.topic, "group": "g", "owner": f"old-{index}", "lease_ms": 60_000}
            stream, client, seen = Stream(self.server, "/v1/consume", **query), Client(self.server), 0
            while not through.wait(0.005):
                for item in stream.items[seen:]:
                    place = {"partition": item["partition"], "offset": item["offset"]}
                    self.v1(client, "ack", topic=self.topic, group="g", owner=query["owner"], **place)
                    note("v1", item["value"])
                    seen += 1
            stream.close()
            client.close()

        def new(index):
            client, path = Client(self.server), f"/v2/topics/{self.topic}/groups/g/lease"
            while not through.is_set():
                body = {"owner": f"new-{index}", "max": 3, "wait_ms": 100}
                for item in client.call("POST", path, body).json["messages"]:
                    token = {"token": item["lease"]["token"]}
                    answer = client.call("POST", "/v2/leases/ack", {"leases": [token]})
                    if answer.status == 200:
                        note("v2", item["value"])
            client.close()

        workers = [threading.Thread(target=work, args=(index,)) for index in range(2) for work in (old, new)]
        for worker in workers:
            worker.start()
        values = [f"m{index:03}" for index in range(MESSAGES)]
        for start in range(0, MESSAGES, 4):
            self.produce(*values[start : start + 2])
            for value in values[start + 2 : start + 4]:
                self.v1(self.client, "produce", topic=self.topic, value=value)
        through.wait(60)
        through.set()
        for worker in workers:
            worker.join(60)
        self.assertEqual(sorted(value for _, value in done), values, "every message once, by either")
        self.assertEqual({version for version, _ in done}, {"v1", "v2"}, "both took part")
        self.assertEqual((self.group()["lag"], self.group()["in_flight"]), (0, 0))

    def test_the_one_cannot_settle_for_the_other(self):
        self.create(lease_ms=60_000)
        self.produce("v")
        (item,) = self.lease(owner="w")
        place = {"partition": item["partition"], "offset": item["offset"]}
        body = {"topic": self.topic, "group": "g", "owner": "somebody else", **place}
        answer = self.client.call("POST", "/v1/ack", body)
        self.assertEqual((answer.status, answer.json["message"]), (409, "not owner"), str(answer))
        self.settle("ack", item)


class Stopping(Case):
    @classmethod
    def setUpClass(cls):
        # Every scenario stops a broker of its own.
        pass

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.discard)
        super().setUp()

    def test_a_stop_while_everybody_waits_loses_nothing(self):
        self.create(lease_ms=60_000)
        empty = f"{self.topic}-empty"
        self.create(empty)
        self.produce("held", "unread")
        stream = self.open(owner="s", credit=1)
        until(lambda: len(stream.items) == 1, "the first message")
        quiet = Stream(self.server, f"/v2/topics/{empty}/groups/streamed/stream", owner="q")
        old = Stream(self.server, "/v1/consume", topic=empty, group="old", owner="o", lease_ms=1000)
        answers, polls = [], []
        for index in range(3):
            client = self.connect()
            poll = lambda client=client, index=index: answers.append(client.call(
                "POST", f"/v2/topics/{empty}/groups/polled{index}/lease", {"owner": "w", "wait_ms": 30_000}))
            polls.append(threading.Thread(target=poll))
            polls[-1].start()
        expected = ["old", "polled0", "polled1", "polled2", "streamed"]
        until(lambda: self.call("GET", f"/topics/{empty}")["groups"] == expected, "all of them wait")
        begun = time.monotonic()
        self.client.close()
        code = self.server.stop()
        self.assertEqual(code, 0, self.server.complaints())
        self.assertLess(time.monotonic() - begun, 20)
        for poll in polls:
            poll.join(30)
        self.assertEqual(len(answers), 3, "every call was answered")
        for answer in answers:
            if answer.status == 200:
                self.assertEqual(answer.json, {"messages": []})
            else:
                problem = self.problem(answer, 503, "UNAVAILABLE")
                self.assertTrue(problem["retryable"])
        for ended in (stream, quiet, old):
            self.assertTrue(ended.has_ended.wait(30))
            self.assertIsNone(ended.error, "the end of the chunks, not a broken connection")
            ended.close()
        self.server.start()
        values = self.lease_values(max=9)
        self.assertEqual(values, ["unread"], "nothing is lost, and what is held stays on loan")
        self.assertEqual(self.server.stop(), 0)

    def test_a_stop_during_produces_keeps_what_was_answered(self):
        self.create(partitions=2)
        stored, begun = [[], [], []], threading.Event()

        def work(index):
            client = Client(self.server)
            for number in range(100_000):
                value = f"{index}-{number}"
                try:
                    answer = client.call("POST", f"/v2/topics/{self.topic}/messages", {"value": value})
                except AssertionError:
                    return
                if answer.status != 201:
                    return
                stored[index].append(value)
                if number == 20:
                    begun.set()

        workers = [threading.Thread(target=work, args=(index,)) for index in range(3)]
        for worker in workers:
            worker.start()
        self.assertTrue(begun.wait(30))
        self.assertEqual(self.server.stop(), 0, self.server.complaints())
        for worker in workers:
            worker.join(60)
        self.server.start()
        found, query = set(), "limit=1000"
        while True:
            page = self.call("GET", f"/topics/{self.topic}/messages?{query}")
            found.update(item["value"] for item in page["messages"])
            if "cursor" not in page:
                break
            query = f"limit=1000&cursor={page['cursor']}"
        self.assertLessEqual({value for values in stored for value in values}, found)
        self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    main()
