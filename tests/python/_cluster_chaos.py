"""Three servers on one log under producers and workers with effects, killed, put to sleep, drained and cut off at random;
an outside checker judges.

    DRIFTQ_BIN=target/release/driftq DRIFTQ_TEST_POSTGRES=postgres://… python3 tests/python/_cluster_chaos.py --seconds 300

With `--engine postgres` or `--engine nats`, what holds the log is broken as well, by `driftq-testbed` beside the binary:
PostgreSQL crashes, and fails over to its synchronous standby once; of three NATS servers the leader of the stream is
killed.

Every server reaches its log, and is reached by the others, by wires of its own that can be cut (`_wires.py`): off the log,
off the others, or both, while clients still reach it. With `--shards N` there are several topics, and a worker settles by
one commit: it acks, ends its effect, and stores a receipt in another topic, most often of another shard.

Every client repeats what was not answered, under the same name, at another server: what is acknowledged must be there,
and nothing may be done twice. For each kind of blow it is told for how long no producer had an answer after it. A stream of NATS that
has lost its leader takes its own time to find another: how much of a silence that was is asked from outside, too.
"""

import argparse
import bisect
import http.client
import json
import math
import os
import random
import signal
import statistics
import sys
import threading
import time
import zlib
from collections import Counter, defaultdict

from _broker import Server, until
from _engine import ADDRESS, Engine
from _wires import FROZEN, HOST, TORN, Wires

BINARY, DATABASE = os.environ.get("DRIFTQ_BIN", ""), os.environ.get("DRIFTQ_TEST_POSTGRES", "")
NODES, TOPIC, GROUP, SCOPE = 3, "orders", "billing", "charge"
# Longer than a take-over, so that most leases outlive one; an answer that was lost is made good after this.
LEASE_MS = 10_000
# A worker that has waited for longer than this asks again before it charges: its lease may be somebody else's by now.
FRESH_S = 3
# How long nobody answers a call, or nothing is settled in the end, before something is broken.
PATIENCE_S = 60
# With more messages than these to be charged, producers slow down: workers do three calls where they do one.
BACKLOG, BACKLOG_PAUSE_S = 2_000, 0.1
# A server that sleeps for longer than its seat lasts is replaced.
SLEEP_S = 4
# One that is cut off, too, most of the time.
CUT_S = (3.0, 6.0)
PAUSE_S = (2.0, 5.0)
BLOWS = ("kill", "kill", "kill", "sleep", "drain", "cut", "cut", "cut")
# How many blows hit what holds the log.
ENGINE_SHARE = 0.25
# So many of the longest silences are told with what fell into them.
GAPS_TOLD = 8


class Node(Server):
    """A server that reaches its log, and that the others reach, by wires."""

    def __init__(self, wires, log, *flags):
        self.wires, self.to_log = wires, []
        self.common = ("--log", ADDRESS.sub(self.by_wire, log), *flags)
        assert self.to_log, f"the log has no address of the form {HOST}:port"
        self.rename()
        super().__init__(*self.flags)

    def by_wire(self, address):
        (number, port), target = self.wires.lay(), int(address[1])
        self.wires.mend(number, target)
        self.to_log.append((number, target))
        return f"{HOST}:{port}"

    def rename(self):
        """From the next start on it is another server of the cluster."""
        self.front, port = self.wires.lay()
        self.url = f"http://{HOST}:{port}"
        self.flags = (*self.common, "--node-url", self.url)

    def start(self):
        super().start()
        self.wires.mend(self.front, self.port)

    def kill(self):
        super().kill()
        self.wires.cut(self.front, TORN)

    def cut(self, off, manner):
        for number, _ in self.reach(off):
            self.wires.cut(number, manner)

    def mend(self, off):
        for number, target in self.reach(off):
            self.wires.mend(number, target)

    def reach(self, off):
        return (self.to_log if "log" in off else []) + ([(self.front, self.port)] if "others" in off else [])


