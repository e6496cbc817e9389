"""`kill -9` on a server of several shards while messages hop from topic to topic by commits; an outside checker counts.

Every hop is one commit without a name or a key: ack here, store there. The topics are in all shards, so that most hops are
parcels. A worker that hears nothing says nothing: if the commit was done the message is further on, if not its lease
lapses. In the end every message must have arrived once.

Before the first kill, backups are taken of the shards at work. In each of them, restored, every message that was
acknowledged when the backup began must arrive once, too.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/shards_kill9.py --cycles 100 --backups 10
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

from _broker import BINARY, Client, Server

SHARDS = 4
HOPS = [f"hop-{number}" for number in range(9)]
WORKERS = 6
PRODUCERS = 2
# A life is at most this long, counted from the first answer.
LIFE_MS = 250
LEASE_MS = 400
BACKUP_EVERY_S = 0.5
# Producers wait while so many hops are owed: what is left at the end has to be worked off.
OWED_MAX = 4000
PATIENCE_S = 120
# Small files and many snapshots, so that kills meet rolls, snapshots and trims too.
FLAGS = ("--shards", str(SHARDS), "--segment-bytes", "1MiB", "--snapshot-every-bytes", "200KiB")


class World:
    def __init__(self, seed, server):
        self.seed, self.server = seed, server
        self.alive, self.calm, self.over = threading.Event(), threading.Event(), threading.Event()
        self.lock, self.sent, self.stored, self.hops = threading.Lock(), set(), set(), 0
        self.refused = []

    def call(self, client, target, body):
        """The answer, or nothing if the broker died before it gave one."""
        while not self.alive.wait(0.2):
            if self.over.is_set():
                return None
        try:
            return client.call("POST", f"/v2/{target}", body)
        except AssertionError:
            return None

    def produce(self, number):
        """Stores messages, each under a name that is used once; what was not answered may have been stored."""
        client, count = Client(self.server), 0
        while not self.calm.is_set():
            if len(self.stored) * (len(HOPS) - 1) - self.hops > OWED_MAX:
                time.sleep(0.01)
                continue
            count += 1
            name = f"p{number}-{count}"
            with self.lock:
                self.sent.add(name)
            answer = self.call(client, f"topics/{HOPS[0]}/messages", {"value": name})
            if answer is not None and answer.status in (200, 201):
                with self.lock:
                    self.stored.add(name)
        client.close()

    def work(self, number):
        """Takes what is there and passes it on; the last topic keeps what has come so far."""
        client, choice = Client(self.server), random.Random(f"{self.seed} worker {number}")
        while not self.over.is_set():
            place = choice.randrange(len(HOPS) - 1)
            request = {"owner": f"w{number}", "max": 20, "lease_ms": LEASE_MS}
            leased = self.call(client, f"topics/{HOPS[place]}/groups/g/lease", request)
            if leased is None or leased.status != 200:
                continue
            for item in leased.json["messages"]:
                token = item["lease"]["token"]
                follow_up = {"topic": HOPS[place + 1], "message": {"value": item["value"]}}
                done = self.call(client, "commit", {"ack": [token], "produce": [follow_up]})
                if done is not None and done.status == 200:
                    with self.lock:
                        self.hops += 1
                elif done is not None and done.status not in (409, 503):
                    self.refused.append(str(done))
        client.close()


def prepare(world):
    client = Client(world.server)
    policy = {"retry_policy": {"backoff_ms": 0, "jitter": "none"}}
    for topic in HOPS:
        assert client.call("PUT", f"/v2/topics/{topic}", policy).status == 201
    assert client.call("GET", "/v2/status").json["shards"] == SHARDS
    client.close()
    world.alive.set()


def kill(world, cycles):
    choices = random.Random(f"{world.seed} lives")
    for cycle in range(1, cycles + 1):
        time.sleep(choices.uniform(0, LIFE_MS) / 1000)
        world.alive.clear()
        world.server.restart()
        world.alive.set()
        if cycle % 10 == 0:
            print(f"kill {cycle}/{cycles}: {len(world.stored)} stored, {world.hops} hops", flush=True)


def run(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        sys.exit(f"driftq {' '.join(arguments)}: {done.stderr}")


def back_up(world, place, count):
    """Takes backups while messages hop; with what was acknowledged when each began."""
    taken = []
    for number in range(count):
        time.sleep(BACKUP_EVERY_S)
        with world.lock:
            taken.append((f"b{number}", set(world.stored)))
        run("backup", place, "--id", taken[-1][0], "--data", world.server.data)
    return taken


def check_backup(place, name, stored):
    """Whatever was on its way in a backup arrives, and arrives once. The number of messages in it."""
    restore = lambda data: run("restore", place, "--id", name, "--data", data)
    world = World(0, Server(*FLAGS, prepare=restore))
    world.alive.set()
    workers = [threading.Thread(target=world.work, args=(number,), daemon=True) for number in range(WORKERS)]
    for thread in workers:
        thread.start()
    client = Client(world.server)
    settle(world, client)
    world.over.set()
    for thread in workers:
        thread.join(PATIENCE_S)
    counts = arrived(client)
    world.server.discard()
    doubled = sorted(message for message, count in counts.items() if count > 1)
    lost = sorted(stored - counts.keys())
    if doubled or lost:
        sys.exit(f"backup {name}: twice: {doubled[:20]}; lost: {lost[:20]}")
    return len(counts)


def settle(world, client):
    deadline = time.monotonic() + PATIENCE_S
    while left := owed(client):
        if time.monotonic() > deadline:
            sys.exit(f"{left} messages never arrived; {world.server.complaints()[-2000:]}")
        time.sleep(0.05)


def owed(client):
    """How much is not in the last topic yet."""
    lags = [client.call("GET", f"/v2/topics/{topic}/groups/g") for topic in HOPS[:-1]]
    return sum(lag.json["lag"] for lag in lags if lag.status == 200)


def arrived(client):
    values, cursor = [], ""
    while True:
        page = client.call("GET", f"/v2/topics/{HOPS[-1]}/messages?limit=1000{cursor}").json
        values += [message["value"] for message in page["messages"]]
        if "cursor" not in page:
            return Counter(values)
        cursor = f"&cursor={page['cursor']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--backups", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    if not BINARY:
        sys.exit("DRIFTQ_BIN names the binary")
    print(f"seed {arguments.seed}")
    world = World(arguments.seed, Server(*FLAGS))
    prepare(world)
    workers = [threading.Thread(target=world.work, args=(number,), daemon=True) for number in range(WORKERS)]
    producers = [threading.Thread(target=world.produce, args=(number,), daemon=True) for number in range(PRODUCERS)]
    for thread in workers + producers:
        thread.start()
    place = tempfile.TemporaryDirectory(prefix="driftq-python-")
    backups = back_up(world, place.name, arguments.backups)
    kill(world, arguments.cycles)
    world.calm.set()
    settle(world, Client(world.server))
    world.over.set()
    for thread in workers + producers:
        thread.join(PATIENCE_S)
    # What was acked is followed by what it sent, also over one more death.
    world.server.restart()
    counts = arrived(Client(world.server))
    doubled = sorted(name for name, count in counts.items() if count > 1)
    lost = sorted(world.stored - counts.keys())
    foreign = sorted(counts.keys() - world.sent)
    world.server.discard()
    if world.refused:
        sys.exit(f"hops were refused: {world.refused[:3]}")
    if doubled or lost or foreign:
        sys.exit(f"twice: {doubled[:20]}; lost: {lost[:20]}; never sent: {foreign[:20]}")
    if not world.stored or world.hops < len(HOPS):
        sys.exit("nothing was tested")
    for name, stored in backups:
        print(f"backup {name}: {check_backup(place.name, name, stored)} messages, each once", flush=True)
    place.cleanup()
    print(f"{arguments.cycles} kills, {len(counts)} messages through {len(HOPS)} topics in {SHARDS} shards: each once")


if __name__ == "__main__":
    main()
