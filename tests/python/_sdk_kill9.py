"""Kills a worker program of an SDK again and again, and then asks the books: was every order charged exactly once?

    DRIFTQ_BIN=… python3 tests/python/_sdk_kill9.py --name python --kills 100 -- python3 crash_worker.py

The worker program is told by its environment: DRIFTQ_SERVER, BOOKS (a file), TOPIC, GROUP, LEASE_MS. For every message
{"key": K} of TOPIC it runs the effect `charge` with the key K under `hold`: it appends the line "K PID" to BOOKS with
one write. Asked whether that happened, it looks for the line. Then it sends {"key": K} to `receipts` with the ack. It
runs four handlers at once, and drains on SIGTERM.

A helper without tests of its own: the checks of each SDK call it with their program.
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import _broker

TOPIC, GROUP, RECEIPTS = "charges", "billing", "receipts"
LEASE_MS = 3_000
MESSAGES_PER_KILL = 4
FIRST_SIGN_S = 20.0
DRAIN_S = 180.0
STOP_S = 60.0
PAGE = 500


class Books:
    """What the effects leave behind."""

    def __init__(self, path):
        self.path = path
        open(path, "w").close()

    def size(self):
        return os.path.getsize(self.path)

    def lines(self):
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        assert not text or text.endswith("\n"), "the last line of the books is torn"
        return [line.split() for line in text.splitlines()]


class Producer(threading.Thread):
    """Sends keyed messages all along: so many per kill, and never so few that the worker runs dry."""

    def __init__(self, server, wanted, keep_ahead, books):
        super().__init__(name="producer")
        self.client = _broker.Client(server)
        self.wanted, self.keep_ahead, self.books = wanted, keep_ahead, books
        self.keys = []
        self.enough = threading.Event()
        self.error = None

    def run(self):
        try:
            while not (self.enough.is_set() and len(self.keys) >= self.wanted):
                ahead = len(self.keys) - len(self.books.lines())
                if ahead >= self.keep_ahead and not self.enough.is_set():
                    self.enough.wait(0.02)
                    continue
                self.send(MESSAGES_PER_KILL)
        except BaseException as error:
            self.error = error
        self.client.close()

    def send(self, count):
        keys = [f"order-{len(self.keys) + index}" for index in range(count)]
        batch = [
            {"key": key, "value": json.dumps({"key": key}), "envelope": {"idempotency_key": f"produce-{key}"}}
            for key in keys
        ]
        answer = self.client.call("POST", f"/v2/topics/{TOPIC}/messages", batch)
        assert answer.status == 200 and not any("error" in result for result in answer.json), str(answer)
        self.keys += keys


class Worker:
    """One process of the program under test."""

    def __init__(self, command, server, books, log):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        environment |= {
            "DRIFTQ_SERVER": f"http://{server.host}:{server.port}",
            "BOOKS": books.path,
            "TOPIC": TOPIC,
            "GROUP": GROUP,
            "LEASE_MS": str(LEASE_MS),
        }
        self.log = log
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )

    def kill(self):
        """The whole process group: a program that was started by a wrapper dies with it."""
        self.check()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_S)

    def check(self):
        code = self.process.poll()
        if code is not None:
            raise AssertionError(f"the worker ended by itself with {code}: {self.said()}")

    def terminate(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(STOP_S)

    def discard(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_S)

    def said(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]


def kill_again_and_again(options, chance, server, books, log):
    """Starts a worker, kills it at a random moment, and starts the next one at once."""
    while_running = 0
    for _ in range(options.kills):
        worker = Worker(options.command, server, books, log)
        try:
            if chance.random() < 0.8:
                before = books.size()
                _broker.until(
                    lambda: worker.check() or books.size() > before, "a first line in the books", FIRST_SIGN_S
                )
                while_running += 1
            # The moment of the kill is what this is about, so here time is what is waited for.
            time.sleep(chance.uniform(0.02, 0.4))
            worker.kill()
        finally:
            worker.discard()
    return while_running


def drain(options, server, client, books, log, producer):
    """Lets the last worker do the rest, and ends it in peace."""
    worker = Worker(options.command, server, books, log)
    try:
        producer.enough.set()
        producer.join(STOP_S)
        assert not producer.is_alive() and producer.error is None, f"the producer failed: {producer.error!r}"
        path = f"/v2/topics/{TOPIC}/groups/{GROUP}"

        def done():
            worker.check()
            return client.call("GET", path).json.get("lag") == 0

        _broker.until(done, f"lag 0: {client.call('GET', path)}", DRAIN_S)
        code = worker.terminate()
        assert code == 0, f"the worker ended with {code} on SIGTERM: {worker.said()}"
    finally:
        worker.discard()


def listed(client, path, member):
    """Everything that a list has, page by page."""
    found, cursor = [], None
    while True:
        mark = "&" if "?" in path else "?"
        answer = client.call("GET", path + f"{mark}limit={PAGE}" + (f"&cursor={cursor}" if cursor else ""))
        assert answer.status == 200, str(answer)
        found += answer.json[member]
        cursor = answer.json.get("cursor")
        if cursor is None:
            return found


def dead_letters(client):
    answer = client.call("GET", f"/v2/dlq/{TOPIC}")
    if answer.status == 404:
        return []
    assert answer.status == 200, str(answer)
    return answer.json["letters"]


def faults(client, keys, lines, effects):
    """What is wrong, seen from outside."""
    wrong = []
    charged = collections.Counter(line[0] for line in lines)
    twice = sorted(key for key, count in charged.items() if count > 1)
    missing = sorted(set(keys) - charged.keys())
    if twice:
        wrong.append(f"charged more than once: {len(twice)}, such as {twice[:5]}")
    if missing:
        wrong.append(f"never charged: {len(missing)}, such as {missing[:5]}")
    if charged.keys() - set(keys):
        wrong.append(f"charged without an order: {sorted(charged.keys() - set(keys))[:5]}")
    open_effects = [(effect["key"], effect["state"]) for effect in effects if effect["state"] != "succeeded"]
    if open_effects:
        wrong.append(f"effects that did not succeed: {open_effects[:5]}")
    if sorted(effect["key"] for effect in effects) != sorted(keys):
        wrong.append(f"effects in the ledger: {len(effects)} for {len(keys)} orders")
    receipts = collections.Counter(
        json.loads(item["value"])["key"] for item in listed(client, f"/v2/topics/{RECEIPTS}/messages", "messages")
    )
    if receipts != collections.Counter(keys):
        extra = sorted((receipts - collections.Counter(keys)).elements())
        lost = sorted((collections.Counter(keys) - receipts).elements())
        wrong.append(f"receipts: {len(extra)} too many {extra[:5]}, {len(lost)} missing {lost[:5]}")
    group = client.call("GET", f"/v2/topics/{TOPIC}/groups/{GROUP}").json
    if group["lag"] or group["in_flight"]:
        wrong.append(f"the group is not done: lag {group['lag']}, in flight {group['in_flight']}")
    if letters := dead_letters(client):
        wrong.append(f"dead letters: {len(letters)}, such as {letters[0]}")
    return wrong


def run(options):
    chance = random.Random(options.seed)
    server = _broker.Server()
    client = _broker.Client(server)
    folder = tempfile.TemporaryDirectory(prefix="driftq-sdk-")
    log = open(os.path.join(folder.name, "worker"), "a", encoding="utf-8")
    producer = None
    began = time.monotonic()
    try:
        # Every kill may cost each message an attempt: by default they would soon wait for minutes, and then be dead.
        settings = {"retry_policy": {"max_attempts": 1_000_000, "backoff_ms": 20, "max_backoff_ms": 200}}
        for topic in (TOPIC, RECEIPTS):
            assert client.call("PUT", f"/v2/topics/{topic}", settings).status == 201
        client.close()  # The server would close it while workers are killed; the next call opens it again.
        books = Books(os.path.join(folder.name, "books"))
        wanted = max(options.messages, MESSAGES_PER_KILL * options.kills)
        producer = Producer(server, wanted, 64, books)
        producer.start()
        while_running = kill_again_and_again(options, chance, server, books, log)
        drain(options, server, client, books, log, producer)
        effects = listed(client, "/v2/effects?scope=charge", "effects")
        lines = books.lines()
        wrong = faults(client, producer.keys, lines, effects)
        resolved = sum(1 for effect in effects if (effect.get("outcome") or {}).get("resolved_by"))
        print(
            f"{options.name}: {options.kills} kills ({while_running} while it was at work), seed {options.seed}, "
            f"{len(producer.keys)} messages, {len(lines)} charges, {len(effects)} effects, "
            f"{sum(effect['attempt'] for effect in effects)} attempts, {resolved} reconciled as done, "
            f"{sum(1 for effect in effects if effect['attempt'] > 1)} run again because they were not, "
            f"{time.monotonic() - began:.1f} s"
        )
        return wrong
    finally:
        if producer is not None:
            producer.enough.set()
            producer.wanted = 0
            producer.join(STOP_S)
        client.close()
        server.discard()
        log.close()
        folder.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="worker", help="of the SDK, for the report")
    parser.add_argument("--kills", type=int, default=int(os.environ.get("SDK_KILL_CYCLES", "100")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SDK_KILL_SEED", "0")) or random.getrandbits(32))
    parser.add_argument("--messages", type=int, default=0, help="at least so many; never fewer than four per kill")
    parser.add_argument(
        "--expect-duplicates", action="store_true", help="for a worker without effects: fails if all goes well"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the worker program, after --")
    options = parser.parse_args()
    options.command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not _broker.BINARY:
        sys.exit("set DRIFTQ_BIN to the binary under test")
    if not options.command:
        sys.exit("give the worker program after --")
    wrong = run(options)
    if options.expect_duplicates:
        found = any(fault.startswith("charged more than once") for fault in wrong)
        print("as it must be without effects: " + wrong[0] if found else f"no duplicates were seen: {wrong}")
        sys.exit(0 if found else 1)
    for fault in wrong:
        print(f"WRONG: {fault}")
    print("verdict: " + ("FAILED" if wrong else "every order was charged exactly once, and nothing was lost"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
