"""Preconditions over the native API: only if an entity is still at that version, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_preconditions.py
"""

import subprocess

from _broker import BINARY, main, quoted
from _effects import LONG_MS, SHORT_MS, CommitCase, at_once

CLIENTS = 8
VERSIONS = 12


class PreconditionCase(CommitCase):
    """Every scenario has a tenant of its own, named after it."""

    def expecting(self, *pairs):
        return {"tenant_id": self.topic, "expect": [{"entity": name, "version": version} for name, version in pairs]}

    def version(self, entity="e", tenant=None):
        answer = self.call("GET", f"/entities/{quoted(entity)}?tenant_id={quoted(tenant or self.topic)}")
        self.assertEqual((answer["entity"], answer["tenant_id"]), (entity, tenant or self.topic))
        self.assertEqual("raised_at" in answer, answer["version"] > 0, answer)
        return answer["version"]

    def differs(self, path, body, entity, version, part=None):
        """A call that must be refused because of an entity, and what it says about it."""
        problem = self.refused("POST", path, body, 409, "PRECONDITION_FAILED", f"{entity} is at version {version}")
        said = (problem["entity"], problem["version"], problem.get("part"), problem["retryable"])
        self.assertEqual(said, (entity, version, part, False))


class Begins(PreconditionCase):
    def test_a_begin_compares_and_raises(self):
        self.assertEqual(self.version(), 0)
        lease = self.execute("a", **self.expecting(("e", 0), ("f", 0)))
        self.assertEqual((self.version(), self.version("f"), self.version("g")), (1, 1, 0))
        late = self.identity("b", self.expecting(("g", 0), ("e", 0)))
        self.differs("/effects/begin", late, "e", 1)
        self.absent("b", tenant_id=self.topic)
        self.assertEqual(self.version("g"), 0, "nothing of it was done")
        # A replay, and somebody who comes while it runs, are answered whatever the version is.
        running = self.begin("a", **self.expecting(("e", 0)))
        self.assertEqual(running["decision"], "in_progress")
        self.conclude(lease, body="done")
        replayed = self.begin("a", **self.expecting(("e", 99)))
        self.replays(replayed, "succeeded", lease, body="done")
        self.assertEqual(self.version(), 1)

    def test_a_retry_goes_on_with_what_was_let_through(self):
        terms = {"on_lapse": "retry", "lease_ms": SHORT_MS, **self.expecting(("e", 0))}
        self.execute(**terms)
        self.await_lapse(tenant_id=self.topic)
        self.server.restart()
        second = self.execute(epoch=2, attempt=2, **{**terms, "lease_ms": LONG_MS})
        self.assertEqual(self.version(), 1, "the record has raised it before")
        self.conclude(second, "failed_retryable", error="no")
        self.execute("other", **self.expecting(("e", 1)))
        self.execute(epoch=3, attempt=3, reacquire=True, **terms)
        self.assertEqual(self.version(), 2)

    def test_several_in_one_call_meet_one_another(self):
        effects = [self.identity(key, self.expecting(("e", version))) for key, version in zip("abc", (0, 0, 1))]
        results = self.call("POST", "/effects/begin", {"effects": effects})["results"]
        self.assertEqual([result["decision"] for result in results], ["execute", "refused", "execute"])
        problem = results[1]["problem"]
        self.assertEqual((problem["code"], problem["entity"], problem["version"]), ("PRECONDITION_FAILED", "e", 1))
        self.assertEqual(self.version(), 2)

    def test_an_effect_of_a_delivery_has_the_entities_of_its_tenant(self):
        self.produce({"value": "v", "envelope": {"tenant_id": self.topic}})
        (item,) = self.lease(lease_ms=LONG_MS)
        expect = [{"entity": "e", "version": 0}]
        self.execute(lease_token=item["lease"]["token"], expect=expect)
        self.assertEqual(self.version(), 1)

    def test_what_makes_no_sense_is_refused(self):
        for expect, says in (
            ([{"entity": "e", "version": 0}, {"entity": "e", "version": 1}], "expect[1].entity: is there twice"),
            ([{"entity": "", "version": 0}], "expect[0].entity: must have 1 to 255 bytes"),
            ([{"entity": "e"}], "expect[0]: missing field `version`"),
            ([{"entity": "e", "version": -1}], "expect[0].version"),
            ([{"entity": f"e{index}", "version": 0} for index in range(101)], "expect: must have at most 100 items"),
        ):
            self.refused("POST", "/effects/begin", self.identity("k", {"expect": expect}), says=says)
            self.refused("POST", "/commit", {"expect": expect}, says=says)


