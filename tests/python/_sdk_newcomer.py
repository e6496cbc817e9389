"""A newcomer's first program, as the quick start has it, against a fresh server.

usage: DRIFTQ_BIN=… python3 tests/python/_sdk_newcomer.py --source FILE -- PROGRAM [ARGUMENT…]

The program must charge once and be done with its order; a worker that runs until it is told to stop is told so, and must
end by itself. The program's source must be as short as the quick start promises.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

from _broker import POLL_S, TIMEOUT_S, Client, Server

LINES_MAX = 30
# A program that is done has ended by then; the others are workers that go on.
BY_ITSELF_S = 2


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("program", nargs="+")
    return parser.parse_args()


def code_lines(path):
    """Lines that are neither empty nor a comment."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line and not line.startswith(("//", "#", '"""'))]


def has_charged_once(client):
    """None while it goes on; else whether one charge was carried out and the order is done."""
    effects = client.call("GET", "/v2/effects?scope=charge").json["effects"]
    if not any(effect["state"] == "succeeded" for effect in effects):
        return None
    group = client.call("GET", "/v2/topics/orders/groups/billing")
    if group.status != 200 or group.json["lag"] > 0:
        return None
    return [(effect["state"], effect["attempt"]) for effect in effects] == [("succeeded", 1)]


def ended(process):
    """The exit code of a program that ends by itself, or when it is told to."""
    try:
        return process.wait(BY_ITSELF_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        return process.wait(TIMEOUT_S)


def main():
    arguments = parse()
    lines = len(code_lines(arguments.source))
    server = Server("--ephemeral")
    client = Client(server)
    environment = os.environ | {"DRIFTQ_SERVER": f"http://{server.host}:{server.port}"}
    process = subprocess.Popen(arguments.program, env=environment)
    try:
        until = time.monotonic() + TIMEOUT_S
        while (verdict := has_charged_once(client)) is None and time.monotonic() < until:
            time.sleep(POLL_S)
        code = ended(process)
    finally:
        process.kill()
        client.close()
        server.discard()
    print(f"{lines} lines, charged once: {verdict}, ended with {code}")
    return 0 if verdict and code == 0 and lines < LINES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
