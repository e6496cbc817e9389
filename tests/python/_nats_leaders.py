"""Whether the streams of a cluster of NATS servers have a leader, asked from outside and by nobody's library: only the
leader of a stream tells about it, and while there is none, nobody answers."""

import itertools
import json
import socket
import threading
import time

# How often each stream is asked about.
PERIOD_S = 0.1
CONNECT_S = 1


class Leaders:
    """Asks each stream by every server that can be reached, and remembers when it was answered."""

    def __init__(self, addresses, streams):
        self.addresses, self.over, self.numbers = addresses, threading.Event(), itertools.count()
        self.answers = {stream: [] for stream in streams}
        self.threads = [threading.Thread(target=self.ask, args=(address,)) for address in addresses]
        for thread in self.threads:
            thread.start()

    def ask(self, address):
        """Asks by one server, and again when it is back."""
        while not self.over.is_set():
            try:
                with socket.create_connection(address, timeout=CONNECT_S) as connection:
                    self.converse(connection)
            except OSError:
                self.over.wait(PERIOD_S)

    def converse(self, connection):
        inbox, asked, heard = f"leaders.{next(self.numbers)}", 0, b""
        connection.sendall(f'CONNECT {{"verbose":false}}\r\nSUB {inbox}.* 1\r\n'.encode())
        connection.settimeout(PERIOD_S)
        while not self.over.is_set():
            if time.monotonic() - asked >= PERIOD_S:
                asked = time.monotonic()
                for stream in self.answers:
                    connection.sendall(f"PUB $JS.API.STREAM.INFO.{stream} {inbox}.{stream} 0\r\n\r\n".encode())
            try:
                said = connection.recv(1 << 16)
            except TimeoutError:
                continue
            if not said:
                raise ConnectionError("the server is gone")
            heard = self.understand(connection, heard + said)

    def understand(self, connection, heard):
        """Takes what is whole; the rest is left."""
        while b"\r\n" in heard:
            line, rest = heard.split(b"\r\n", 1)
            if line.startswith(b"PING"):
                connection.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                words = line.split()
                length = int(words[-1])
                if len(rest) < length + 2:
                    break
                self.learn(words[1].decode().rpartition(".")[2], rest[:length])
                rest = rest[length + 2:]
            heard = rest
        return heard

    def learn(self, stream, answer):
        if "state" in json.loads(answer):
            self.answers[stream].append(time.monotonic())

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
