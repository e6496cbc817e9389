"""A worker that is made to be killed: every order is charged once, whenever it dies.

The environment says where: DRIFTQ_SERVER, BOOKS (a file, one line per charge), TOPIC, GROUP, LEASE_MS.
"""

import os
import random
import time
from typing import Any

import driftq

BOOKS = os.environ["BOOKS"]


def charge(key: str) -> str:
    """The foreign system: it charges whenever it is called, and knows nothing of keys."""
    time.sleep(random.uniform(0, 0.005))
    book = os.open(BOOKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(book, f"{key} {os.getpid()}\n".encode())
    finally:
        os.close(book)
    time.sleep(random.uniform(0, 0.005))
    return key


def look_it_up(record: dict[str, Any]) -> Any:
    """Nobody knows whether it happened: the books do."""
    with open(BOOKS, encoding="utf-8") as book:
        found = any(line.split()[0] == record["key"] for line in book)
    return driftq.Succeeded(record["key"]) if found else driftq.NOT_DONE


client = driftq.Client()
worker = driftq.Worker(
    client, os.environ.get("GROUP", "billing"), concurrency=4, lease_ms=int(os.environ.get("LEASE_MS", "3000"))
)


@worker.handler(os.environ.get("TOPIC", "charges"))
def handle(order: dict[str, str], ctx: driftq.Context) -> None:
    ctx.effect("charge", charge, order["key"], key=order["key"], reconcile=look_it_up)
    ctx.send("receipts", {"key": order["key"]})


if __name__ == "__main__":
    worker.run()
