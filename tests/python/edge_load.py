"""The edge under load, in small: what clients do not send to its end or do not read takes no more than `edge_bytes_max`,
small requests go through all the same, and whoever is turned away loses nothing. Times are printed, and not judged:
`_edge_figures.py` has the whole loads."""

import json
import select
import unittest

import _broker
from _broker import until
from _edge import MIB, Canary, Load, fill, memory, metric, quantile, streams, unfinished_bodies, unread_leases

BUDGET = 16 * MIB
# Everything beside the budget: the shard's state, the payload cache, buffers of sockets, the allocator's own.
BESIDE = 100 * MIB
ROUNDS = 100
ANSWER_WITHIN_S = 30


class EdgeLoad(_broker.Case):
    # Nobody is cut off for being slow while others are looked at.
    flags = ("--edge-bytes-max", str(BUDGET), "--body-timeout-ms", "600000", "--answer-timeout-ms", "600000")

    def setUp(self):
        super().setUp()
        self.before = memory(self.server, "VmRSS")
        self.canary = Canary(self.server, self.client)
        self.addCleanup(self.canary.close)
        self.load = self.enterContext(Load())

    def under_load(self, what):
        """Small requests work, and memory has its bound."""
        produced, worked = self.canary.run(rounds=ROUNDS)
        self.assertEqual(len(produced), ROUNDS, "each was stored, lent at its first attempt, and acked")
        held = metric(self.client, "driftq_edge_bytes")
        self.assertLessEqual(held, BUDGET)
        taken = memory(self.server) - self.before
        self.assertLessEqual(taken, BUDGET + BESIDE, f"{taken // MIB} MiB")
        print(
            f"{what}: produce p50 {quantile(produced, .5):.2f} p99 {quantile(produced, .99):.2f} ms, "
            f"lease and ack p50 {quantile(worked, .5):.2f} p99 {quantile(worked, .99):.2f} ms, "
            f"{taken // MIB} MiB taken, {int(held) // MIB} held"
        )
        return held

    def turned_away(self, wire):
        """The answer on a connection that was turned away."""
        status, headers, body = wire.answer()
        problem = json.loads(body)
        self.assertEqual((status, problem["code"]), (503, "UNAVAILABLE"), problem)
        self.assertIn("edge_bytes_max", problem["detail"])
        self.assertEqual(headers["retry-after"], "1")
        self.assertIs(problem["retryable"], True)

    def test_bodies_that_do_not_end(self):
        self.create("backlog", partitions=1)
        # A server that is busy takes its time to read: only one that takes nothing for long does not want it.
        unfinished_bodies(self.load, self.server, 20, MIB, 2.0)
        self.assertGreater(self.under_load("bodies"), BUDGET / 2)
        # Some found nothing left: the last ones, if they were read in the order in which they came.
        answered, _, _ = select.select([wire.socket for wire in self.load.wires], [], [], ANSWER_WITHIN_S)
        self.assertTrue(answered, "there is not room for all of them")
        self.turned_away(next(wire for wire in self.load.wires if wire.socket in answered))
        self.assertGreater(metric(self.client, "driftq_edge_refused_total"), 0)
        self.load.__exit__()
        until(lambda: metric(self.client, "driftq_edge_bytes") == 0, "everything is given back")
        topic = self.call("GET", "/topics/backlog")
        self.assertEqual(topic["next_offset"], 0, "nothing of them is stored")

    def test_answers_that_nobody_reads(self):
        fill(self.client, self.topic, 3, 3_900_000)
        unread_leases(self.load, self.server, self.topic, 6, 100)
        held = lambda number: self.call("GET", f"/topics/{self.topic}/groups/deaf-{number}")["in_flight"]
        groups = lambda: {group["name"] for group in self.call("GET", f"/topics/{self.topic}/groups")["groups"]}
        until(lambda: len(groups()) == 6, "all have asked")
        # Two answers of two messages each are all that fits.
        until(lambda: sorted(held(number) for number in range(6)) == [0, 0, 0, 0, 2, 2], "the others are turned away")
        self.assertGreater(self.under_load("answers"), BUDGET * 0.9)
        for number in range(6):
            if held(number) == 0:
                self.turned_away(self.load.wires[number])
        self.load.__exit__()
        until(lambda: sum(held(number) for number in range(6)) == 0, "what nobody read is given back")
        for number in range(6):
            (item,) = self.lease(f"deaf-{number}", max=1)
            self.assertEqual((item["offset"], item["lease"]["attempt"]), (0, 1), "no attempt was used")

    def test_streams_with_much_credit(self):
        count, messages = 40, 3_000
        fill(self.client, self.topic, messages, 1_000)
        streams(self.load, self.server, self.topic, count, 10_000)
        opened = lambda: metric(self.client, "driftq_http_streams") == count
        until(opened, "the streams are open")
        self.under_load("streams")
        for number in range(0, count, 10):
            group = self.call("GET", f"/topics/{self.topic}/groups/stream-{number}")
            self.assertLess(group["in_flight"], messages / 2, "what nobody reads is not handed out")
        self.load.__exit__()
        until(lambda: metric(self.client, "driftq_http_streams") == 0, "the streams end")
        # Whatever did not get out goes to the next, and its first attempt is still to come.
        fresh = self.lease("stream-0", max=1_000)
        self.assertEqual({item["lease"]["attempt"] for item in fresh}, {1})
        self.assertGreater(len(fresh), 500)

    def test_connections_that_do_nothing(self):
        for _ in range(300):
            self.load.open(self.server)
        self.under_load("idle connections")


if __name__ == "__main__":
    _broker.main()
