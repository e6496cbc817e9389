"""What the scripts about effects, commits and runs share: the calls, and what an answer to them must look like."""

import threading
import urllib.parse

from _broker import Case, quoted, until

LONG_MS = 60_000
SHORT_MS = 250


def outcome_of(status, lease, **more):
    """An outcome as it must be shown, apart from the time at which it was finished."""
    return {"status": status, "epoch": lease["epoch"], "attempt": lease["attempt"], **more}


def at_once(work, count):
    """Runs `work(index)` in as many threads, begun together, and answers what each of them said."""
    said, ready = [None] * count, threading.Barrier(count)

    def run(index):
        ready.wait(30)
        said[index] = work(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return said


class EffectCase(Case):
    """Every scenario has a scope of its own, named after it."""

    def identity(self, key, request):
        return {"scope": self.topic, "key": key, **request}

    def begin(self, key="k", client=None, **request):
        """The answer to a begin; it is always 200, and `decision` says the rest."""
        answer = (client or self.client).call("POST", "/v2/effects/begin", self.identity(key, request))
        self.assertEqual(answer.status, 200, str(answer))
        self.last = answer
        return answer.json

    def executes(self, answer, epoch=1, attempt=1):
        """The lease of a begin that must have said `execute`."""
        self.assertEqual(answer["decision"], "execute", answer)
        self.assertEqual(set(answer), {"decision", "lease"}, answer)
        lease = answer["lease"]
        self.assertEqual(set(lease), {"token", "epoch", "attempt", "expires_at"}, answer)
        self.assertEqual((lease["epoch"], lease["attempt"]), (epoch, attempt), answer)
        return lease

    def execute(self, key="k", epoch=1, attempt=1, **request):
        return self.executes(self.begin(key, **request), epoch, attempt)

    def reacquire(self, key="k", **request):
        return self.call("POST", "/effects/reacquire", self.identity(key, request))

    def conclude(self, lease, status="succeeded", result="committed", **outcome):
        answer = self.call("POST", "/effects/finish", {"token": lease["token"], "status": status, **outcome})
        self.assertEqual(set(answer), {"result", "epoch", "attempt", "expires_at"}, answer)
        said = (answer["result"], answer["epoch"], answer["attempt"])
        self.assertEqual(said, (result, lease["epoch"], lease["attempt"]))
        return answer

    def renew(self, lease, **request):
        answer = self.call("POST", "/effects/renew", {"token": lease["token"], **request})
        self.assertEqual(set(answer), {"expires_at", "epoch", "attempt"}, answer)
        self.assertEqual((answer["epoch"], answer["attempt"]), (lease["epoch"], lease["attempt"]))
        return answer

    def is_shut_out(self, lease):
        """A lease that is over changes nothing any more."""
        finish = {"token": lease["token"], "status": "succeeded", "body": "too late"}
        self.refused("POST", "/effects/finish", finish, 409, "STALE_LEASE")
        self.refused("POST", "/effects/renew", {"token": lease["token"]}, 409, "STALE_LEASE")

    def resolve(self, key="k", status="succeeded", result="committed", **more):
        body = {"status": status, "by": "ann", "why": "looked it up", **more}
        answer = self.call("POST", "/effects/resolve", self.identity(key, body))
        self.assertEqual(set(answer), {"result", "epoch", "attempt", "expires_at"}, answer)
        self.assertEqual(answer["result"], result)
        return answer

    def unresolved(self, key="k", http=409, code="EFFECT_FINISHED", **more):
        """A resolve that must be refused."""
        body = {"status": "succeeded", "by": "ann", "why": "looked it up", **more}
        return self.refused("POST", "/effects/resolve", self.identity(key, body), http, code)

    def effect(self, key="k", **identity):
        return self.call("POST", "/effects/get", self.identity(key, identity))

    def absent(self, key="k", **identity):
        self.refused("POST", "/effects/get", self.identity(key, identity), 404, "EFFECT_UNKNOWN")

    def replays(self, answer, status, lease, **more):
        """Checks a replay to the last field, and answers its outcome."""
        self.assertEqual(set(answer), {"decision", "outcome"}, answer)
        self.assertEqual(answer["decision"], "replay", answer)
        outcome = dict(answer["outcome"])
        self.assertTrue(outcome.pop("finished_at"), answer)
        self.assertEqual(outcome, outcome_of(status, lease, **more))
        return answer["outcome"]

    def pages(self, path, member, **query):
        """Everything that a list has, page by page; no page may exceed its limit."""
        limit, found = int(query.get("limit", 100)), []
        while True:
            page = self.call("GET", f"{path}?{urllib.parse.urlencode(query)}")
            self.assertLessEqual(len(page[member]), limit)
            found += page[member]
            if "cursor" not in page:
                return found
            query["cursor"] = page["cursor"]

    def listed(self, **query):
        return self.pages("/effects", "effects", **{"scope": self.topic, **query})

    def keys(self, **query):
        return [effect["key"] for effect in self.listed(**query)]

    def await_lapse(self, key="k", **identity):
        """Waits until a lease has run out, where a lapse is to be retried."""
        until(lambda: self.effect(key, **identity).get("lease_live") is False, f"{key} lapses")

    def await_unknown(self, *keys):
        """Waits until records have become UNKNOWN by themselves: only the list is looked at."""
        until(lambda: self.keys(state="unknown") == list(keys), f"{keys} become unknown")

    def lapsed(self, key="k", **request):
        """A lease that has run out and is up for a takeover."""
        lease = self.execute(key, lease_ms=SHORT_MS, on_lapse="retry", **request)
        self.await_lapse(key)
        return lease

    def made_unknown(self, key="k", **request):
        lease = self.execute(key, lease_ms=SHORT_MS, on_lapse="hold", **request)
        until(lambda: key in self.keys(state="unknown"), f"{key} becomes unknown")
        return lease

    def taken(self, group="g", owner="w", topic=None, lease_ms=LONG_MS, **request):
        """One delivery of the topic."""
        request = {"wait_ms": 10_000, "max": 1, "lease_ms": lease_ms, **request}
        (item,) = self.lease(group, owner, topic, **request)
        return item

    def fenced(self, value="v", **begin):
        """A worker that slept: its delivery, its effect, and the delivery that came after."""
        self.produce(value)
        old = self.taken(owner="sleeper", lease_ms=SHORT_MS)
        lease = None
        if begin:
            lease = self.execute(lease_ms=LONG_MS, lease_token=old["lease"]["token"], **begin)
        new = self.taken(owner="awake")
        self.assertEqual((new["value"], new["lease"]["attempt"]), (value, 2))
        return old, lease, new

    def outputs(self, dataset, version, partition_key=None, **query):
        path = f"/outputs/{quoted(dataset)}/{quoted(version)}"
        if partition_key is not None:
            path += f"/{quoted(partition_key)}"
        return self.pages(path, "outputs", **query)


class CommitCase(EffectCase):
    """Every scenario has a topic to read, one to write and a dataset, all named after it."""

    def setUp(self):
        super().setUp()
        self.create(retry_policy={"backoff_ms": 0, "jitter": "none"})
        self.out = f"{self.topic}-out"
        self.create(self.out)

    def pointer(self, partition_key="p", location="s3://a", mode="replace", version="v1", **more):
        """An output as a commit names it."""
        return {"dataset": self.topic, "version": version, "partition_key": partition_key, "mode": mode,
                "location": location, "digest": f"sha256:{location}", **more}

    def item(self, value="v", **lease):
        self.produce(value)
        return self.taken(**lease)

    def parts(self, item, lease, name="good", **more):
        """A whole commit: everything that a worker has to say at the end of its work."""
        return {
            "ack": [item["lease"]["token"]],
            "effects": [{"token": lease["token"], "status": "succeeded", "body": name}],
            "produce": [{"topic": self.out, "message": {"value": name, "key": name}}],
            "outputs": [self.pointer(name, f"s3://{name}")],
            **more,
        }

    def commit(self, result="committed", **parts):
        answer = self.call("POST", "/commit", parts)
        self.assertEqual(set(answer), {"result", "produced", "outputs"}, answer)
        self.assertEqual(answer["result"], result, answer)
        return answer

    def refused_at(self, part, status, code, **parts):
        problem = self.refused("POST", "/commit", parts, status, code)
        self.assertEqual(problem.get("part"), part, problem)
        return problem

    def values(self, topic=None):
        """Everything that lies in a topic, whoever may have read it."""
        page = self.call("GET", f"/topics/{topic or self.out}/messages?limit=1000")
        self.assertNotIn("cursor", page)
        return [message["value"] for message in page["messages"]]

    def no_outputs(self):
        self.refused("GET", f"/outputs/{self.topic}", status=404, code="OUTPUT_UNKNOWN")

    def output(self, partition_key, version="v1"):
        """What a partition of a version points to, without the times."""
        found = self.outputs(self.topic, version, partition_key)
        for output in found:
            self.assertTrue(output.pop("committed_at"))
        return found
