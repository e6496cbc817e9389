"""The same calls to a server of one shard and to one of several: whoever cannot see the logs must not be able to tell.

Both are asked the same things in the same order, drawn from a seed: messages, leases, settlements, effects, commits that
reach from topic to topic, outputs, entities, runs, topics that are deleted and made anew, repeated calls, and `kill -9` of
both. Every answer of one is held against that of the other, apart from tokens and times. What docs/shards.md says is
different is not asked: a commit acks deliveries of one topic, and has a key if it rests on an effect alone.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/shards_alike.py --seeds 3
"""

import argparse
import json
import random
import sys
import time

from _broker import Client, Server, quoted, until

SHARDS = 4
TOPICS = [f"topic-{number}" for number in range(8)]
OWNERS = {"topic-1": "ann", "topic-4": "ann", "topic-6": "bob"}
GROUPS = ["red", "blue"]
LONG_MS = 600_000
STEPS = 400
#: What differs between two servers whatever they are asked.
PRIVATE = {
    "token", "instance", "detail", "retry_after_ms", "id", "incarnation", "cursor", "shards", "traceparent", "readers",
    "request_id", "since", "until",
}


def comparable(value, path=()):
    """What of an answer must be the same on both servers."""
    if isinstance(value, dict):
        kept = {}
        for name, inner in value.items():
            if name in PRIVATE or name.endswith(("_at", "_since")) or name == "at":
                continue
            # A run knows of the outputs of its messages where both live in one shard.
            if name == "outputs" and path[-1:] == ("messages",):
                continue
            kept[name] = comparable(inner, (*path, name))
        return kept
    if isinstance(value, list):
        inner = [comparable(item, path) for item in value]
        # Lists over several shards are sorted within each of them.
        return sorted(inner, key=lambda item: json.dumps(item, sort_keys=True)) if path[-1:] in UNSORTED else inner
    return value


#: In no order, or in the order in which groups came to their end, which is a race with dead letters being written.
UNSORTED = {("effects",), ("runs",), ("messages",), ("children",), ("steps",), ("groups",)}


def difference(one, other, path="answer"):
    """Where two answers differ first."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            if found := difference(one.get(name), other.get(name), f"{path}.{name}"):
                return found
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, pair in enumerate(zip(one, other)):
            if found := difference(*pair, f"{path}[{place}]"):
                return found
    elif one != other:
        return f"{path}: {one!r} and {other!r}"
    return None


class Side:
    """One of the two servers, and the tokens that it has handed out."""

    def __init__(self, *flags):
        self.server = Server("--segment-bytes", "1MiB", "--snapshot-every-bytes", "64KiB", *flags)
        self.client = Client(self.server)
        self.leases, self.effects = [], []

    def call(self, method, path, body):
        answer = self.client.call(method, f"/v2{path}", self.filled(body))
        return answer.status, answer.json if answer.raw.strip() else None

    def filled(self, body):
        """A call with the tokens of this server in it."""
        if isinstance(body, dict):
            return {name: self.filled(inner) for name, inner in body.items()}
        if isinstance(body, list):
            return [self.filled(inner) for inner in body]
        if isinstance(body, Lease):
            return self.leases[body.number]
        if isinstance(body, Effect):
            return self.effects[body.number]
        return body


class Lease:
    """Stands for the token of a delivery."""

    def __init__(self, number, topic):
        self.number, self.topic = number, topic

    def __repr__(self):
        return f"<lease {self.number} of {self.topic}>"


class Effect:
    """Stands for the token of an effect."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"<effect {self.number}>"


class Different(AssertionError):
    pass


