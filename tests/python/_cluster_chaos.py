"""Three servers on one log under producers and workers with effects, killed, put to sleep and drained at random; an
outside checker judges.

    DRIFTQ_BIN=target/release/driftq DRIFTQ_TEST_POSTGRES=postgres://… python3 tests/python/_cluster_chaos.py --seconds 300

With `--engine postgres` or `--engine nats`, what holds the log is broken as well, by `driftq-testbed` beside the binary:
PostgreSQL crashes, and fails over to its synchronous standby once; of three NATS servers the leader of the stream is
killed.

Every client repeats what was not answered, under the same name, at another server: what is acknowledged must be there,
and nothing may be done twice.
"""

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

from _broker import Server, until

BINARY, DATABASE = os.environ.get("DRIFTQ_BIN", ""), os.environ.get("DRIFTQ_TEST_POSTGRES", "")
NODES, TOPIC, GROUP, SCOPE = 3, "orders", "billing", "charge"
# Longer than a take-over, so that most leases outlive one; an answer that was lost is made good after this.
LEASE_MS = 10_000
# A worker that has waited for longer than this asks again before it charges: its lease may be somebody else's by now.
FRESH_S = 3
# How long nobody answers a call before something is broken.
PATIENCE_S = 60
# A server that sleeps for longer than its seat lasts is replaced.
SLEEP_S = 4
PAUSE_S = (2.0, 5.0)
# How many blows hit what holds the log.
ENGINE_SHARE = 0.25


