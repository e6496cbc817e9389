"""What holds the log of a cluster, started by `driftq-testbed` beside the binary, and broken on demand."""

import json
import os
import re
import socket
import subprocess
import time

from _nats_leaders import Leaders
from _wires import HOST

ADDRESS = re.compile(rf"{re.escape(HOST)}:(\d+)")
END_S = 60


class Engine:
    """PostgreSQL with a synchronous standby, or three servers of NATS."""

    def __init__(self, kind):
        command = [os.path.join(os.path.dirname(os.environ.get("DRIFTQ_BIN", "")), "driftq-testbed"), "break", kind]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url, self.can_fail_over = self.process.stdout.readline().strip(), kind == "postgres"
        assert self.url, "what holds the log did not start"
        self.loss, self.streams, self.leaders = "crash and restart of PostgreSQL", (), None
        if kind == "nats":
            self.loss = "loss of NATS's leader"
            self.check_gossip()
            servers, _, rest = self.url.removeprefix("nats://").partition("/")
            stream, _, _ = rest.partition("?")
            self.streams = stream, f"{stream}_cluster"
            self.addresses = [(HOST, int(port)) for port in ADDRESS.findall(servers)]

    def watch(self):
        """From now on it is known when the streams have a leader."""
        if self.streams:
            self.leaders = Leaders(self.addresses, self.streams)

    def check_gossip(self):
        """Whoever hears of the other servers from one of them goes around its wires."""
        servers, _, _ = self.url.partition("?")
        for port in ADDRESS.findall(servers):
            with socket.create_connection((HOST, int(port))) as connection, connection.makefile() as said:
                information = json.loads(said.readline().removeprefix("INFO "))
            assert "connect_urls" not in information, "the servers of NATS tell clients of each other"

    def order(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "done", what

    def strike(self, dice):
        if self.can_fail_over and dice.random() < 0.3:
            self.can_fail_over = False
            self.order("fail-over")
            return "fail-over of PostgreSQL"
        self.order("down")
        time.sleep(dice.uniform(0, 3))
        self.order("up")
        return self.loss

    def end(self):
        if self.leaders:
            self.leaders.end()
        self.process.stdin.close()
        self.process.wait(END_S)
