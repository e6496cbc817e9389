"""`kill -9` on the real binary while clients begin, finish, resolve and commit effects; an outside checker judges.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/effects_kill9.py --cycles 500
"""

import argparse
import itertools
import os
import random
import sys
import threading
import time
from collections import Counter, defaultdict

from _broker import BINARY, Client, Server, until
from _effects_checker import CommitChecker, Event, Facts, KeyChecker, result

CLIENTS = 8
# A life is at most this long, counted from the first answer.
LIFE_MS = 150
# Keys that clients meet at; the older ones rest until the end.
WINDOW = 12
PATIENCE_S = 60
# Small files and many snapshots, so that kills meet rolls, snapshots and trims too.
FLAGS = ("--segment-bytes", "1MiB", "--snapshot-every-bytes", "200KiB")
OUTCOMES = ("succeeded", "failed_final", "failed_retryable")


class Silence(Exception):
    """The broker died before it answered."""


class World:
    """The broker, and everything that was asked of it."""

    def __init__(self, seed, shards):
        self.seed, self.shards, self.life = seed, shards, 1
        self.server = Server(*FLAGS, "--shards", str(shards))
        self.alive, self.stop = threading.Event(), threading.Event()
        self.numbers = itertools.count(1)
        self.keys, self.policies = [], {}
        self.events, self.deliveries = defaultdict(list), defaultdict(list)
        self.commits, self.acks = [], set()

    def policy(self, key):
        """How a key is begun; the same for everybody who begins it."""
        if key not in self.policies:
            choice = random.Random(f"{self.seed} {key}")
            policy = {"on_lapse": choice.choice(("retry", "hold")), "lease_ms": choice.choice((20, 60, 150))}
            if choice.random() < 0.25:
                policy["max_attempts"] = 2
            self.policies.setdefault(key, policy)
        return self.policies[key]

    def wait_for_life(self):
        while not self.alive.wait(0.2) and not self.stop.is_set():
            pass

    def restart(self, pause):
        """Kills the broker in mid-flight, and starts it on the same data."""
        time.sleep(pause)
        self.alive.clear()
        self.server.kill()
        self.server.start()
        self.life += 1
        self.alive.set()