class Engine:
    """What holds the log, and breaks on demand."""

    def __init__(self, kind):
        command = [os.path.join(os.path.dirname(BINARY), "driftq-testbed"), "break", kind]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url, self.can_fail_over = self.process.stdout.readline().strip(), kind == "postgres"
        assert self.url, "what holds the log did not start"

    def order(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "done", what

    def strike(self, dice):
        if self.can_fail_over and dice.random() < 0.3:
            self.can_fail_over = False
            self.order("fail-over")
            return "fail-over"
        self.order("down")
        time.sleep(dice.uniform(0, 3))
        self.order("up")
        return "crash of the engine"

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


class World:
    """The servers, what was asked of them, and what was done outside."""

    def __init__(self, seed, schema, engine):
        self.dice, self.stop, self.engine = random.Random(seed), threading.Event(), engine
        flags = ("--log", engine.url) if engine else ("--log", DATABASE, "--log-schema", schema)
        flags += ("--node-url", "http://127.0.0.1:0")
        self.nodes = [Server(*flags) for _ in range(NODES)]
        self.lock, self.failures = threading.Lock(), []
        self.stored, self.charges, self.answers = set(), Counter(), []

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
            with self.lock:
                self.answers.append(time.monotonic())
            return status, json.loads(raw or b"null")
        raise AssertionError(f"{method} {path}: no answer for {PATIENCE_S} s")

    def guarded(self, work, who):
        try:
            work(who)
        except Exception as error:  # Told at the end, with the others.
            self.failures.append(f"{work.__name__} {who}: {error!r}")
            self.stop.set()

    def produce(self, who):
        number = 0
        while not self.stop.is_set():
            value, number = f"{who}-{number}", number + 1
            message = {"value": value, "envelope": {"idempotency_key": value}}
            status, answer = self.ask(who, "POST", f"/v2/topics/{TOPIC}/messages", message)
            assert status in (200, 201), answer
            with self.lock:
                self.stored.add(value)

    def work(self, who):
        number, owner = 0, f"worker-{who}"
        while not (self.stop.is_set() and self.is_done()):
            number += 1
            asked = {"owner": owner, "max": 10, "lease_ms": LEASE_MS, "wait_ms": 200, "request_id": f"{who}-{number}"}
            status, answer = self.ask(who, "POST", f"/v2/topics/{TOPIC}/groups/{GROUP}/lease", asked)
            assert status == 200, answer
            for item in answer["messages"]:
                self.charge(who, owner, item)

    def charge(self, who, owner, item):
        value, token, lent = item["value"], item["lease"]["token"], time.monotonic()
        begin = {"scope": SCOPE, "key": value, "lease_token": token, "owner": owner, "reacquire": True,
                 "lease_ms": LEASE_MS, "on_lapse": "hold"}
        while True:
            asked = time.monotonic()
            status, begun = self.ask(who, "POST", "/v2/effects/begin", begin)
            if status == 409 or time.monotonic() - lent > LEASE_MS / 2000:
                return  # Another worker has the message by now, or will have it.
            assert status == 200, begun
            if begun["decision"] == "execute" and time.monotonic() - asked < FRESH_S:
                break
            if begun["decision"] == "replay":
                return self.settle(who, token)
            if begun["decision"] == "unknown":
                self.resolve(who, value, begun["epoch"])
            time.sleep(0.05)
        with self.lock:
            self.charges[value] += 1
        end = {"token": begun["lease"]["token"], "status": "succeeded", "body": value}
        status, answer = self.ask(who, "POST", "/v2/effects/finish", end)
        assert status in (200, 409), (value, answer)
        self.settle(who, token)

    def settle(self, who, token):
        status, answer = self.ask(who, "POST", "/v2/leases/ack", {"leases": [{"token": token}]})
        assert status in (200, 409), answer

    def resolve(self, who, value, epoch):
        """What a reconciler does: it looks whether the charge was made."""
        with self.lock:
            status = "succeeded" if self.charges[value] else "failed_retryable"
        said = {"scope": SCOPE, "key": value, "epoch": epoch, "status": status, "by": "chaos", "why": "it was looked up"}
        self.ask(who, "POST", "/v2/effects/resolve", said)

    def is_done(self):
        with self.lock:
            return all(self.charges[value] for value in self.stored)

    def serving(self):
        status, cluster = self.ask(0, "GET", "/v2/cluster")
        assert status == 200, cluster
        urls = {f"http://{node.host}:{node.port}": node for node in self.nodes}
        return urls.get(cluster.get("serving"))

    def strike(self):
        """One blow; what it was."""
        if self.engine and self.dice.random() < ENGINE_SHARE:
            return self.engine.strike(self.dice)
        node = self.serving() if self.dice.random() < 0.8 else self.dice.choice(self.nodes)
        kind = self.dice.choice(("kill", "kill", "sleep", "drain"))
        if node is None:
            return "nobody served"
        if kind == "kill":
            node.kill()
            time.sleep(self.dice.uniform(0, 3))
            # On another port, and so as another server of the cluster.
            node.start()
        elif kind == "sleep":
            os.kill(node.process.pid, signal.SIGSTOP)
            time.sleep(SLEEP_S)
            os.kill(node.process.pid, signal.SIGCONT)
        else:
            url = {"node": f"http://{node.host}:{node.port}"}
            status, answer = self.ask(0, "POST", "/v2/cluster/drain", url)
            time.sleep(2)
            self.ask(0, "POST", "/v2/cluster/resume", url)
            return kind if status == 200 else f"drain refused: {answer.get('detail')}"
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

    def gaps(self):
        """The longest silences of all servers together."""
        times = sorted(self.answers)
        return sorted((after - before for before, after in zip(times, times[1:])), reverse=True)[:20]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--producers", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("postgres", "nats"), help="start it, and break it as well")
    arguments = parser.parse_args()
    if not (DATABASE or arguments.engine):
        sys.exit("name a database in DRIFTQ_TEST_POSTGRES, or an --engine")
    engine = arguments.engine and Engine(arguments.engine)
    world = World(arguments.seed, f"chaos_{os.getpid()}", engine)
    world.producers = arguments.producers
    status, answer = world.ask(0, "PUT", f"/v2/topics/{TOPIC}", {"partitions": 4})
    assert status in (200, 201), answer
    threads = [threading.Thread(target=world.guarded, args=(world.produce, who)) for who in range(arguments.producers)]
    threads += [threading.Thread(target=world.guarded, args=(world.work, who)) for who in range(arguments.workers)]
    for thread in threads:
        thread.start()
    blows, end = Counter(), time.monotonic() + arguments.seconds
    try:
        while time.monotonic() < end and not world.stop.is_set():
            blows[world.strike()] += 1
            world.stop.wait(world.dice.uniform(*PAUSE_S))
        world.stop.set()
        for thread in threads:
            thread.join(PATIENCE_S * 3)
            assert not thread.is_alive(), "a client never came to its end"
        until(world.is_done, "everything is charged")
        world.check()
    finally:
        world.stop.set()
        for node in world.nodes:
            node.discard()
        if engine:
            engine.end()
    gaps = world.gaps()
    print(f"{len(world.stored)} stored, {sum(world.charges.values())} charged once; {dict(blows)}")
    print("longest silences of all servers, s:", " ".join(f"{gap:.2f}" for gap in gaps[:8]))


if __name__ == "__main__":
    main()
