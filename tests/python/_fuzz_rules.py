"""What the fuzzer may expect of the broker: which refusals no schema can foresee, and which names lead somewhere."""

# What may refuse a request that fits its schema: rules about the state of the broker or between two places of a
# request, which no schema can say.
SEMANTIC = {
    "CONFIRMATION_REQUIRED", "DEADLINE_EXCEEDED", "TOPIC_UNKNOWN", "GROUP_UNKNOWN", "LEASE_UNKNOWN", "MESSAGE_UNKNOWN",
    "JOB_UNKNOWN", "EFFECT_UNKNOWN", "EFFECT_RUNNING", "EFFECT_FINISHED", "ATTEMPTS_EXHAUSTED", "RESULT_TOO_LARGE",
    "OUTPUT_UNKNOWN", "OUTPUT_MODE_DIFFERS", "VERSION_DIFFERS", "VERSION_IN_USE", "VERSION_SEALED", "RUN_UNKNOWN",
    "COMMIT_UNKNOWN", "ENTITY_UNKNOWN", "ENDPOINT_UNKNOWN", "PRECONDITION_FAILED", "STALE_LEASE", "SETTINGS_DIFFER",
    "KEY_IN_FLIGHT", "TENANT_DIFFERS", "KEY_REUSED", "LIMIT_REACHED", "OVERLOADED", "NOT_FOUND",
}
SEMANTIC_DETAILS = (
    "partition out of range", "the message has an idempotency_key of its own", "only a call with one effect waits",
    "is there twice", "url: must", "endpoint: must have at most 244", "secrets: ", "credential: give", "an e-mail needs",
    "from, to and subject", "method: only", "retry_schedule_ms: no entry", "give body or body_b64",
    "give deliver_at or delay_ms", "headers: at most 32", "selection: ",
    "this server has its log for itself",
)
# Names that are there, so that more than the door is tested.
KNOWN = {"topic": "orders", "group": "billing", "owner": "worker-1"}
# What must be there afterwards. Nobody guesses its name, and who learns it from an answer is led elsewhere.
CANARY = "canary-5f0c2d6e-what-was-there-stays-there"
# Calls that would empty or stop that topic work on another one.
SPARE, SPARED = "spare", {"put_topic", "patch_topic", "delete_topic", "pause_topic", "pause_group", "delete_group"}


def capped(value):
    """No call waits for long."""
    if isinstance(value, dict) and isinstance(value.get("wait_ms"), int) and 5 < value["wait_ms"] <= 60_000:
        return {**value, "wait_ms": 5}
    return value
