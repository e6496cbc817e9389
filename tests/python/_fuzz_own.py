"""A fuzzer of our own over the served document: good requests, and good requests with one thing broken.

It needs nothing but the standard library, knows streams and NDJSON, and is all there is where no package index is.
"""

import http.client
import json
import random
import urllib.parse

from _broker import curl
from _schema import STRANGE, Schemas, mutated

SEED = 20251221
# What may refuse a request that fits its schema: rules about the state of the broker or between two places of a
# request, which no schema can say.
SEMANTIC = {
    "CONFIRMATION_REQUIRED", "DEADLINE_EXCEEDED", "TOPIC_UNKNOWN", "GROUP_UNKNOWN", "LEASE_UNKNOWN", "MESSAGE_UNKNOWN",
    "JOB_UNKNOWN", "EFFECT_UNKNOWN", "EFFECT_RUNNING", "EFFECT_FINISHED", "ATTEMPTS_EXHAUSTED", "RESULT_TOO_LARGE",
    "OUTPUT_UNKNOWN", "OUTPUT_MODE_DIFFERS", "VERSION_DIFFERS", "VERSION_IN_USE", "VERSION_SEALED", "RUN_UNKNOWN",
    "COMMIT_UNKNOWN", "ENTITY_UNKNOWN", "PRECONDITION_FAILED", "STALE_LEASE", "SETTINGS_DIFFER", "KEY_IN_FLIGHT",
    "KEY_REUSED", "LIMIT_REACHED", "OVERLOADED", "NOT_FOUND",
}
SEMANTIC_DETAILS = (
    "partition out of range", "the message has an idempotency_key of its own", "only a call with one effect waits",
    "is there twice",
)
# Names that are there, so that more than the door is tested.
KNOWN = {"topic": "orders", "group": "billing", "owner": "worker-1"}
# What must be there afterwards. Nobody guesses its name, and who learns it from an answer is led elsewhere.
CANARY = "canary-5f0c2d6e-what-was-there-stays-there"
# Calls that would empty or stop that topic work on another one.
SPARE, SPARED = "spare", {"put_topic", "patch_topic", "delete_topic", "pause_topic", "pause_group", "delete_group"}


class Broken(Exception):
    """The broker did what it must not do."""


