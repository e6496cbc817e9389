"""Judges from outside what a broker answered about effects: every call that was made, and what is there at last."""

import dataclasses
import time
from collections import defaultdict

from _broker import seconds

# The broker's clock and ours are the same one; this covers how its text is rounded.
ROUNDING_S = 0.005
TERMINAL = ("succeeded", "failed_final")
EXPECTED = {"begin": (200, 409), "reacquire": (200, 409), "finish": (200, 409), "renew": (200, 409),
            "resolve": (200, 409), "commit": (200, 409)}


@dataclasses.dataclass
class Event:
    """One call. Without `ended` nobody knows whether it happened: the broker died first."""

    kind: str
    key: str
    request: dict
    epoch: int = 0
    # Names a result and all the calls that try to store it.
    nonce: int = 0
    # The value and the attempt of the delivery behind the call.
    value: str = ""
    delivery: int = 0
    # The run of the broker, or None if it changed under the call.
    life: int | None = None
    started: float = dataclasses.field(default_factory=time.time)
    ended: float | None = None
    status: int | None = None
    answer: dict = dataclasses.field(default_factory=dict)

    @property
    def decision(self):
        return self.answer.get("decision")

    def __str__(self):
        took = f"{(self.ended - self.started) * 1000:.1f} ms" if self.ended else "no answer"
        return (f"{self.started:.4f} life {self.life} {self.kind} epoch={self.epoch} nonce={self.nonce} "
                f"delivery={self.delivery} {self.request} -> {self.status} {self.answer} ({took})")


@dataclasses.dataclass
class Facts:
    """What was found when everything had come to rest."""

    outcomes: dict
    produced: list
    outputs: list
    drained: set


def result(nonce, status):
    """The result that a nonce stands for; no two are alike."""
    return {"status": status, "code": nonce % 1000, "headers": {"n": str(nonce)}, "body": f"result {nonce} ü"}


def told(outcome):
    """The part of an outcome that its finisher said."""
    return {name: outcome.get(name) for name in ("status", "code", "headers", "body")}


class KeyChecker:
    """The story of one key."""

    def __init__(self, key, events, outcome, policy):
        self.key, self.outcome, self.policy = key, outcome, policy
        self.events = sorted(events, key=lambda event: event.started)
        self.begins = [event for event in self.events if event.kind in ("begin", "reacquire")]
        self.sends = defaultdict(list)
        for event in self.events:
            if event.nonce:
                self.sends[event.nonce].append(event)
        self.complaints = []

    def check(self):
        for event in self.events:
            if event.ended and event.status not in EXPECTED[event.kind]:
                self.complain("an answer that nobody expects", event)
        self.check_results()
        self.check_replays()
        self.check_executions()
        return self.complaints

    def complain(self, what, *events):
        self.complaints.append("\n    ".join([f"{what}; key {self.key} {self.policy}", *map(str, events)]))

    def check_results(self):
        """What was answered as committed is what is there, for ever; what was refused is not."""
        shown = told(self.outcome)
        for nonce, sends in self.sends.items():
            status = sends[0].request["status"]
            if status not in TERMINAL:
                continue
            is_there = result(nonce, status) == shown
            if any(send.status == 200 for send in sends) and not is_there:
                self.complain(f"a committed result is not there, but {shown}", *sends)
            if any(send.ended and send.status != 200 for send in sends) and is_there:
                self.complain("a refused result is there", *sends)
        if not any(result(nonce, sends[0].request["status"]) == shown for nonce, sends in self.sends.items()):
            self.complain(f"nobody sent the result {shown}")

    def check_replays(self):
        """Every replay is the one result, to the last byte, and nothing but replays follow its answer."""
        answered = [event for event in self.events if event.nonce and event.status == 200
                    and event.request["status"] in TERMINAL]
        settled = min((event.ended for event in answered), default=float("inf"))
        for event in self.begins:
            if event.decision == "replay" and event.answer["outcome"] != self.outcome:
                self.complain(f"a replay differs from {self.outcome}", event)
            if event.started > settled and event.status == 200 and event.decision != "replay":
                self.complain("decided otherwise after a result was answered", event)
            if event.decision == "retryable":
                shown = told(event.answer["outcome"])
                if shown not in [result(nonce, "failed_retryable") for nonce in self.sends]:
                    self.complain("nobody sent this failure", event)

    def check_executions(self):
        """Nobody executes unless nobody did, or the one before is provably over."""
        executions = [event for event in self.begins if event.decision == "execute"]
        executions.sort(key=lambda event: (event.answer["lease"]["epoch"], event.ended))
        before = None
        for event in executions:
            lease = event.answer["lease"]
            if before and lease["epoch"] == before.answer["lease"]["epoch"]:
                if event.request["request_id"] != before.request["request_id"]:
                    self.complain("two callers execute the same epoch", before, event)
                continue
            attempt = before.answer["lease"]["attempt"] if before else 0
            if lease["attempt"] <= attempt or lease["attempt"] > lease["epoch"]:
                self.complain("attempts do not count up", *([before] if before else []), event)
            if lease["attempt"] > 1 and not self.may_execute(event, before, lease["attempt"] - attempt > 1):
                self.complain("executed again without a reason", *([before] if before else []), event)
            before = event

    def may_execute(self, event, before, some_are_missing):
        """`before` is the last execution that was answered; others may have gone missing in between."""
        if not self.is_within_cap(event):
            return False
        since = before.answer["lease"]["epoch"] if before else 1
        if self.failures(event, since):
            return True
        if self.policy["on_lapse"] != "retry":
            return False
        if some_are_missing:
            return self.has_lost_answer(event)
        return self.has_lapsed(before, event) or self.is_fenced(before, event)

    def failures(self, event, since=1, kinds=("finish", "resolve")):
        """Results that may have said, since an epoch and before this event, that it failed and may run again."""
        epochs = range(since, event.answer["lease"]["epoch"])
        return {send.nonce for sends in self.sends.values() for send in sends
                if send.kind in kinds and send.epoch in epochs and send.started < event.ended
                and send.request["status"] == "failed_retryable" and (send.ended is None or send.status == 200)}

    def is_within_cap(self, event):
        cap, attempt = self.policy.get("max_attempts"), event.answer["lease"]["attempt"]
        return cap is None or len(self.failures(event, kinds=("resolve",))) >= attempt - cap

    def has_lost_answer(self, event):
        """Somebody else may have been given the epoch in between, by a call whose answer got lost."""
        lost = [other for other in self.begins if other.ended is None and other.started < event.ended]
        lease = self.policy["lease_ms"] / 1000
        return any(event.value or event.ended >= other.started + lease - ROUNDING_S for other in lost)

    def has_lapsed(self, before, event):
        lease = before.answer["lease"]
        ends = [seconds(lease["expires_at"])]
        ends += [seconds(other.answer["expires_at"]) for other in self.events
                 if other.kind == "renew" and other.epoch == lease["epoch"] and other.status == 200]
        return event.ended >= max(ends) - ROUNDING_S

    def is_fenced(self, before, event):
        """A newer delivery of the message takes over at once, also in a later run: leases outlive the broker."""
        return event.delivery > before.delivery