class World:
    """The servers, what was asked of them, and what was done outside."""

    def __init__(self, seed, schema, engine, shards):
        self.dice, self.stop, self.over = random.Random(seed), threading.Event(), threading.Event()
        self.engine, self.wires = engine, Wires()
        log, flags = (engine.url, ()) if engine else (DATABASE, ("--log-schema", schema))
        self.topics, self.receipts = [TOPIC], []
        if shards > 1:
            flags += ("--shards", str(shards))
            # Enough that every shard has some.
            self.topics = [f"{TOPIC}-{number}" for number in range(2 * shards)]
            self.receipts = [f"receipts-{number}" for number in range(2 * shards)]
        self.nodes = [Node(self.wires, log, *flags) for _ in range(NODES)]
        self.lock, self.failures = threading.Lock(), []
        self.stored, self.charges, self.answers, self.blows = set(), Counter(), [], []

    def ask(self, who, method, path, body=None):
        """The answer of some server, as soon as one has one."""
        begun, turn = time.monotonic(), who
        while time.monotonic() - begun < PATIENCE_S:
            turn += 1
            node = self.nodes[turn % NODES]
            connection = http.client.HTTPConnection(node.host, node.port, timeout=20)
            try:
                connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                status, raw = response.status, response.read()
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            finally:
                connection.close()
            if status in (502, 503, 429):
                time.sleep(0.02)
                continue
            return status, json.loads(raw or b"null")
        raise AssertionError(f"{method} {path}: no answer for {PATIENCE_S} s")

    def guarded(self, work, who):
        try:
            work(who)
        except Exception as error:  # Told at the end, with the others.
            self.failures.append(f"{work.__name__} {who}: {error!r}")
            self.stop.set()
            self.over.set()

    def produce(self, who):
        number = 0
        while not self.stop.is_set():
            value, topic, number = f"{who}-{number}", self.topics[number % len(self.topics)], number + 1
            message = {"value": value, "envelope": {"idempotency_key": value}}
            status, answer = self.ask(who, "POST", f"/v2/topics/{topic}/messages", message)
            assert status in (200, 201), answer
            with self.lock:
                self.stored.add(value)
                self.answers.append(time.monotonic())
                is_behind = len(self.stored) - len(self.charges) > BACKLOG
            if is_behind:
                self.stop.wait(BACKLOG_PAUSE_S)

    def work(self, who):
        number, owner = who, f"worker-{who}"
        while not self.over.is_set():
            number += 1
            topic, wait = self.topics[number % len(self.topics)], 200 // len(self.topics)
            asked = {"owner": owner, "max": 10, "lease_ms": LEASE_MS, "wait_ms": wait, "request_id": f"{who}-{number}"}
            # Before the question: an answer that was lost and asked for again is as old as the first.
            lent = time.monotonic()
            status, answer = self.ask(who, "POST", f"/v2/topics/{topic}/groups/{GROUP}/lease", asked)
            assert status == 200, answer
            for item in answer["messages"]:
                self.charge(who, owner, item, lent)

    def charge(self, who, owner, item, lent):
        """Does the work on a message, unless its loan is half over: when that ends, so does the lease of its effect."""
        value, token = item["value"], item["lease"]["token"]
        begin = {"scope": SCOPE, "key": value, "lease_token": token, "owner": owner, "reacquire": True,
                 "lease_ms": LEASE_MS, "on_lapse": "hold"}
        while time.monotonic() - lent < LEASE_MS / 2000:
            asked = time.monotonic()
            status, begun = self.ask(who, "POST", "/v2/effects/begin", begin)
            if status == 409 or time.monotonic() - lent > LEASE_MS / 2000:
                return  # Another worker has the message by now, or will have it.
            assert status == 200, begun
            if begun["decision"] == "execute" and time.monotonic() - asked < FRESH_S:
                break
            if begun["decision"] == "replay":
                return self.settle(who, value, token)
            if begun["decision"] == "unknown":
                self.resolve(who, value, begun["epoch"])
            time.sleep(0.05)
        else:
            return
        with self.lock:
            self.charges[value] += 1
        end = {"token": begun["lease"]["token"], "status": "succeeded", "body": value}
        if self.receipts:
            return self.settle(who, value, token, end)
        status, answer = self.ask(who, "POST", "/v2/effects/finish", end)
        assert status in (200, 409), (value, answer)
        self.settle(who, value, token)

    def settle(self, who, value, token, *ends):
        """Acks; with several topics, together with the end of an effect and a message into another topic."""
        path, parts = "/v2/leases/ack", {"leases": [{"token": token}]}
        if self.receipts:
            topic = self.receipts[zlib.crc32(value.encode()) % len(self.receipts)]
            receipt = {"topic": topic, "message": {"value": value}}
            path, parts = "/v2/commit", {"ack": [token], "effects": ends, "produce": [receipt]}
        status, answer = self.ask(who, "POST", path, parts)
        assert status in (200, 409), (value, answer)

    def resolve(self, who, value, epoch):
        """What a reconciler does: it looks whether the charge was made."""
        with self.lock:
            status = "succeeded" if self.charges[value] else "failed_retryable"
        said = {"scope": SCOPE, "key": value, "epoch": epoch, "status": status, "by": "chaos", "why": "it was looked up"}
        self.ask(who, "POST", "/v2/effects/resolve", said)

    def finish(self):
        """Waits until every message is settled; or until somebody has failed: then none will be."""
        least, since = math.inf, time.monotonic()
        while (owed := sum(self.lags().values())) and not self.failures:
            if owed < least:
                least, since = owed, time.monotonic()
            if time.monotonic() - since > PATIENCE_S:
                uncharged = sorted(value for value in self.stored if not self.charges[value])
                raise AssertionError(f"never settled: {self.lags()}; {len(uncharged)} not charged: {uncharged[:5]}")
            time.sleep(0.2)

    def lags(self):
        """How many messages of each topic are not settled."""
        groups = {topic: self.ask(0, "GET", f"/v2/topics/{topic}/groups/{GROUP}") for topic in self.topics}
        assert all(status == 200 for status, _ in groups.values()), groups
        return {topic: group["lag"] for topic, (_, group) in groups.items()}

    def serving(self):
        status, cluster = self.ask(0, "GET", "/v2/cluster")
        assert status == 200, cluster
        return {node.url: node for node in self.nodes}.get(cluster.get("serving"))

    def served(self):
        """Waits until somebody serves again."""
        status, answer = self.ask(0, "GET", f"/v2/topics/{self.topics[0]}")
        assert status == 200, answer

    def strike(self, only):
        """One blow: when it fell, and what it was."""
        if self.engine and (only or self.dice.random() < ENGINE_SHARE):
            return time.monotonic(), self.engine.strike(self.dice)
        serving = self.serving()
        node = serving if self.dice.random() < 0.8 else self.dice.choice(self.nodes)
        if node is None:
            return time.monotonic(), "nobody served"
        whose = "the serving server" if node is serving else "another server"
        return time.monotonic(), f"{self.hit(node, self.dice.choice(BLOWS))}: {whose}"

    def hit(self, node, kind):
        if kind == "kill":
            node.kill()
            time.sleep(self.dice.uniform(0, 3))
            if self.dice.random() < 0.5:
                node.rename()
            node.start()
        elif kind == "sleep":
            os.kill(node.process.pid, signal.SIGSTOP)
            time.sleep(SLEEP_S)
            os.kill(node.process.pid, signal.SIGCONT)
        elif kind == "cut":
            off, manner = self.dice.choice((("log",), ("others",), ("log", "others"))), self.dice.choice((FROZEN, TORN))
            node.cut(off, manner)
            time.sleep(self.dice.uniform(*CUT_S))
            node.mend(off)
            return f"cut off from {' and '.join(off)} ({manner})"
        else:
            status, answer = self.ask(0, "POST", "/v2/cluster/drain", {"node": node.url})
            time.sleep(2)
            self.ask(0, "POST", "/v2/cluster/resume", {"node": node.url})
            return kind if status == 200 else f"drain refused ({answer.get('detail')})"
        return kind

    def check(self):
        assert not self.failures, self.failures
        assert self.stored, "nothing was stored"
        missing = [value for value in self.stored if not self.charges[value]]
        twice = [value for value, count in self.charges.items() if count > 1]
        foreign = [value for value in self.charges if value not in self.stored]
        # What was stored and not told to its producer is no loss: the producer was stopped before it heard.
        assert len(foreign) <= self.producers, foreign
        assert not missing and not twice, f"lost: {missing[:5]}, twice: {twice[:5]}"

    def check_receipts(self):
        """Every charge has one receipt, also after one more death."""
        if not self.receipts:
            return
        if serving := self.serving():
            serving.kill()
        charged, arrived = set(self.charges), Counter()

        def all_arrived():
            arrived.clear()
            for topic in self.receipts:
                arrived.update(self.values(topic))
            return charged <= arrived.keys()

        try:
            until(all_arrived, "every receipt has arrived")
        except AssertionError:
            lost = sorted(charged - arrived.keys())
            raise AssertionError(f"{len(lost)} receipts are lost: {lost[:5]}") from None
        twice = [value for value, count in arrived.items() if count > 1]
        foreign = sorted(arrived.keys() - charged)
        assert not twice and not foreign, f"receipts twice: {twice[:5]}, of nothing: {foreign[:5]}"
        print(f"{len(arrived)} receipts, each once, in {len(self.receipts)} topics")

    def values(self, topic):
        cursor = ""
        while True:
            status, page = self.ask(0, "GET", f"/v2/topics/{topic}/messages?limit=1000{cursor}")
            assert status == 200, page
            yield from (message["value"] for message in page["messages"])
            if "cursor" not in page:
                return
            cursor = f"&cursor={page['cursor']}"

    def gaps(self):
        """The longest silences of all servers together: how long, from when on, and which blows fell in the meantime."""
        times = sorted(self.answers)
        longest = sorted(((after - before, before) for before, after in zip(times, times[1:])), reverse=True)[:GAPS_TOLD]
        fell = lambda length, begin: [f"{kind} (at {moment - begin:.1f})" for moment, kind in self.blows
                                      if begin - 1 < moment < begin + length]
        return [(length, fell(length, begin) + self.unled(length, begin)) for length, begin in longest]

    def unled(self, length, begin):
        """Which streams had no leader meanwhile."""
        told = []
        for stream, times in self.engine.leaders.answers.items() if self.engine and self.engine.leaders else ():
            near = [moment for moment in times if begin - 10 < moment < begin + length + 10]
            silence, since = max(((after - before, before) for before, after in zip(near, near[1:])), default=(0, 0))
            if silence > 1:
                told.append(f"no leader of {stream} for {silence:.1f} (from {since - begin:.1f})")
        return told

    def leaderless(self):
        """For how long, after each loss of a leader, one of the streams had none."""
        streams = [self.silences(times)[self.engine.loss] for times in self.engine.leaders.answers.values()]
        return [max(silences) for silences in zip(*streams)]

    def silences(self, answers):
        """The longest silence after every blow and before the next, by kind."""
        times, found = sorted(answers), defaultdict(list)
        ends = [moment for moment, _ in self.blows[1:]] + [math.inf]
        for (moment, kind), end in zip(self.blows, ends):
            longest, before = 0, moment
            for after in times[bisect.bisect(times, moment):]:
                longest = max(longest, min(after, end) - before)
                if after > end:
                    break
                before = after
            found[kind].append(longest)
        return found