class Commits(PreconditionCase):
    def test_a_commit_raises_with_the_rest_or_not_at_all(self):
        item, lease = self.item(), self.execute(lease_ms=LONG_MS)
        parts = self.parts(item, lease)
        self.differs("/commit", {**parts, **self.expecting(("f", 0), ("e", 1))}, "e", 0, "expect[1]")
        self.assertEqual((self.version(), self.version("f"), self.effect()["state"]), (0, 0, "in_progress"))
        first = self.commit(**parts, **self.expecting(("e", 0), ("f", 0)))
        for _ in range(2):
            self.server.restart()
            again = self.commit("already_committed", **parts, **self.expecting(("e", 0), ("f", 0)))
            self.assertEqual({**again, "result": "committed"}, first)
        self.assertEqual((self.version(), self.version("f")), (1, 1), "a repeat raises nothing")
        self.refused("POST", "/commit", {**parts, **self.expecting(("e", 1))}, 409, "STALE_LEASE")
        self.assertEqual(self.version(), 1, "a stale part raises nothing")

    def test_an_entity_alone_is_a_commit(self):
        key = {"idempotency_key": self.topic}
        self.commit(**self.expecting(("e", 0)), **key)
        self.commit("already_committed", **self.expecting(("e", 0)), **key)
        self.refused("POST", "/commit", {**self.expecting(("e", 1)), **key}, 422, "KEY_REUSED")
        self.differs("/commit", self.expecting(("e", 0)), "e", 1, "expect[0]")
        self.assertEqual(self.version(), 1)

    def test_several_commits_in_one_call_meet_one_another(self):
        commits = [self.expecting(("e", version)) for version in (0, 0, 1)]
        results = self.call("POST", "/commit", {"commits": commits})["results"]
        self.assertEqual([result["result"] for result in results], ["committed", "refused", "committed"])
        self.assertEqual((results[1]["problem"]["entity"], results[1]["problem"]["version"]), ("e", 1))
        self.assertEqual(self.version(), 2)

    def test_tenants_do_not_meet(self):
        self.commit(**self.expecting(("e", 0)))
        self.commit(**{**self.expecting(("e", 0)), "tenant_id": self.topic + "-2"})
        self.assertEqual((self.version(), self.version(tenant=self.topic + "-2")), (1, 1))


class Races(PreconditionCase):
    """Many clients want the next version; a kill in between takes none of them back."""

    def race(self, attempt):
        """For each version all clients try, and exactly one gets it."""
        for version in range(VERSIONS):
            if version % 4 == 3:
                self.server.restart()
            clients = [self.connect() for _ in range(CLIENTS)]
            answers = at_once(lambda index: attempt(clients[index], version, index), CLIENTS)
            winners = [answer for answer in answers if answer.status == 200]
            self.assertEqual(len(winners), 1, [str(answer) for answer in answers])
            for answer in answers:
                if answer.status != 200:
                    problem = self.problem(answer, 409, "PRECONDITION_FAILED")
                    self.assertEqual((problem["entity"], problem["version"]), ("e", version + 1))
            self.assertEqual(self.version(), version + 1)
        self.server.restart()
        self.assertEqual(self.version(), VERSIONS)

    def test_one_begin_wins_each_version(self):
        def attempt(client, version, index):
            body = self.identity(f"{version}-{index}", self.expecting(("e", version)))
            return client.call("POST", "/v2/effects/begin", body)

        self.race(attempt)

    def test_one_commit_wins_each_version(self):
        self.race(lambda client, version, index: client.call("POST", "/v2/commit", self.expecting(("e", version))))


class Looking(PreconditionCase):
    def test_entities_are_listed_shown_and_removed(self):
        names = ["a/b", "c d", "é"]
        self.commit(**self.expecting(*((name, 0) for name in names)))
        self.commit(**self.expecting(("c d", 1)))
        for limit in (1, 2, 100):
            listed = self.pages("/entities", "entities", tenant_id=self.topic, limit=limit)
            self.assertEqual([(entity["entity"], entity["version"]) for entity in listed],
                             [("a/b", 1), ("c d", 2), ("é", 1)])
        path = f"/entities/{quoted('c d')}?tenant_id={self.topic}"
        self.refused("DELETE", path, status=400, code="CONFIRMATION_REQUIRED")
        self.assertEqual(self.call("DELETE", path + "&confirm=c%20d"), {"version": 2})
        self.refused("DELETE", path + "&confirm=c%20d", status=404, code="ENTITY_UNKNOWN")
        self.server.restart()
        self.assertEqual(self.version("c d"), 0, "removed is as if it had never been there")
        self.commit(**self.expecting(("c d", 0)))

    def test_the_command_line(self):
        def run(*words, code=0):
            command = [BINARY, "--server", f"http://{self.server.host}:{self.server.port}", *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            return done.stdout + done.stderr

        tenant = ("--tenant", self.topic)
        self.assertIn("at version 0", run("entity", "show", "order-7", *tenant))
        run("commit", "--expect", "order-7=0", *tenant)
        run("effect", "begin", self.topic, "k", "--expect", "order-7=1", *tenant)
        self.assertIn("order-7 is at version 2", run("effect", "begin", self.topic, "l", "--expect", "order-7=1", *tenant,
                                                     code=5))
        self.assertIn("ran", run("effect", "run", "--key", "m", "--expect", "order-7=2", *tenant, "--", "echo", "ran"))
        self.assertIn("is at version 3", run("effect", "run", "--key", "n", "--expect", "order-7=2", *tenant, "--",
                                             "echo", "ran", code=5))
        self.assertIn("order-7", run("entity", "list", *tenant))
        self.assertIn("it was at version 3", run("entity", "remove", "order-7", "--yes", *tenant))
        self.assertEqual(self.version("order-7"), 0)


class Full(PreconditionCase):
    flags = ("--entities-max", "2")

    def test_there_is_room_for_so_many(self):
        self.commit(**self.expecting(("e", 0), ("f", 0)))
        body = self.identity("k", self.expecting(("g", 0)))
        self.refused("POST", "/effects/begin", body, 409, "LIMIT_REACHED", "entities")
        self.refused("POST", "/commit", self.expecting(("g", 0)), 409, "LIMIT_REACHED", "entities")
        self.commit(**self.expecting(("e", 1)))
        self.call("DELETE", f"/entities/f?tenant_id={self.topic}&confirm=f")
        self.commit(**self.expecting(("g", 0)))


if __name__ == "__main__":
    main()