class CommitChecker:
    """Commits are there with all their parts, or with none.

    Of one that reaches into other shards and was not answered, or was overtaken on the way, the effect may have ended and the output may lie there
    without the message and the ack, which come last and together.
    """

    def __init__(self, commits, deliveries, acks, facts, shards=1):
        self.deliveries, self.acks, self.facts, self.shards = deliveries, acks, facts, shards
        self.by_nonce = defaultdict(list)
        for event in commits:
            self.by_nonce[event.nonce].append(event)
        self.counts = defaultdict(int)
        for value in facts.produced:
            self.counts[value] += 1
        self.complaints = []

    def complain(self, what, events):
        self.complaints.append((events[0].key, "\n    ".join([what, *map(str, events)])))

    def check(self):
        """Pairs of a key and what is wrong with a commit of it."""
        there = {nonce for nonce, events in self.by_nonce.items() if self.check_parts(nonce, events)}
        for nonce, events in self.by_nonce.items():
            if events[0].value:
                self.check_ack(events, nonce in there, there)
        return self.complaints

    def check_parts(self, nonce, events):
        """Whether the commit is there."""
        name = f"commit-{nonce}"
        parts = {
            "message": self.counts[name] > 0,
            "output": self.facts.outputs.count(name) > 0,
            "effect": told(self.facts.outcomes[events[0].key]) == result(nonce, "succeeded"),
        }
        if self.counts[name] > 1 or self.facts.outputs.count(name) > 1:
            self.complain(f"{name} is there more than once", events)
        is_done = any(event.status == 200 for event in events)
        if self.shards > 1 and not is_done and not parts["message"]:
            return False
        if len(set(parts.values())) > 1:
            self.complain(f"half a commit: {parts}", events)
        if is_done and not all(parts.values()):
            self.complain(f"an answered commit is not there: {parts}", events)
        if any(event.ended and event.status != 200 for event in events) and any(parts.values()):
            self.complain(f"a refused commit is there: {parts}", events)
        return any(parts.values())

    def check_ack(self, events, is_there, there):
        """The message is done if the commit is there, and owed if nothing else has acked it."""
        value = events[0].value
        if is_there:
            answered = min((event.ended for event in events if event.status == 200), default=float("inf"))
            # Its token is void in every later life, so that a repeat cannot have been what acked it.
            life = events[0].life
            again = [delivery for delivery in self.deliveries[value] if delivery.started > answered
                     or (None not in (life, delivery.life) and delivery.life > life)]
            if again or value in self.facts.drained:
                self.complain(f"{value} was delivered after its commit", [*events, *again])
            return
        others = any(other in there and sends[0].value == value for other, sends in self.by_nonce.items())
        if value not in self.facts.drained and not others and value not in self.acks:
            self.complain(f"{value} is done although its commit is not there", events)
