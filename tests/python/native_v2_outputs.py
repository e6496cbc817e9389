"""Outputs over the native API: what commits point to, which version readers see, and the way back.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_outputs.py
"""

import urllib.parse

from _broker import main, quoted, seconds
from _effects import CommitCase


class OutputCase(CommitCase):
    def setUp(self):
        super().setUp()
        self.produce("the work")
        self.worker = self.taken()

    def write(self, *outputs):
        """Commits outputs on behalf of a worker that goes on."""
        return self.commit(fence=[self.worker["lease"]["token"]], outputs=list(outputs))["outputs"]

    def write_version(self, version, count=1):
        self.write(*(self.pointer(f"p{index:02}", f"s3://{version}/{index:02}", version=version)
                     for index in range(count)))

    def append(self, dedupe_key, location, partition_key="log"):
        (said,) = self.write(self.pointer(partition_key, location, "append", dedupe_key=dedupe_key))
        return said

    def locations(self, version="v1", partition_key=None, **query):
        return [output["location"] for output in self.outputs(self.topic, version, partition_key, **query)]

    def dataset(self, **query):
        return self.call("GET", f"/outputs/{self.topic}?{urllib.parse.urlencode(query)}")

    def move(self, verb, **body):
        return self.call("POST", f"/outputs/{self.topic}/{verb}", body)

    def cutover(self, version, **more):
        return self.move("cutover", version=version, **more)

    def rollback(self, version):
        return self.move("rollback", **{"from": version})

    def differs(self, verb, body):
        self.refused("POST", f"/outputs/{self.topic}/{verb}", body, 409, "VERSION_DIFFERS")

    def current(self):
        """What a reader without a version of its own is given: the version's name and its outputs."""
        page = self.call("GET", f"/outputs/{self.topic}/current?limit=1000")
        return page["version"], [output["location"] for output in page["outputs"]]


class Writing(OutputCase):
    def test_replace_overwrites(self):
        for number in (1, 2, 3):
            (said,) = self.write(self.pointer("p", f"s3://{number}"))
            self.assertEqual(said, {"result": "replaced", "location": f"s3://{number}"})
            self.assertEqual(self.locations(partition_key="p"), [f"s3://{number}"])
        self.assertEqual(self.call("GET", f"/outputs/{self.topic}/v1/p")["mode"], "replace")
        self.assertEqual(self.locations(), ["s3://3"])
        self.assertEqual([version["outputs"] for version in self.dataset()["versions"]], [1])

    def test_append_keeps_each_once_in_order(self):
        for number in (3, 1, 2):
            location = f"s3://log/{number}"
            self.assertEqual(self.append(f"d{number}", location), {"result": "appended", "location": location})
        again = self.append("d1", "s3://log/another")
        self.assertEqual(again, {"result": "duplicate", "location": "s3://log/1"}, "the first one counts")
        expected = ["s3://log/3", "s3://log/1", "s3://log/2"]
        self.assertEqual(self.locations(partition_key="log"), expected)
        self.assertEqual(self.append("d1", "s3://other", "another partition")["result"], "appended")
        self.server.restart()
        self.assertEqual(self.locations(partition_key="log"), expected)
        keys = [output["dedupe_key"] for output in self.outputs(self.topic, "v1", "log")]
        self.assertEqual(keys, ["d3", "d1", "d2"])

    def test_two_of_one_commit_are_told_apart(self):
        append = [self.pointer("log", f"s3://log/{number}", "append", dedupe_key="d") for number in (1, 2)]
        said = self.write(*append, self.pointer("p", "s3://1"), self.pointer("p", "s3://2"))
        results = [(output["result"], output["location"]) for output in said]
        self.assertEqual(results[:2], [("appended", "s3://log/1"), ("duplicate", "s3://log/1")])
        self.assertEqual(self.locations(partition_key="p"), ["s3://2"], "the last one counts")

    def test_a_partition_keeps_its_mode(self):
        self.write(self.pointer("p", "s3://1"))
        self.append("d", "s3://log/1")
        fence = [self.worker["lease"]["token"]]
        wrong = self.pointer("p", "s3://2", "append", dedupe_key="d")
        self.refused_at("outputs[0]", 409, "OUTPUT_MODE_DIFFERS", fence=fence, outputs=[wrong])
        good, wrong = self.pointer("q", "s3://q"), self.pointer("log", "s3://2")
        self.refused_at("outputs[1]", 409, "OUTPUT_MODE_DIFFERS", fence=fence, outputs=[good, wrong])
        self.assertEqual(sorted(self.locations()), ["s3://1", "s3://log/1"])
        self.write(self.pointer("p", "s3://2", "append", version="v2", dedupe_key="d"))

    def test_names_of_any_kind(self):
        name = "a/b ü?#%2F&=.."
        self.write({**self.pointer(name, "s3://odd", version=name), "dataset": name})
        (output,) = self.outputs(name, name, name)
        self.assertEqual((output["partition_key"], output["location"]), (name, "s3://odd"))
        self.assertEqual(self.call("GET", f"/outputs/{quoted(name)}")["versions"][0]["version"], name)