class World:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sides = [Side(), Side("--shards", str(SHARDS))]
        self.leases, self.effects, self.commits, self.story = [], [], [], []
        self.numbers = 0
        for topic in TOPICS:
            self.make(topic)

    def ask(self, method, path, body=None):
        """Asks both, and answers what they say."""
        self.story.append(f"{method} {path} {body if body is not None else ''}")
        (status, one), (other_status, other) = (side.call(method, path, body) for side in self.sides)
        self.story.append(f"    {status} {one}")
        if (status, comparable(one)) != (other_status, comparable(other)):
            self.story.append(f"    {other_status} {other}")
            raise Different(f"{method} {path}: {difference(comparable(one), comparable(other)) or other_status}")
        return status, one, other

    def number(self):
        self.numbers += 1
        return self.numbers

    def make(self, topic):
        policy = {"max_attempts": 3, "backoff_ms": 0, "jitter": "none"}
        tenant = {"tenant": OWNERS[topic]} if topic in OWNERS else {}
        self.ask("PUT", f"/topics/{topic}", {"retry_policy": policy, **tenant})

    def message(self, topic):
        envelope = {}
        if self.random.random() < 0.3:
            envelope["idempotency_key"] = f"key-{self.random.randrange(12)}"
        if self.random.random() < 0.4:
            envelope |= {"run_id": f"run-{self.random.randrange(3)}", "step_id": f"step-{self.random.randrange(4)}"}
        message = {"value": f"value {self.number()}", "priority": self.random.randrange(3)}
        if topic in OWNERS:
            envelope["tenant_id"] = OWNERS[topic]
        return {**message, "envelope": envelope} if envelope else message

    def produce(self):
        topic = self.random.choice(TOPICS)
        messages = [self.message(topic) for _ in range(self.random.choice([1, 1, 3]))]
        self.ask("POST", f"/topics/{topic}/messages", messages if len(messages) > 1 else messages[0])

    def lease(self):
        topic, group = self.random.choice(TOPICS), self.random.choice(GROUPS)
        body = {"owner": "worker", "max": self.random.choice([1, 2, 5]), "lease_ms": LONG_MS, "wait_ms": 0}
        status, one, other = self.ask("POST", f"/topics/{topic}/groups/{group}/lease", body)
        if status != 200:
            return
        for item, twin in zip(one["messages"], other["messages"]):
            self.leases.append(Lease(len(self.sides[0].leases), topic))
            for side, said in zip(self.sides, (item, twin)):
                side.leases.append(said["lease"]["token"])

    def some_lease(self, topic=None):
        """Rather a new one than an old one, which may be settled."""
        known = [lease for lease in self.leases[-40:] if topic in (None, lease.topic)]
        return self.random.choice(known[-8:] if self.random.random() < 0.8 else known) if known else None

    def settle(self):
        lease, how = self.some_lease(), self.random.choice(["ack", "ack", "nack", "dead", "extend", "release"])
        if lease is None:
            return
        more = {"nack": {"error": "no", "delay_ms": 0}, "dead": {"error": "never", "dead": True}}.get(how, {})
        self.ask("POST", f"/leases/{'nack' if how == 'dead' else how}", {"leases": [{"token": lease, **more}]})
        self.rest()

    def rest(self):
        """Waits for dead letters that are being written."""
        def alike():
            one, other = (side.call("GET", "/dlq", None)[1] for side in self.sides)
            return comparable(one) == comparable(other)
        until(alike, "the same dead letters")

    def begin(self):
        lease = self.some_lease() if self.random.random() < 0.6 else None
        # A scope that is used for deliveries of one topic is decided with them; one of nobody's has none.
        scope = f"of-{lease.topic}" if lease else f"free-{self.random.randrange(3)}"
        body = {"scope": scope, "key": f"effect-{self.random.randrange(8)}", "owner": "worker", "lease_ms": LONG_MS}
        if lease:
            body |= {"lease_token": lease, "tenant_id": OWNERS.get(lease.topic, "")}
        if self.random.random() < 0.5:
            body["reacquire"] = True
        if self.random.random() < 0.2:
            body |= self.expecting()
        status, one, other = self.ask("POST", "/effects/begin", body)
        if status == 200 and one["decision"] == "execute":
            self.effects.append(Effect(len(self.sides[0].effects)))
            for side, said in zip(self.sides, (one, other)):
                side.effects.append(said["lease"]["token"])

    def some_effect(self):
        return self.random.choice(self.effects[-6:]) if self.effects else None

    def ending(self, effect):
        status = self.random.choice(["succeeded", "succeeded", "failed_final", "failed_retryable"])
        more = {"body": f"result {self.number()}"} if status == "succeeded" else {"error": "no"}
        return {"token": effect, "status": status, **more}

    def finish(self):
        effect = self.some_effect()
        if effect is None:
            return
        match self.random.choice(["finish", "finish", "release", "renew"]):
            case "finish":
                self.ask("POST", "/effects/finish", self.ending(effect))
            case "release":
                self.ask("POST", "/effects/release", {"token": effect})
            case "renew":
                self.ask("POST", "/effects/renew", {"token": effect, "lease_ms": LONG_MS})

    def expecting(self):
        """Only if an entity has a version, which is right more often than not."""
        entity = f"entity-{self.random.randrange(4)}"
        _, found, _ = self.ask("GET", f"/entities/{entity}")
        version = found.get("version", 0) + (self.random.random() < 0.2)
        return {"expect": [{"entity": entity, "version": version}]}

    def output(self):
        pointer = {
            "dataset": f"dataset-{self.random.randrange(2)}", "version": f"v{self.random.randrange(2)}",
            "partition_key": f"part-{self.random.randrange(3)}", "location": f"s3://{self.number()}", "digest": "d",
        }
        if self.random.random() < 0.3:
            return {**pointer, "partition_key": "log", "mode": "append", "dedupe_key": f"d{self.random.randrange(5)}"}
        return {**pointer, "mode": "replace"}

    def commit(self):
        if self.commits and self.random.random() < 0.15:
            return self.ask("POST", "/commit", self.random.choice(self.commits[-5:]))
        draw, body = self.random.random, {}
        lease = self.some_lease() if draw() < 0.8 else None
        if lease is not None:
            more = self.some_lease(lease.topic) if draw() < 0.2 else lease
            body["ack" if draw() < 0.85 else "fence"] = [lease] if more is lease else [lease, more]
        if self.effects and draw() < 0.6:
            body["effects"] = [self.ending(self.some_effect())]
        if draw() < 0.7:
            topics = self.random.sample(TOPICS, self.random.choice([1, 1, 2, 3]))
            body["produce"] = [{"topic": topic, "message": self.message(topic)} for topic in topics]
        if draw() < 0.3 and ("effects" in body or lease is not None):
            body["outputs"] = [self.output() for _ in range(self.random.choice([1, 2]))]
        if draw() < 0.2:
            body |= self.expecting()
        if draw() < 0.2 or (lease is None and body):
            body["idempotency_key"] = f"commit-{self.number()}"
        if body:
            self.commits.append(body)
            self.ask("POST", "/commit", body)

    def remake(self):
        """A topic goes with all that is in it, and may come back under the same name."""
        topic = self.random.choice(TOPICS)
        self.ask("DELETE", f"/topics/{topic}?confirm={topic}")
        if self.random.random() < 0.3:
            self.produce()
        self.make(topic)

    def redrive(self):
        topic = self.random.choice(TOPICS)
        status, letters, _ = self.ask("GET", f"/dlq/{topic}?limit=5")
        if status != 200 or not letters["letters"]:
            return
        target = {"target_topic": self.random.choice(TOPICS)} if self.random.random() < 0.5 else {}
        status, one, other = self.ask("POST", f"/dlq/{topic}/redrive", {"limit": 2, **target})
        if status < 300 and "id" in one:
            for side, said in zip(self.sides, (one, other)):
                until(lambda: side.call("GET", f"/jobs/{said['id']}", None)[1]["state"] != "running", "the job ends")

    def outputs(self):
        dataset, version = f"dataset-{self.random.randrange(2)}", f"v{self.random.randrange(2)}"
        match self.random.choice(["cutover", "rollback", "seal"]):
            case "rollback":
                self.ask("POST", f"/outputs/{dataset}/rollback", {})
            case what:
                self.ask("POST", f"/outputs/{dataset}/{what}", {"version": version})

    def restart(self):
        self.story.append("kill -9")
        for side in self.sides:
            side.server.restart()

    def look(self):
        """Everything that can be seen."""
        for path in ("/topics", "/dlq", "/effects?limit=1000", "/runs?limit=100", "/outputs", "/entities", "/tenants"):
            self.ask("GET", path)
        for number in range(3):
            self.ask("GET", f"/runs/run-{number}?limit=1000")
        for dataset in ("dataset-0", "dataset-1"):
            self.ask("GET", f"/outputs/{dataset}")
            for version in ("v0", "v1"):
                self.ask("GET", f"/outputs/{dataset}/{version}?limit=1000")
        for topic in TOPICS:
            self.ask("GET", f"/topics/{topic}")
            self.ask("GET", f"/topics/{topic}/groups")
            self.ask("GET", f"/topics/{topic}/messages?limit=1000")
            self.ask("GET", f"/dlq/{topic}?limit=1000")
            self.ask("GET", f"/dlq/{topic}/causes")
            for group in GROUPS:
                self.ask("GET", f"/topics/{topic}/groups/{quoted(group)}")

    def run(self):
        doings = {
            self.produce: 5, self.lease: 6, self.settle: 4, self.begin: 6, self.finish: 4, self.commit: 9,
            self.redrive: 1, self.outputs: 1, self.remake: 0.5, self.restart: 0.2, self.look: 0.3,
        }
        for _ in range(STEPS):
            self.random.choices(list(doings), list(doings.values()))[0]()
        self.look()

    def discard(self):
        for side in self.sides:
            side.client.close()
            side.server.discard()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--tell", type=int, default=40, help="lines of the story that are told when they differ")
    options = parser.parse_args()
    calls, started = 0, time.monotonic()
    for seed in range(options.first, options.first + options.seeds):
        world = World(seed)
        try:
            world.run()
        except AssertionError as error:
            print(*world.story[-options.tell:], sep="\n", file=sys.stderr)
            print(f"seed {seed}: {error!r}: one shard and {SHARDS} answer differently", file=sys.stderr)
            return 1
        finally:
            world.discard()
        calls += len(world.story) // 2
    took = time.monotonic() - started
    print(f"{options.seeds} seeds, {calls} calls: one shard and {SHARDS} answer alike ({took:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
