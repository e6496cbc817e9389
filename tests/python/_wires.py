"""Connections of the loopback that can be cut: a process of its own that listens, and passes on what it hears.

A wire leads from a port to another. One that is frozen carries nothing, as a network that loses every packet: connections
stay, new ones are taken and hear nothing, and what was sent meanwhile arrives when the wire is mended. One that is torn
resets its connections and refuses new ones.
"""

import asyncio
import itertools
import os
import random
import socket
import struct
import subprocess
import sys

HOST = "127.0.0.1"
# Below the ports that the system gives to connections: the port of a torn wire stays free until it is mended.
PORTS = range(20_000, 32_000)
CONNECTIONS_MAX = 4_096
FROZEN, TORN = "freeze", "tear"


class Wires:
    """The process, and its wires by their numbers."""

    def __init__(self):
        command = [sys.executable, os.path.abspath(__file__)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer[:1] == ["done"], (words, answer)
        return [int(word) for word in answer[1:]]

    def lay(self):
        """A new wire, torn as yet: its number, and the port where it begins."""
        return tuple(self.order("lay"))

    def mend(self, number, port):
        """Has a wire lead to this port, for connections that are new; those that were frozen go on as they were."""
        self.order("mend", number, port)

    def cut(self, number, manner):
        self.order(manner, number)

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


class Half(asyncio.Protocol):
    """One end of a connection: what comes in here goes out at the other."""

    def __init__(self, wire, other=None):
        self.wire, self.other, self.transport, self.is_full = wire, other, None, False

    def connection_made(self, transport):
        self.transport = transport
        if len(self.wire.halves) >= CONNECTIONS_MAX:
            return reset(transport)
        self.wire.halves.add(self)
        if self.other:
            self.other.other = self
            self.other.choose()
        else:
            self.wire.lead_on(self)
        self.choose()

    def choose(self):
        """Reads only what can go on."""
        if self.transport.is_closing():
            return
        if self.wire.is_frozen or self.other is None or self.other.is_full:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def data_received(self, data):
        self.other.transport.write(data)

    def pause_writing(self):
        self.is_full = True
        if self.other:
            self.other.choose()

    def resume_writing(self):
        self.is_full = False
        if self.other:
            self.other.choose()

    def connection_lost(self, error):
        self.wire.halves.discard(self)
        if self.other:
            self.other.transport.close()


class Wire:
    def __init__(self, port):
        self.port, self.target, self.is_frozen = port, None, False
        self.server, self.halves, self.tasks = None, set(), set()

    def lead_on(self, half):
        """Connects what came in, if the wire carries anything; else when it is mended."""
        if not self.is_frozen:
            task = asyncio.get_running_loop().create_task(self.connect(half))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def connect(self, half):
        try:
            await asyncio.get_running_loop().create_connection(lambda: Half(self, half), HOST, self.target)
        except OSError:
            reset(half.transport)
            return
        if half.transport.is_closing():
            half.other.transport.close()

    async def mend(self, port):
        self.target = port
        if self.server is None:
            loop = asyncio.get_running_loop()
            self.server = await loop.create_server(lambda: Half(self), HOST, self.port, backlog=512)
        self.is_frozen = False
        for half in list(self.halves):
            if half.other is None:
                self.lead_on(half)
            half.choose()

    def freeze(self):
        self.is_frozen = True
        for half in self.halves:
            half.choose()

    def tear(self):
        if self.server:
            self.server.close()
            self.server = None
        for half in list(self.halves):
            reset(half.transport)


def reset(transport):
    """Ends a connection at once, and has the other side know."""
    sock = transport.get_extra_info("socket")
    if sock is not None and not transport.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def free_ports():
    """Ports on which nobody listens."""
    # Several runs may look at the same time.
    first = random.randrange(len(PORTS))
    for place in itertools.count(first):
        port = PORTS[place % len(PORTS)]
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((HOST, port))
            except OSError:
                continue
        yield port


async def obey():
    wires, ports, orders = [], free_ports(), asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        verb, *numbers = line.decode().split()
        numbers, answer = [int(number) for number in numbers], "done"
        if verb == "lay":
            wires.append(Wire(next(ports)))
            answer = f"done {len(wires) - 1} {wires[-1].port}"
        elif verb == "mend":
            await wires[numbers[0]].mend(numbers[1])
        elif verb == FROZEN:
            wires[numbers[0]].freeze()
        elif verb == TORN:
            wires[numbers[0]].tear()
        else:
            answer = f"`{verb}` is no order"
        print(answer, flush=True)


if __name__ == "__main__":
    asyncio.run(obey())