class Versions(OutputCase):
    def test_a_reader_that_pinned_a_version_keeps_it(self):
        self.write_version("v1", 25)
        self.cutover("v1")
        first = self.call("GET", f"/outputs/{self.topic}/current?limit=10")
        self.assertEqual((first["dataset"], first["version"], len(first["outputs"])), (self.topic, "v1", 10))
        self.write_version("v2", 3)
        self.assertEqual(self.current()[0], "v1", "what is written is not seen before the cutover")
        self.cutover("v2")
        self.assertEqual(self.current(), ("v2", [f"s3://v2/{index:02}" for index in range(3)]))
        rest = self.locations("v1", limit=10, cursor=first["cursor"])
        seen = [output["location"] for output in first["outputs"]] + rest
        self.assertEqual(seen, [f"s3://v1/{index:02}" for index in range(25)])

    def test_cutover_says_what_it_changed_and_can_be_repeated(self):
        self.write_version("v1")
        self.write_version("v2")
        self.refused("GET", f"/outputs/{self.topic}/current", status=404, code="OUTPUT_UNKNOWN")
        self.assertNotIn("current", self.dataset())
        first = {"dataset": self.topic, "current": "v1", "changed": True}
        self.assertEqual(self.cutover("v1", expect=None), first)
        again = self.cutover("v1")
        self.assertEqual((again["current"], again["changed"]), ("v1", False))
        second = {"dataset": self.topic, "current": "v2", "previous": "v1", "changed": True}
        self.assertEqual(self.cutover("v2", expect="v1"), second)
        again = self.cutover("v2", expect="v1")
        self.assertEqual((again["current"], again["changed"]), ("v2", False), "the answer was lost, that is all")
        self.differs("cutover", {"version": "v1", "expect": "v3"})
        for path in (f"/outputs/{self.topic}/cutover", "/outputs/nothing/cutover"):
            self.refused("POST", path, {"version": "v9"}, 404, "OUTPUT_UNKNOWN")
        self.assertEqual(self.current()[0], "v2")
        self.server.restart()
        self.assertEqual(self.current()[0], "v2")

    def test_rollback_goes_back_once(self):
        for version in ("v1", "v2", "v3"):
            self.write_version(version)
            self.cutover(version)
        back = {"dataset": self.topic, "current": "v2", "previous": "v1", "changed": True}
        self.assertEqual(self.rollback("v3"), back, "and one more step would show v1")
        self.assertEqual(self.rollback("v3"), {**back, "changed": False}, "not one more step back")
        self.differs("rollback", {"from": "v1"})
        self.assertEqual(self.current()[0], "v2")
        self.assertEqual(self.rollback("v2"), {"dataset": self.topic, "current": "v1", "changed": True})
        self.assertEqual(self.locations("v3"), ["s3://v3/00"], "nothing is lost by going back")
        self.assertEqual(self.rollback("v1"), {"dataset": self.topic, "changed": True}, "to before the first")
        self.refused("GET", f"/outputs/{self.topic}/current", status=404, code="OUTPUT_UNKNOWN")
        self.differs("rollback", {"from": "v2"})
        self.cutover("v3")
        self.server.restart()
        self.assertEqual(self.current()[0], "v3")

    def test_a_rollback_of_long_ago_is_not_repeated(self):
        for version in ("v1", "v2", "v3"):
            self.write_version(version)
            self.cutover(version)
        self.rollback("v3")
        self.cutover("v1")
        self.differs("rollback", {"from": "v3"})
        self.assertEqual(self.current()[0], "v1")

    def test_nobody_goes_back_to_what_was_deleted(self):
        for version in ("v1", "v2", "v3"):
            self.write_version(version)
            self.cutover(version)
        self.call("DELETE", f"/outputs/{self.topic}/v2?confirm=v2")
        answer = self.rollback("v3")
        self.assertEqual((answer.get("current"), answer["changed"]), ("v1", True))
        self.assertEqual(self.current(), ("v1", ["s3://v1/00"]))

    def test_history_is_kept_newest_first(self):
        for version in ("v1", "v2"):
            self.write_version(version)
        for number in range(20):
            self.assertTrue(self.cutover(f"v{number % 2 + 1}")["changed"])
        dataset = self.dataset()
        self.assertEqual([past["version"] for past in dataset["history"]], ["v1", "v2"] * 8, "what was current")
        times = [seconds(past["at"]) for past in dataset["history"]]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(dataset["current"], "v2")
        self.assertGreaterEqual(seconds(dataset["cut_over_at"]), times[0])

    def test_delete_a_version(self):
        for version in ("v1", "v2"):
            self.write_version(version, 3)
        self.cutover("v2")
        path = f"/outputs/{self.topic}"
        self.refused("DELETE", f"{path}/v2?confirm=v2", status=409, code="VERSION_IN_USE")
        for query in ("", "?confirm=v2"):
            self.refused("DELETE", f"{path}/v1{query}", status=400, code="CONFIRMATION_REQUIRED")
        self.assertEqual(len(self.locations("v1")), 3)
        self.assertEqual(self.call("DELETE", f"{path}/v1?confirm=v1"), {"deleted": 3})
        for _ in range(2):
            for gone in (f"{path}/v1", f"{path}/v1/p00"):
                self.refused("GET", gone, status=404, code="OUTPUT_UNKNOWN")
            self.assertEqual([version["version"] for version in self.dataset()["versions"]], ["v2"])
            self.server.restart()
        self.refused("POST", f"{path}/cutover", {"version": "v1"}, 404, "OUTPUT_UNKNOWN")
        self.assertEqual(len(self.locations("v2")), 3)


