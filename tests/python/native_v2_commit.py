"""Commits over the native API: ack, effects, messages and outputs together or not at all, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_commit.py
"""

from _broker import main, until
from _effects import LONG_MS, CommitCase


class Together(CommitCase):
    def test_all_parts_happen_together(self):
        item, lease = self.item(), self.execute(lease_ms=LONG_MS)
        other = self.item("w")
        parts = self.parts(item, lease, "a")
        parts["ack"].append(other["lease"]["token"])
        parts["produce"].append({"topic": self.topic, "message": {"value": "next", "priority": 3}})
        parts["outputs"].append(self.pointer("log", "s3://log/1", "append", dedupe_key="d1"))
        answer = self.commit(**parts)
        produced = [(place["topic"], place["partition"], place["duplicate"]) for place in answer["produced"]]
        self.assertEqual(produced, [(self.out, 0, False), (self.topic, 0, False)])
        expected = [{"result": "replaced", "location": "s3://a"}, {"result": "appended", "location": "s3://log/1"}]
        self.assertEqual(answer["outputs"], expected)
        self.replays(self.begin(), "succeeded", lease, body="a")
        (message,) = self.lease(topic=self.out)
        self.assertEqual((message["value"], message["key"]), ("a", "a"))
        self.assertEqual(message["offset"], answer["produced"][0]["offset"])
        self.assertEqual(self.lease_values(max=9), ["next"], "both are acked")
        message = {name: item[name] for name in ("topic", "partition", "offset")}
        self.assertEqual(self.output("a"), [{
            "partition_key": "a", "mode": "replace", "location": "s3://a", "digest": "sha256:s3://a",
            "message": {**message, "attempt": 1},
        }])
        self.assertEqual(self.output("log")[0]["dedupe_key"], "d1")

    def test_a_repeated_commit_gives_the_same_answer(self):
        item, lease = self.item(), self.execute(lease_ms=LONG_MS)
        parts = self.parts(item, lease)
        first = self.commit(**parts)
        for restart in (False, False, True, True):
            if restart:
                self.server.restart()
            again = self.commit("already_committed", **parts)
            self.assertEqual({**again, "result": "committed"}, first)
        self.assertEqual(self.values(), ["good"], "once")
        self.assertEqual(len(self.output("good")), 1)
        self.conclude(lease, result="already_committed", body="good")
        self.settle("ack", item)

    def test_each_part_alone_is_a_commit(self):
        item, lease = self.item(), self.execute(lease_ms=LONG_MS)
        for parts in ({"effects": [{"token": lease["token"], "status": "failed_final"}]},
                      {"ack": [item["lease"]["token"]]}):
            for result in ("committed", "already_committed"):
                self.commit(result, **parts)
        self.assertEqual(self.effect()["state"], "failed_final")
        self.assertEqual(self.group()["lag"], 0)

    def test_without_a_token_equal_commits_are_two_unless_a_header_names_them(self):
        parts = {"produce": [{"topic": self.out, "message": {"value": "alone"}}]}
        for _ in range(2):
            self.commit(**parts)
        self.assertEqual(self.values(), ["alone"] * 2)
        for result in ("committed", "already_committed"):
            answer = self.call("POST", "/commit", parts, Idempotency_Key="one")
            self.assertEqual((answer["result"], answer["produced"][0]["offset"]), (result, 2))
        self.assertEqual(self.values(), ["alone"] * 3)

    def test_a_fence_guards_without_an_ack(self):
        place, = self.produce("v")
        item = self.taken()
        token = item["lease"]["token"]
        self.commit(fence=[token], outputs=[self.pointer("p", "s3://1")])
        self.assertEqual(self.state(place)["state"], "in_flight", "it goes on working")
        self.commit(fence=[token], outputs=[self.pointer("p", "s3://2")])
        self.commit(ack=[token], outputs=[self.pointer("p", "s3://3")])
        self.refused_at("fence[0]", 409, "STALE_LEASE", fence=[token], outputs=[self.pointer("p", "s3://4")])
        self.assertEqual([output["location"] for output in self.output("p")], ["s3://3"])

    def test_an_idempotency_key_counts_in_a_commit_too(self):
        message = {"value": "once", "envelope": {"idempotency_key": "i"}}
        first, = self.produce(message, topic=self.out)
        item = self.item()
        answer = self.commit(ack=[item["lease"]["token"]], produce=[{"topic": self.out, "message": message}])
        (place,) = answer["produced"]
        self.assertEqual((place["offset"], place["duplicate"]), (first["offset"], True))
        self.assertEqual(self.values(), ["once"])

    def test_what_cannot_be_meant_is_refused(self):
        item = self.item()
        ack = {"ack": [item["lease"]["token"]]}
        self.refused("POST", "/commit", {"nonsense": []}, 400, "INVALID_JSON", "nonsense")
        for parts in ({}, {"outputs": [self.pointer()]},
                      {**ack, "outputs": [self.pointer(version="current")]},
                      {**ack, "outputs": [self.pointer(mode="append")]},
                      {**ack, "outputs": [self.pointer(dedupe_key="d")]},
                      {**ack, "outputs": [self.pointer(location="")]},
                      {"produce": [{"topic": self.out, "message": {"value": "v"}}], "outputs": [self.pointer()]}):
            self.refused("POST", "/commit", parts)
        self.assertEqual((self.values(), self.group()["in_flight"]), ([], 1))
        self.no_outputs()
        self.commit(**ack)