class OwnFuzzer:
    def __init__(self, server, document, seed=SEED):
        self.server, self.document = server, document
        self.schemas, self.rng = Schemas(document), random.Random(seed)
        self.operations = [
            (method.upper(), path, operation)
            for path, methods in sorted(document["paths"].items())
            for method, operation in sorted(methods.items())
        ]
        self.operation = ""
        self.tokens, self.counts, self.failures = ["AAAA"], {}, []
        self.connection = None

    def run(self, count):
        for index in range(count):
            method, path, operation = self.operations[index % len(self.operations)]
            self.try_one(method, path, operation)
        return self.failures

    def try_one(self, method, path, operation):
        """One request. What is wrong with its answer is noted with a line that repeats it."""
        rng, is_broken = self.rng, self.rng.random() < 0.5
        self.operation = operation["operationId"]
        target, query, headers, fits = path, [], {}, True
        breakable = [parameter for parameter in operation.get("parameters", []) if parameter["in"] != "header"]
        victim = None
        has_body = "requestBody" in operation
        if is_broken and breakable and (not has_body or rng.random() < 0.3):
            victim = rng.choice(breakable)
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            if name not in KNOWN and not parameter.get("required") and parameter is not victim and rng.random() < 0.7:
                continue
            value = self.parameter(parameter)
            if parameter is victim:
                value = rng.choice([strange for strange in STRANGE if strange is not None])
            text = value if isinstance(value, str) else json.dumps(value)
            fits = both(fits, self.fits_text(parameter["schema"], text))
            if parameter["in"] == "path":
                target = target.replace(f"{{{name}}}", quoted(text))
            elif parameter["in"] == "query":
                query.append((name, text))
            else:
                headers[name] = text
        if query:
            target += "?" + urllib.parse.urlencode(query, errors="surrogatepass")
        body = None
        if has_body:
            body, body_fits = self.body(operation, headers, is_broken and victim is None)
            fits = both(fits, body_fits)
        self.send(method, target, operation, headers, body, fits)

    def fits_text(self, schema, text):
        """Whether the text of a parameter is what its schema asks for; `None` if that cannot be told."""
        schema = self.schemas.resolve(schema)
        if schema.get("type") == "integer":
            if not text.isascii() or not text.isdigit():
                return False
            return not self.schemas.errors(schema, int(text))
        return self.fits(schema, text)

    def fits(self, schema, value):
        # The broker counts bytes and schemas count characters, which differ where a text is not ASCII.
        has_errors = bool(self.schemas.errors(schema, value))
        return not has_errors if json.dumps(value, ensure_ascii=False).isascii() else (False if has_errors else None)

    def parameter(self, parameter):
        name = parameter["name"]
        if name == "topic" and self.operation in SPARED:
            return SPARE
        if name in KNOWN and self.rng.random() < 0.8:
            return KNOWN[name]
        if name in ("partition", "offset") and self.rng.random() < 0.7:
            return self.rng.randint(0, 3)
        if name == "confirm":
            return "never"
        if name == "X-Request-Id":
            return "fuzz"
        return self.schemas.sample(parameter["schema"], self.rng)

    def body(self, operation, headers, is_broken):
        content = operation["requestBody"]["content"]
        kind = self.rng.choice(sorted(content))
        schema, headers["Content-Type"] = content[kind]["schema"], kind
        count = self.rng.randint(1, 3) if kind == "application/x-ndjson" else 1
        values = [self.tamed(self.schemas.sample(schema, self.rng)) for _ in range(count)]
        if is_broken:
            index = self.rng.randrange(count)
            values[index] = mutated(values[index], self.rng)
        values = [capped(value) for value in values]
        fits = True
        for value in values:
            fits = both(fits, self.fits(schema, value))
        return "\n".join(json.dumps(value) for value in values).encode("utf-8", "surrogatepass"), fits

    def tamed(self, value):
        """Real tokens now and then, and topics that are there."""
        if isinstance(value, dict):
            for lease in value.get("leases") or []:
                if isinstance(lease, dict) and "token" in lease and self.rng.random() < 0.5:
                    lease["token"] = self.rng.choice(self.tokens)
            if "topic" in value:
                value["topic"] = "orders"
        return value

    def send(self, method, target, operation, headers, body, fits):
        line = curl(self.server, method, target, headers, body)
        try:
            status, kind, raw = self.exchange(method, target, headers, body, operation["operationId"] == "stream")
            self.judge(operation, status, kind, raw, fits)
            self.counts[status] = self.counts.get(status, 0) + 1
        except Broken as broken:
            self.failures.append(f"{broken}\n    {line}")

    def exchange(self, method, target, headers, body, is_stream):
        is_used = self.connection is not None
        if not is_used:
            self.connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=20)
        try:
            self.connection.request(method, target, body, headers)
            answer = self.connection.getresponse()
            kind = (answer.getheader("Content-Type") or "").split(";")[0]
            if is_stream and answer.status == 200:
                # It has no end; its head and its first line, which may be a heartbeat, are enough.
                raw = answer.readline()
                self.close()
                return 200, kind, raw
            return answer.status, kind, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if is_used:
                # An idle connection may end at any time; a fresh one must answer.
                return self.exchange(method, target, headers, body, is_stream)
            raise Broken(f"no answer: {error!r}") from error

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def judge(self, operation, status, kind, raw, fits):
        shown = f"{status} {kind} {raw[:600]!r}"
        described = operation["responses"].get(str(status))
        if described is None and status in (404, 405):
            # A path that is broken may name another call, or none.
            described = operation["responses"]["default"]
        if status >= 500 or described is None:
            raise Broken(f"a status that is not described: {shown}")
        if "$ref" in described:
            described = self.document["components"]["responses"][described["$ref"].rpartition("/")[2]]
        content = described.get("content", {})
        if not content:
            if raw:
                raise Broken(f"a body that is not described: {shown}")
            return
        if kind not in content:
            raise Broken(f"a content type that is not described: {shown}")
        lines = raw.splitlines() if kind == "application/x-ndjson" else [raw]
        for text in lines:
            if not text.strip():
                continue
            try:
                value = json.loads(text)
            except ValueError as error:
                raise Broken(f"not JSON: {shown}") from error
            if errors := self.schemas.errors(content[kind]["schema"], value):
                raise Broken(f"an answer that does not fit its schema: {errors[:3]}: {shown}")
            if status < 300 and isinstance(value, dict):
                self.remember(value)
        if status < 300 and fits is False:
            raise Broken(f"a request that does not fit its schema was accepted: {shown}")
        if status >= 400 and fits:
            problem = json.loads(raw)
            is_named = any(word in problem["detail"] for word in SEMANTIC_DETAILS)
            if problem["code"] not in SEMANTIC and not is_named:
                raise Broken(f"a request that fits its schema was refused: {shown}")

    def remember(self, value):
        if self.operation == "lease":
            tokens = [item["lease"]["token"] for item in value["messages"][:3]]
            self.tokens = (self.tokens + tokens)[-20:]


def quoted(text):
    return urllib.parse.quote(text.encode("utf-8", "surrogatepass"), safe="")


def both(one, other):
    """Yes if both are, no if one is not, and otherwise not known."""
    return False if False in (one, other) else None if None in (one, other) else True


def capped(value):
    """No call waits for long."""
    if isinstance(value, dict) and isinstance(value.get("wait_ms"), int) and 5 < value["wait_ms"] <= 60_000:
        return {**value, "wait_ms": 5}
    return value