class Paging(OutputCase):
    def test_outputs_and_appends(self):
        self.write_version("v1", 25)
        for number in range(25):
            self.append(f"d{24 - number}", f"s3://log/{number}")
        whole = [f"s3://v1/{index:02}" for index in range(25)]
        appended = [f"s3://log/{number}" for number in range(25)]
        for limit in (1, 10, 1000):
            self.assertEqual(self.locations(partition_key="log", limit=limit), appended)
            found = self.locations(limit=limit)
            self.assertEqual(sorted(found), sorted(whole + appended), "each once")
        (one,) = self.outputs(self.topic, "v1", "p07")
        self.assertEqual(one["location"], "s3://v1/07")
        for path in ("v1/nothing", "v9", "v9/p00"):
            self.refused("GET", f"/outputs/{self.topic}/{path}", status=404, code="OUTPUT_UNKNOWN")

    def test_versions_and_datasets(self):
        names = [f"v{index:02}" for index in range(12)]
        for index, name in enumerate(names):
            self.write_version(name, index + 1)
        versions = self.pages(f"/outputs/{self.topic}", "versions", limit=5)
        found = sorted((version["version"], version["outputs"]) for version in versions)
        self.assertEqual(found, [(name, index + 1) for index, name in enumerate(names)])
        others = [f"{self.topic}-{index}" for index in range(7)]
        for name in others:
            self.write({**self.pointer(), "dataset": name})
        self.cutover("v03")
        datasets = {dataset["dataset"]: dataset for dataset in self.pages("/outputs", "datasets", limit=3)}
        self.assertLessEqual({self.topic, *others}, set(datasets))
        mine = {"dataset": self.topic, "current": "v03", "versions": 12, "outputs": 78}
        self.assertEqual(datasets[self.topic], mine)
        self.assertEqual(datasets[others[0]], {"dataset": others[0], "versions": 1, "outputs": 1})


if __name__ == "__main__":
    main()