def percentile(values, share):
    """The smallest that so many are not above."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--producers", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("postgres", "nats"), help="start it, and break it as well")
    parser.add_argument("--only", choices=("engine",), help="break nothing but the engine, each time when all is well")
    parser.add_argument("--shards", type=int, default=1, help="with several, commits reach across them")
    arguments = parser.parse_args()
    if not (DATABASE or arguments.engine):
        sys.exit("name a database in DRIFTQ_TEST_POSTGRES, or an --engine")
    if arguments.only and not arguments.engine:
        sys.exit("--only engine needs an --engine")
    engine = arguments.engine and Engine(arguments.engine)
    world = World(arguments.seed, f"chaos_{os.getpid()}", engine, arguments.shards)
    world.producers = arguments.producers
    try:
        run(world, arguments)
    finally:
        world.stop.set()
        world.over.set()
        for node in world.nodes:
            node.discard()
        world.wires.end()
        if engine:
            engine.end()
    tell(world)


def run(world, arguments):
    for topic in world.topics + world.receipts:
        status, answer = world.ask(0, "PUT", f"/v2/topics/{topic}", {"partitions": 4})
        assert status in (200, 201), answer
    start = lambda work, who: threading.Thread(target=world.guarded, args=(work, who))
    producers = [start(world.produce, who) for who in range(arguments.producers)]
    workers = [start(world.work, who) for who in range(arguments.workers)]
    for thread in producers + workers:
        thread.start()
    if world.engine:
        world.engine.watch()
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end and not world.stop.is_set():
        world.blows.append(world.strike(arguments.only))
        if arguments.only:
            world.served()
        world.stop.wait(world.dice.uniform(*PAUSE_S))
    world.stop.set()
    join(producers)
    world.finish()
    world.over.set()
    join(workers)
    world.check()
    world.check_receipts()


def join(threads):
    for thread in threads:
        thread.join(PATIENCE_S * 3)
        assert not thread.is_alive(), "a client never came to its end"


def tell(world):
    blows = dict(Counter(kind for _, kind in world.blows))
    print(f"{len(world.stored)} stored, {sum(world.charges.values())} charged once; {blows}")
    print("longest silences of all servers, s:")
    for length, fell in world.gaps():
        print(f"{length:>10.2f}  {'; '.join(fell) or 'no blow'}")
    print("silence after a blow, s:    n  median    p99  longest")
    kinds = sorted(world.silences(world.answers).items())
    if world.engine and world.engine.leaders:
        kinds.append(("without a leader, by NATS itself, after its loss", world.leaderless()))
    for kind, silences in kinds:
        if not silences:
            continue
        figures = statistics.median(silences), percentile(silences, 0.99), max(silences)
        print(f"{len(silences):>29}  {figures[0]:6.2f} {figures[1]:6.2f}  {figures[2]:7.2f}  {kind}")


if __name__ == "__main__":
    main()