class Caller:
    """One client. Everything it says is written down before it is sent."""

    def __init__(self, world, number):
        self.world, self.client = world, Client(world.server)
        self.random = random.Random(f"{world.seed} client {number}")

    def run(self):
        while not self.world.stop.is_set():
            self.world.wait_for_life()
            try:
                self.play()
            except Silence:
                pass
        self.client.close()

    def play(self):
        if self.random.random() < 0.4:
            self.deliver()
        else:
            self.meet()

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def post(self, path, body):
        try:
            return self.client.call("POST", f"/v2/{path}", body)
        except AssertionError as error:
            raise Silence from error

    def say(self, event, path, body, again=True):
        """Sends a call and notes its answer. A lost answer may be asked for again in the next life."""
        event.life, event.started = self.world.life, time.time()
        self.world.events[event.key].append(event)
        if event.kind == "commit":
            self.world.commits.append(event)
        try:
            answer = self.post(path, body)
        except Silence:
            if not again or self.chance(50):
                raise
            self.world.wait_for_life()
            repeated = Event(event.kind, event.key, event.request, event.epoch, event.nonce, event.value,
                             event.delivery)
            return self.say(repeated, path, body, again=False)
        event.status, event.answer, event.ended = answer.status, answer.json, time.time()
        if self.world.life != event.life:
            event.life = None
        return event

    def begin(self, key, item=None, kind="begin"):
        body = {"scope": "s", "key": key, "request_id": str(next(self.world.numbers)), **self.world.policy(key)}
        event = Event(kind, key, {"request_id": body["request_id"]})
        if item:
            body["lease_token"] = item["lease"]["token"]
            event.value, event.delivery = item["value"], item["lease"]["attempt"]
        if kind == "begin" and self.chance(20):
            body["wait_ms"] = self.random.choice((5, 50, 100))
        return self.say(event, f"effects/{kind}", body).answer

    def finish(self, key, lease, status):
        nonce = next(self.world.numbers)
        event = Event("finish", key, {"status": status}, lease["epoch"], nonce)
        body = {"token": lease["token"], **result(nonce, status)}
        said = self.say(event, "effects/finish", body)
        if self.chance(15):
            repeated = Event("finish", key, {"status": status}, lease["epoch"], nonce)
            self.say(repeated, "effects/finish", body)
        return said.status == 200

    def renew(self, key, lease):
        # Longer than any lease here, so that a renewal is one.
        event = Event("renew", key, {}, lease["epoch"])
        self.say(event, "effects/renew", {"token": lease["token"], "lease_ms": 200})

    def resolve(self, key, epoch, status=None):
        nonce, status = next(self.world.numbers), status or self.random.choice(OUTCOMES)
        event = Event("resolve", key, {"status": status}, epoch, nonce)
        who = {"scope": "s", "key": key, "epoch": epoch, "by": "checker", "why": "it has looked"}
        self.say(event, "effects/resolve", {**who, **result(nonce, status)})

    def commit(self, key, lease, item=None):
        """Everything at once. Its message and its output are named after it, so that each can be told."""
        nonce = next(self.world.numbers)
        name = f"commit-{nonce}"
        event = Event("commit", key, {"status": "succeeded"}, lease["epoch"], nonce)
        output = {"dataset": "d", "version": "v", "partition_key": name, "mode": "replace", "location": name,
                  "digest": name}
        body = {
            "effects": [{"token": lease["token"], **result(nonce, "succeeded")}],
            "produce": [{"topic": "out", "message": {"value": name}}],
            "outputs": [output],
        }
        if item:
            body["ack"] = [item["lease"]["token"]]
            event.value, event.delivery = item["value"], item["lease"]["attempt"]
        self.say(event, "commit", body)

    def meet(self):
        """Tries its luck with a key that others try as well."""
        if len(self.world.keys) < 5 or self.chance(25):
            self.world.keys.append(f"k{next(self.world.numbers)}")
        key = self.random.choice(self.world.keys[-WINDOW:])
        self.react(key, self.begin(key))

    def react(self, key, said, item=None):
        decision = said.get("decision")
        if decision == "execute":
            self.end(key, said["lease"], item)
        elif decision == "unknown" and self.chance(40):
            self.resolve(key, said["epoch"])
        elif decision == "retryable" and self.chance(60):
            self.react(key, self.begin(key, item, "reacquire"), item)
        elif decision == "replay" and item:
            self.ack(item)

    def end(self, key, lease, item):
        """What a worker does with a lease: mostly the right thing."""
        if self.chance(15):
            return  # It crashes.
        # The work takes a while, so that others come in between.
        time.sleep(self.random.choice((0, 0, 0.005, 0.015)))
        if self.chance(15):
            self.renew(key, lease)
        if self.chance(15):
            time.sleep(self.world.policy(key)["lease_ms"] / 1000)
        if self.chance(60 if item else 20):
            self.commit(key, lease, item)
            return
        is_done = self.finish(key, lease, self.random.choices(OUTCOMES, (60, 15, 25))[0])
        if item and is_done and self.chance(80):
            self.react(key, self.begin(key, item), item)

    def ack(self, item):
        self.world.acks.add(item["value"])
        self.post("leases/ack", {"leases": [{"token": item["lease"]["token"]}]})

    def deliver(self):
        """Works on a message: its effect is tied to the delivery."""
        if self.chance(60):
            self.post("topics/work/messages", {"value": f"m{next(self.world.numbers)}"})
        for item in self.lease(lease_ms=self.random.choice((30, 80, 200))):
            key = f"tied-{item['value']}"
            self.react(key, self.begin(key, item), item)

    def lease(self, **request):
        life, started = self.world.life, time.time()
        answer = self.post("topics/work/groups/g/lease", {"owner": "w", **request})
        items = answer.json["messages"]
        for item in items:
            value = item["value"]
            note = Event("delivery", value, {}, delivery=item["lease"]["attempt"], life=life, started=started)
            note.ended = time.time()
            if self.world.life != life:
                note.life = None
            self.world.deliveries[value].append(note)
        return items


def prepare(world):
    client = Client(world.server)
    for topic in ("work", "out"):
        policy = {"retry_policy": {"backoff_ms": 0, "jitter": "none"}}
        assert client.call("PUT", f"/v2/topics/{topic}", policy).status == 201
    client.close()
    world.alive.set()


def load(world, cycles):
    """Lives and deaths under load."""
    callers = [Caller(world, number) for number in range(CLIENTS)]
    threads = [threading.Thread(target=caller.run, daemon=True) for caller in callers]
    for thread in threads:
        thread.start()
    choices = random.Random(f"{world.seed} lives")
    for cycle in range(1, cycles + 1):
        pause = choices.uniform(0, LIFE_MS) / 1000
        world.restart(pause)
        calls = sum(map(len, list(world.events.values())))
        print(f"kill {cycle}/{cycles} after {pause * 1000:.0f} ms: {len(world.events)} keys, {calls} calls",
              flush=True)
    world.stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        if thread.is_alive():
            sys.exit("a client hangs: a call was neither answered nor cut off")


