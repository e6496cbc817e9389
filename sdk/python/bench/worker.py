"""How much a worker costs over a bare loop of httpx2: the same server, the same requests.

    DRIFTQ_BIN=… python bench/worker.py

Two loads, each with threads and with tasks: messages that are only leased and acked in batches, and messages with an
effect (begin and finish) each. Rounds alternate, so that a slow moment of the machine hits both. The ratio is the
median of the rounds; 1.0 means that the worker is as fast as the loop. The loop borrows 100 messages, works, and acks
100; the worker has room for twice as many, and borrows 100 while it works on 100.

A third load compares the worker with itself: messages with one effect and one follow-up each (guarded) against messages
that are only acked (plain), both with 200 handlers at once. `--guarded-at-least` is the least ratio of the two.

The SDK's calls go by transports of its own, which take less processor time than those of httpx2: that is why ratios can
be above 1.0 where nothing runs at once. Eight handlers are compared with the same loop, which does one thing at a time:
for threads that is the harder comparison, because a loop with eight threads of Python is slower than one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx2

import driftq
from driftq.testing import Server

BATCH = 100
GUARDED_CONCURRENCY = 200
HEADERS = {"content-type": "application/json"}


class Load:
    """One topic full of messages, for one run."""

    def __init__(self, server: Server, messages: int, *, effects: bool, follow_ups: bool = False) -> None:
        self.url = server.url
        self.topic = f"bench-{secrets.token_hex(4)}"
        self.messages = messages
        self.effects = effects
        # Where follow-ups go; nowhere if there are none.
        self.receipts = f"{self.topic}-receipts" if follow_ups else ""
        self.client = server.client()
        self.client.create_topic(self.topic)
        if self.receipts:
            self.client.create_topic(self.receipts)
        for start in range(0, messages, BATCH):
            self.client.send_many(self.topic, [{"n": n} for n in range(start, min(start + BATCH, messages))])

    def lease(self) -> tuple[str, dict[str, Any]]:
        body = {"owner": "bare", "max": BATCH, "lease_ms": 30_000, "wait_ms": 20_000, "request_id": secrets.token_hex(16)}
        return f"{self.url}/v2/topics/{self.topic}/groups/bench/lease", body

    def ack(self, items: list[Any]) -> tuple[str, dict[str, Any]]:
        return f"{self.url}/v2/leases/ack", {"leases": [{"token": item["lease"]["token"]} for item in items]}

    def begin(self, item: Any) -> tuple[str, dict[str, Any]]:
        body = {
            "scope": self.topic,
            "key": str(item["offset"]),
            "on_lapse": "hold",
            "lease_ms": 60_000,
            "reacquire": True,
            "wait_ms": 5_000,
            "request_id": secrets.token_hex(16),
            "lease_token": item["lease"]["token"],
            "owner": "bare",
        }
        return f"{self.url}/v2/effects/begin", body

    def finish(self, token: str) -> tuple[str, dict[str, Any]]:
        headers = {"content-type": "application/json"}
        body = {"token": token, "status": "succeeded", "code": 200, "body": "1", "headers": headers}
        return f"{self.url}/v2/effects/finish", body

    def check(self) -> None:
        assert self.client.group(self.topic, "bench")["lag"] == 0, "not everything was acked"
        if self.effects:
            assert sum(1 for _ in self.client.effects(scope=self.topic, state="succeeded")) == self.messages
        if self.receipts:
            assert sum(1 for _ in self.client.messages(self.receipts)) == self.messages
            self.client.delete_topic(self.receipts)
        self.client.delete_topic(self.topic)
        self.client.close()


def ahead(concurrency: int) -> int:
    """As many again if many run at once, else what makes two batches together."""
    return max(concurrency, 2 * BATCH - concurrency)


def encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def bare_threads(load: Load) -> None:
    with httpx2.Client(trust_env=False, timeout=60) as http:

        def post(target: tuple[str, dict[str, Any]]) -> Any:
            answer = http.post(target[0], content=encoded(target[1]), headers=HEADERS)
            answer.raise_for_status()
            return json.loads(answer.content)

        done = 0
        while done < load.messages:
            items = post(load.lease())["messages"]
            for item in items:
                json.loads(item["value"])
                if load.effects:
                    post(load.finish(post(load.begin(item))["lease"]["token"]))
            post(load.ack(items))
            done += len(items)


def bare_tasks(load: Load) -> None:
    async def main() -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:

            async def post(target: tuple[str, dict[str, Any]]) -> Any:
                answer = await http.post(target[0], content=encoded(target[1]), headers=HEADERS)
                answer.raise_for_status()
                return json.loads(answer.content)

            done = 0
            while done < load.messages:
                items = (await post(load.lease()))["messages"]
                for item in items:
                    json.loads(item["value"])
                    if load.effects:
                        begun = await post(load.begin(item))
                        await post(load.finish(begun["lease"]["token"]))
                await post(load.ack(items))
                done += len(items)

    asyncio.run(main())


def worker_threads(load: Load, concurrency: int) -> None:
    with driftq.Client(load.url) as client:
        worker = driftq.Worker(client, "bench", concurrency=concurrency, prefetch=ahead(concurrency))
        done = 0

        @worker.handler(load.topic)
        def handle(_: Any, ctx: driftq.Context) -> None:
            nonlocal done
            if load.effects:
                ctx.effect(load.topic, lambda: 1, key=str(ctx.offset))
            if load.receipts:
                ctx.send(load.receipts, {"n": ctx.offset})
            done += 1
            if done == load.messages:
                worker.stop()

        worker.run(signals=False)


def worker_tasks(load: Load, concurrency: int) -> None:
    async def main() -> None:
        async with driftq.AsyncClient(load.url) as client:
            worker = driftq.AsyncWorker(client, "bench", concurrency=concurrency, prefetch=ahead(concurrency))
            done = 0

            @worker.handler(load.topic)
            async def handle(_: Any, ctx: driftq.AsyncContext) -> None:
                nonlocal done
                if load.effects:
                    await ctx.effect(load.topic, lambda: 1, key=str(ctx.offset))
                if load.receipts:
                    ctx.send(load.receipts, {"n": ctx.offset})
                done += 1
                if done == load.messages:
                    worker.stop()

            await worker.run(signals=False)

    asyncio.run(main())


def timed(
    run: Callable[[Load], None], server: Server, messages: int, *, effects: bool, follow_ups: bool = False
) -> float:
    """Messages per second."""
    load = Load(server, messages, effects=effects, follow_ups=follow_ups)
    began = time.perf_counter()
    run(load)
    took = time.perf_counter() - began
    load.check()
    return messages / took


def guarded(server: Server, messages: int, rounds: int) -> float:
    """The worst ratio of guarded to plain."""
    worst = float("inf")
    print(f"{'load':<20}{'plain/s':>10}{'guarded/s':>10}{'ratio':>8}   rounds: {rounds}")
    for name, worker in (("guarded, tasks", worker_tasks), ("guarded, threads", worker_threads)):
        rates: list[tuple[float, float]] = []
        for number in range(rounds):
            order = (False, True) if number % 2 else (True, False)
            rate = {
                is_guarded: timed(
                    lambda load, run=worker: run(load, GUARDED_CONCURRENCY),  # type: ignore[misc]
                    server,
                    messages,
                    effects=is_guarded,
                    follow_ups=is_guarded,
                )
                for is_guarded in order
            }
            rates.append((rate[False], rate[True]))
        ratio = statistics.median(with_effect / plain for plain, with_effect in rates)
        worst = min(worst, ratio)
        plain, with_effect = (statistics.median(column) for column in zip(*rates, strict=True))
        print(f"{name:<20}{plain:>10.0f}{with_effect:>10.0f}{ratio:>8.2f}")
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--effects", type=int, default=2000, help="messages of the load with effects")
    parser.add_argument("--at-least", type=float, default=0.0, help="fails below this ratio")
    parser.add_argument("--guarded", type=int, default=20_000, help="messages of the load with effects and follow-ups")
    parser.add_argument("--guarded-at-least", type=float, default=0.0, help="the same for guarded against plain")
    parser.add_argument("--only-guarded", action="store_true", help="leaves the other loads out")
    options = parser.parse_args()
    with Server() as server:
        worst_guarded = guarded(server, options.guarded, options.rounds)
    if worst_guarded < options.guarded_at_least:
        sys.exit(f"guarded is {worst_guarded:.2f} of plain, which is below {options.guarded_at_least}")
    if options.only_guarded:
        return
    # The bare loop does one message at a time; with effects, a worker of one handler does the same.
    loads: list[tuple[str, int, bool, int, Any, Any]] = [
        ("ack, threads", options.messages, False, 8, bare_threads, worker_threads),
        ("ack, tasks", options.messages, False, 8, bare_tasks, worker_tasks),
        ("effect, threads", options.effects, True, 1, bare_threads, worker_threads),
        ("effect, tasks", options.effects, True, 1, bare_tasks, worker_tasks),
        ("effect, 8 threads", options.effects, True, 8, bare_threads, worker_threads),
        ("effect, 8 tasks", options.effects, True, 8, bare_tasks, worker_tasks),
    ]
    worst = float("inf")
    print(f"{'load':<20}{'bare/s':>10}{'worker/s':>10}{'ratio':>8}   rounds: {options.rounds}")
    with Server() as server:
        for name, messages, effects, concurrency, bare, worker in loads:
            rates: list[tuple[float, float]] = []
            for number in range(options.rounds):
                runs = [bare, lambda load, run=worker, many=concurrency: run(load, many)]
                order = (0, 1) if number % 2 else (1, 0)
                rate = {which: timed(runs[which], server, messages, effects=effects) for which in order}
                rates.append((rate[0], rate[1]))
            ratio = statistics.median(worked / looped for looped, worked in rates)
            worst = min(worst, ratio)
            looped, worked = (statistics.median(column) for column in zip(*rates, strict=True))
            print(f"{name:<20}{looped:>10.0f}{worked:>10.0f}{ratio:>8.2f}")
    if worst < options.at_least:
        sys.exit(f"a ratio of {worst:.2f} is below {options.at_least}")


if __name__ == "__main__":
    main()
