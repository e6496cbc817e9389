"""Figures of the edge under load: how long small requests take, and how much memory the server takes. Not a test; run it
with DRIFTQ_BIN set. Each load meets a server of its own."""

import sys
import time

import _broker
from _edge import (
    MIB,
    Canary,
    Load,
    fill,
    memory,
    metric,
    quantile,
    raise_descriptors,
    streams,
    unfinished_bodies,
    unread_leases,
)

SECONDS = 10


def bodies(server, client):
    load = Load()
    sent = unfinished_bodies(load, server, 300, 4 * MIB, 0.2)
    return load, f"{sum(sent) // MIB} MiB were taken"


def leases(server, client):
    fill(client, "large", 3, 3_900_000)
    load = Load()
    unread_leases(load, server, "large", 200, 100)
    return load, ""


def many_streams(server, client):
    fill(client, "backlog", 20_000, 200)
    load = Load()
    streams(load, server, "backlog", 1_000, 10_000)
    return load, ""


def idle(server, client):
    load = Load()
    for _ in range(8_192 - 4):
        load.open(server)
    return load, ""


LOADS = {"bodies": bodies, "leases": leases, "streams": many_streams, "idle": idle}


def figures(name, build):
    server = _broker.Server()
    client = _broker.Client(server)
    load = None
    try:
        client.call("PUT", "/v2/topics/backlog", {"partitions": 1})
        canary = Canary(server, client)
        alone = canary.run(seconds=SECONDS / 2)
        canary.run(rounds=1)
        begun = time.monotonic()
        load, note = build(server, client)
        built = time.monotonic() - begun
        under = canary.run(seconds=SECONDS)
        gauge = "?"
        try:
            gauge = int(metric(client, "driftq_edge_bytes")) // MIB
        except AssertionError:
            pass
        print(f"{name}: built in {built:.1f} s {note}")
        for what, a, u in zip(("produce", "lease+ack"), alone, under):
            print(
                f"  {what:10} alone p50 {quantile(a, .5):6.2f} p99 {quantile(a, .99):6.2f} ms; "
                f"under load p50 {quantile(u, .5):7.2f} p99 {quantile(u, .99):7.2f} max {u[-1] * 1e3:7.1f} ms "
                f"({len(u)} rounds): p99 x {quantile(u, .99) / quantile(a, .99):.1f}"
            )
        print(f"  peak {memory(server) // MIB} MiB, now {memory(server, 'VmRSS') // MIB} MiB, edge {gauge} MiB", flush=True)
    finally:
        if load is not None:
            load.__exit__()
        client.close()
        server.discard()


def main():
    if not _broker.BINARY:
        sys.exit("set DRIFTQ_BIN to the binary under test")
    raise_descriptors(20_000)
    for name in sys.argv[1:] or LOADS:
        figures(name, LOADS[name])


if __name__ == "__main__":
    main()