def drain(world, caller):
    """Everything that is still owed, also what is on loan until its lease lapses."""
    drained, request = set(), {"owner": "d", "max": 1000, "wait_ms": 300}
    while caller.client.call("GET", "/v2/topics/work/groups/g").json["lag"]:
        items = caller.post("topics/work/groups/g/lease", request).json["messages"]
        drained.update(item["value"] for item in items)
        if tokens := [{"token": item["lease"]["token"]} for item in items]:
            caller.post("leases/ack", {"leases": tokens})
    return drained


def bring_to_an_end(caller, key):
    """The outcome of a key, which must be reachable by the means that everybody has."""

    def step():
        said = caller.begin(key)
        if said["decision"] == "replay":
            return said["outcome"]
        if said["decision"] == "execute":
            caller.finish(key, said["lease"], "succeeded")
        elif said["decision"] == "unknown":
            caller.resolve(key, said["epoch"], "failed_retryable")
        elif said["decision"] == "retryable":
            taken = caller.begin(key, kind="reacquire")
            if taken.get("decision") == "execute":
                caller.finish(key, taken["lease"], "succeeded")
            else:
                caller.resolve(key, said["epoch"], "succeeded")
        return None

    return until(step, f"the end of {key}", PATIENCE_S)


def pages(client, target, member):
    found, cursor = [], ""
    while True:
        page = client.call("GET", f"/v2/{target}?limit=1000{cursor}").json
        found += page[member]
        if "cursor" not in page:
            return found
        cursor = f"&cursor={page['cursor']}"


def settle(world):
    """Lets everything come to rest, and looks at it after one more kill."""
    caller = Caller(world, "settler")
    world.restart(0)
    drained = drain(world, caller)
    outcomes = {key: bring_to_an_end(caller, key) for key in sorted(world.events)}
    world.restart(0)
    for key in outcomes:
        caller.begin(key)
    produced = [message["value"] for message in pages(caller.client, "topics/out/messages", "messages")]
    outputs = []
    if world.commits and caller.client.call("GET", "/v2/outputs/d/v").status == 200:
        outputs = [output["location"] for output in pages(caller.client, "outputs/d/v", "outputs")]
    caller.client.close()
    return Facts(outcomes, produced, outputs, drained)


def judge(world, facts):
    """Every violation, with the history of the key that it is about."""
    complaints = []
    for key, events in sorted(world.events.items()):
        found = KeyChecker(key, events, facts.outcomes[key], world.policy(key)).check()
        if found:
            complaints.append("\n  ".join([*found, history(world, key)]))
    for key, found in CommitChecker(world.commits, world.deliveries, world.acks, facts, world.shards).check():
        complaints.append(f"{found}\n  {history(world, key)}")
    return complaints


def history(world, key):
    return "\n    ".join([f"the history of {key}:", *map(str, world.events[key])])


def summary(world):
    """Counts of what happened; without each of these the load was no load."""
    events = [event for events in world.events.values() for event in events]
    counts = Counter(event.decision for event in events if event.decision)
    counts["again"] = sum(event.decision == "execute" and event.answer["lease"]["epoch"] > 1 for event in events)
    counts["commits"] = sum(event.kind == "commit" and event.status == 200 for event in events)
    counts["resolved"] = sum(event.kind == "resolve" and event.status == 200 for event in events)
    counts["refused"] = sum(event.status == 409 for event in events)
    counts["unanswered"] = sum(event.ended is None for event in events)
    return len(events), counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--shards", type=int, default=1)
    options = parser.parse_args()
    if not BINARY:
        sys.exit("set DRIFTQ_BIN to the binary under test")
    print(f"{options.cycles} kills; --seed {options.seed} repeats the choices, though not the timing")
    started, world = time.monotonic(), World(options.seed, options.shards)
    # Whatever hangs must not hang for ever.
    guard = threading.Timer(300 + 5 * options.cycles, lambda: (world.server.process.kill(), os._exit(1)))
    guard.daemon = True
    guard.start()
    try:
        prepare(world)
        load(world, options.cycles)
        facts = settle(world)
        complaints = judge(world, facts)
    finally:
        world.stop.set()
        world.server.discard()
    calls, counts = summary(world)
    words = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"{len(complaints)} violations; {len(world.events)} keys, {calls} calls: {words}; "
          f"{time.monotonic() - started:.1f} s")
    for complaint in complaints[:20]:
        print(f"VIOLATION {complaint}")
    missing = [name for name in ("execute", "replay", "unknown", "again", "commits", "resolved", "unanswered")
               if not counts[name]]
    if missing:
        print(f"the load was no load: no {missing}")
    sys.exit(1 if complaints or missing else 0)


if __name__ == "__main__":
    main()
