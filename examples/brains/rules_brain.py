"""A brain of plain rules, with the standard library only: the shortest way to see the router hook at work.

    python3 rules_brain.py --port 9100
"""

import argparse

from brain_server import Decision, Message, at_pointer, check_manners, running, serve, text_of

# The broker need not ask again about the same value for this long.
CACHE_MS = 60_000


def decide(topic: str, message: Message) -> Decision | None:
    """The first rule that fits. Change these to yours."""
    value = text_of(message)
    tenant = message.get("envelope", {}).get("tenant_id", "")
    amount = at_pointer(value, "/amount")
    if at_pointer(value, "/kind") == "refund" and isinstance(amount, (int, float)) and amount >= 1000:
        return {
            "label": "finance:large-refund",
            "target_topic": "tasks.finance",
            "meta": {"source": "rules", "amount": str(amount)},
            "cache": {"on": "value", "ttl_ms": CACHE_MS},
        }
    if text_of(message, "key").startswith("vip:"):
        # Depends on the key alone, so one answer serves every message of this customer.
        return {"label": "vip", "partition_override": 0, "cache": {"on": "key", "ttl_ms": CACHE_MS}}
    if tenant == "trial":
        return {"label": "trial", "meta": {"source": "rules"}}
    return None


def brain(topic: str, messages: list[Message]) -> list[Decision | None]:
    return [decide(topic, message) for message in messages]


def self_test() -> None:
    refund = {"key": "k", "value": '{"kind": "refund", "amount": 2500}'}
    small = {"key": "k", "value": '{"kind": "refund", "amount": 25}'}
    vip = {"key": "vip:7", "value": "hello"}
    trial = {"key": "", "value": "hello", "envelope": {"tenant_id": "trial"}}
    binary = {"key_b64": "dmlwOv8=", "value_b64": "/w=="}
    with running(brain) as asker:
        decision = asker.one("orders", refund)
        assert decision["label"] == "finance:large-refund", decision
        assert decision["target_topic"] == "tasks.finance", decision
        assert decision["meta"]["amount"] == "2500", decision
        assert asker.one("orders", small) is None
        labels = [it and it["label"] for it in asker.many("orders", [vip, small, trial, refund, binary])]
        assert labels == ["vip", None, "trial", "finance:large-refund", "vip"], labels
        check_manners(asker)
    print("rules brain: ok")


def main() -> None:
    parser = argparse.ArgumentParser(description="A brain of plain rules for DriftQ's router hook.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9100)
    parser.add_argument("--self-test", action="store_true", help="check the rules over a real socket, and exit")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
    else:
        serve(brain, arguments.host, arguments.port)


if __name__ == "__main__":
    main()