class AllOrNothing(CommitCase):
    def unchanged(self, good, lease):
        """Nothing of a refused commit can be seen anywhere."""
        self.assertEqual(self.state(good)["state"], "in_flight")
        self.assertEqual(self.effect("good")["state"], "in_progress")
        self.assertEqual(self.effect("good")["epoch"], lease["epoch"])
        self.assertEqual(self.keys(state="succeeded"), [])
        self.assertNotIn("good", self.values())
        listed = self.client.call("GET", f"/v2/outputs/{self.topic}")
        if listed.status != 404:
            locations = [output["location"] for output in self.outputs(self.topic, "v1")]
            self.assertEqual(locations, ["s3://before"])

    def test_a_worker_that_slept_commits_nothing(self):
        old, lease, new = self.fenced(on_lapse="retry")
        parts = self.parts(old, lease, "old")
        self.refused_at("ack[0]", 409, "STALE_LEASE", **parts)
        del parts["ack"]
        self.refused_at("effects[0]", 409, "STALE_LEASE", **parts)
        parts["fence"] = [old["lease"]["token"]]
        self.refused("POST", "/commit", parts, 409, "STALE_LEASE")
        self.assertEqual((self.values(), self.keys(state="succeeded")), ([], []))
        self.no_outputs()
        self.assertEqual(self.group()["in_flight"], 1)
        again = self.execute(epoch=2, attempt=2, on_lapse="retry", lease_token=new["lease"]["token"])
        self.commit(**self.parts(new, again, "new"))
        self.refused_at("ack[0]", 409, "STALE_LEASE", **self.parts(old, lease, "old"))
        self.assertEqual((self.values(), self.begin()["outcome"]["body"]), (["new"], "new"))
        (output,) = self.outputs(self.topic, "v1")
        self.assertEqual((output["location"], output["message"]["attempt"]), ("s3://new", 2))
        self.assertEqual(self.group()["lag"], 0)

    def bad_parts(self, good):
        """Each kind of part that is refused: its list, the part, the status and the code."""
        stale, _, current = self.fenced("fenced")
        self.settle("ack", current)
        old, spare = self.lapsed("old"), self.execute("spare", lease_ms=LONG_MS)
        self.execute("old", epoch=2, attempt=2, on_lapse="retry", lease_ms=LONG_MS)
        known = {"value": "one", "envelope": {"idempotency_key": "i", "request_hash": "h1"}}
        self.produce(known, topic=self.out)
        reused = {"value": "two", "envelope": {"idempotency_key": "i", "request_hash": "h2"}}
        self.commit(fence=[good["lease"]["token"]], outputs=[self.pointer("before", "s3://before")])
        append = self.pointer("before", "s3://other", "append", dedupe_key="d")
        finish = {"status": "succeeded", "body": "bad"}
        large = {"token": spare["token"], "status": "succeeded", "body": "x" * (256 * 1024 + 1)}
        return [
            ("ack", stale["lease"]["token"], 409, "STALE_LEASE"),
            ("ack", "nobody's", 404, "LEASE_UNKNOWN"),
            ("fence", stale["lease"]["token"], 409, "STALE_LEASE"),
            ("effects", {"token": old["token"], **finish}, 409, "STALE_LEASE"),
            ("effects", {"token": "nobody's", **finish}, 404, "LEASE_UNKNOWN"),
            ("effects", large, 413, "RESULT_TOO_LARGE"),
            ("produce", {"topic": "nowhere", "message": {"value": "v"}}, 404, "TOPIC_UNKNOWN"),
            ("produce", {"topic": self.out, "message": reused}, 422, "KEY_REUSED"),
            ("outputs", append, 409, "OUTPUT_MODE_DIFFERS"),
        ]

    def test_one_bad_part_refuses_the_whole(self):
        place, = self.produce("good")
        good = self.taken()
        lease = self.execute("good", lease_ms=LONG_MS)
        for member, bad, status, code in self.bad_parts(good):
            parts = self.parts(good, lease)
            parts[member] = [*parts.get(member, ()), bad]
            part = f"{member}[{len(parts[member]) - 1}]"
            with self.subTest(part=part, code=code):
                self.refused_at(part, status, code, **parts)
                self.unchanged(place, lease)
        self.server.restart()
        self.assertEqual(self.keys(state="succeeded"), [], "nor does a restart bring it out")
        self.assertEqual(self.values(), ["one"])

    def test_the_good_parts_of_a_refused_commit_can_be_sent_again(self):
        item, lease = self.item(), self.execute(lease_ms=LONG_MS)
        parts = self.parts(item, lease)
        bad = {**parts, "produce": [*parts["produce"], {"topic": "nowhere", "message": {"value": "v"}}]}
        for _ in range(2):
            self.refused_at("produce[1]", 404, "TOPIC_UNKNOWN", **bad)
        self.commit(**parts)
        self.assertEqual(self.values(), ["good"])

    def test_a_delivery_from_before_a_kill_commits_as_ever(self):
        item, lease = self.item(), self.execute(lease_ms=LONG_MS)
        parts = self.parts(item, lease)
        self.server.restart()
        self.assertEqual(self.lease(lease_ms=LONG_MS), [], "it is on loan as before")
        self.commit(**parts)
        self.assertEqual(self.values(), ["good"])


if __name__ == "__main__":
    main()
