"""Tenants, sealed versions, what was read, and commits that are looked up, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_tenants.py
"""

import subprocess

from _broker import BINARY, main, quoted
from _effects import LONG_MS, CommitCase


class TenantCase(CommitCase):
    def fenced(self):
        """The token of a delivery that stays on loan, and that moves pointers."""
        return self.item()["lease"]["token"]

    def moved(self, token, location, tenant="", version="v1", result="committed", **more):
        output = {"dataset": self.topic, "version": version, "partition_key": "p", "mode": "replace",
                  "location": location, "digest": "d"}
        return self.commit(result, fence=[token], outputs=[output], tenant_id=tenant, **more)

    def locations(self, tenant, version="v1"):
        page = self.call("GET", f"/outputs/{self.topic}/{version}?tenant_id={tenant}")
        return [output["location"] for output in page["outputs"]]


class Tenants(TenantCase):
    def test_two_tenants_may_use_the_same_dataset(self):
        token = self.fenced()
        for tenant in ("", "t1", "t2"):
            self.moved(token, f"of {tenant}", tenant)
        self.call("POST", f"/outputs/{self.topic}/cutover", {"version": "v1", "tenant_id": "t1"})
        self.server.restart()
        for tenant in ("", "t1", "t2"):
            self.assertEqual(self.locations(tenant), [f"of {tenant}"])
            listed = self.pages("/outputs", "datasets", tenant_id=tenant, limit=1000)
            current = [dataset.get("current") for dataset in listed if dataset["dataset"] == self.topic]
            self.assertEqual(current, ["v1" if tenant == "t1" else None])
        self.assertEqual(self.locations("t1", "current"), ["of t1"])
        self.refused("GET", f"/outputs/{self.topic}/current?tenant_id=t2", status=404, code="OUTPUT_UNKNOWN")
        self.call("DELETE", f"/outputs/{self.topic}/v1?tenant_id=t2&confirm=v1")
        self.assertEqual(self.locations(""), ["of "])

    def test_two_tenants_may_use_the_same_commit_key(self):
        for tenant in ("", "t1"):
            body = {"idempotency_key": self.topic, "tenant_id": tenant,
                    "produce": [{"topic": self.out, "message": {"value": f"of {tenant}"}}]}
            first = self.commit(**body)
            again = self.commit("already_committed", **body)
            self.assertEqual(first["produced"], again["produced"])
        self.assertEqual(self.values(), ["of ", "of t1"])

    def test_two_tenants_may_use_the_same_run(self):
        for tenant in ("", "t1"):
            whose = {"tenant_id": tenant} if tenant else {}
            self.produce({"value": "v", "envelope": {"run_id": self.topic, **whose}})
        self.execute("e", run_id=self.topic, tenant_id="t1")
        self.server.restart()
        for tenant, effects in (("", 0), ("t1", 1)):
            run = self.call("GET", f"/runs/{self.topic}?tenant_id={tenant}")
            self.assertEqual((run["messages"], run["effects"], run.get("tenant_id", "")), (1, effects, tenant))
        of_tenant = self.pages("/runs", "runs", tenant_id="t1", limit=1)
        self.assertIn(self.topic, [run["run_id"] for run in of_tenant])
        every = [run for run in self.pages("/runs", "runs", limit=1000) if run["run_id"] == self.topic]
        self.assertEqual(len(every), 2)
        self.refused("GET", f"/runs/{self.topic}?tenant_id=t2", status=404, code="RUN_UNKNOWN")


class Sealing(TenantCase):
    def test_nothing_moves_in_a_sealed_version(self):
        token = self.fenced()
        self.moved(token, "first")
        path = f"/outputs/{self.topic}/seal"
        for changed in (True, False):
            answer = self.call("POST", path, {"version": "v1"})
            expected = {"dataset": self.topic, "version": "v1", "outputs": 1, "changed": changed}
            self.assertEqual(answer, expected)
        self.server.restart()
        output = {"dataset": self.topic, "version": "v1", "partition_key": "p", "mode": "replace", "location": "x",
                  "digest": "d"}
        problem = self.refused("POST", "/commit", {"fence": [token], "outputs": [output]}, 409, "VERSION_SEALED")
        self.assertEqual(problem["part"], "outputs[0]")
        self.assertEqual(self.locations(""), ["first"])
        self.refused("POST", path, {"version": "v9"}, 404, "OUTPUT_UNKNOWN")
        (version,) = self.call("GET", f"/outputs/{self.topic}")["versions"]
        self.assertTrue(version["sealed"])

    def test_a_cut_over_seals_and_a_roll_back_still_works(self):
        token = self.fenced()
        for version in ("v1", "v2"):
            self.moved(token, version, version=version)
            self.call("POST", f"/outputs/{self.topic}/cutover", {"version": version})
        output = {"dataset": self.topic, "partition_key": "p", "mode": "replace", "location": "x", "digest": "d"}
        for version in ("v1", "v2"):
            body = {"fence": [token], "outputs": [{**output, "version": version}]}
            self.refused("POST", "/commit", body, 409, "VERSION_SEALED")
        back = self.call("POST", f"/outputs/{self.topic}/rollback", {"from": "v2"})
        self.assertEqual((back["current"], self.locations("", "current")), ("v1", ["v1"]))

    def test_the_command_line_seals(self):
        self.moved(self.fenced(), "first")
        command = [BINARY, "--server", f"http://{self.server.host}:{self.server.port}", "output", "seal", self.topic, "v1"]
        for said in ("is sealed: 1 output(s)", "was sealed already"):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertIn(said, done.stdout, done.stderr)


class Looking(TenantCase):
    def test_what_was_read_is_in_the_run(self):
        self.produce({"value": "v", "envelope": {"run_id": self.topic, "step_id": "s"}})
        (item,) = self.lease(lease_ms=LONG_MS)
        reads = [{"dataset": "prices", "version": "v2"}, {"dataset": "customers", "version": "2026-11"}]
        self.commit(ack=[item["lease"]["token"]], reads=reads)
        self.server.restart()
        (step,) = self.call("GET", f"/runs/{self.topic}")["steps"]
        self.assertEqual(step["messages"][0]["reads"], sorted(reads, key=lambda read: read["dataset"]))

    def test_a_commit_can_be_looked_up_by_its_key(self):
        path = f"/commits/{quoted(self.topic + '/1')}"
        self.refused("GET", path, status=404, code="COMMIT_UNKNOWN")
        output = {"dataset": self.topic, "version": "v1", "partition_key": "p", "mode": "replace", "location": "x",
                  "digest": "d"}
        done = self.commit(fence=[self.fenced()], outputs=[output], idempotency_key=self.topic + "/1",
                           produce=[{"topic": self.out, "message": {"value": "v"}}])
        self.server.restart()
        found = self.call("GET", path)
        expected = {"result": "already_committed", "produced": done["produced"], "outputs": ["replaced"]}
        self.assertEqual(found, expected)
        self.refused("GET", path + "?tenant_id=t1", status=404, code="COMMIT_UNKNOWN")


if __name__ == "__main__":
    main()
