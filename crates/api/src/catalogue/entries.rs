//! The lines of the catalogue, in the order of their codes.

use super::Entry;

pub(super) const INVALID_ARGUMENT: Entry = Entry {
    code: "INVALID_ARGUMENT",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "A value is missing or not allowed",
    help: "The detail names the field and what it may be; correct the request before sending it again.",
};

pub(super) const INVALID_JSON: Entry = Entry {
    code: "INVALID_JSON",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "The body is not the JSON that this call takes",
    help: "Unknown and repeated fields are refused, so that a misspelt one is never ignored; the detail names it.",
};

pub(super) const DEADLINE_EXCEEDED: Entry = Entry {
    code: "DEADLINE_EXCEEDED",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "The message's deadline has passed",
    help: "Send a later deadline, or none; compare the clocks of both machines if it should not have passed.",
};

pub(super) const CONFIRMATION_REQUIRED: Entry = Entry {
    code: "CONFIRMATION_REQUIRED",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "This call must be confirmed",
    help: "Add the parameter confirm with the name of what is to be deleted; it cannot be undone.",
};

pub(super) const UNAUTHENTICATED: Entry = Entry {
    code: "UNAUTHENTICATED",
    status: 401,
    v1_code: "UNAUTHENTICATED",
    v1_status: 401,
    retryable: false,
    title: "The server asks for a key",
    help: "Send a key that is in force as `Authorization: Bearer dq_…`; commands and SDKs take it from DRIFTQ_KEY.",
};

pub(super) const FORBIDDEN: Entry = Entry {
    code: "FORBIDDEN",
    status: 403,
    v1_code: "FORBIDDEN",
    v1_status: 403,
    retryable: false,
    title: "The key does not allow this",
    help: "Use a key with that action, topic and tenant; `driftq key show` tells what a key allows.",
};

pub(super) const ACCESS_KEY_UNKNOWN: Entry = Entry {
    code: "ACCESS_KEY_UNKNOWN",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "No access key has that id",
    help: "List keys with `driftq key list`; an id is the middle of dq_<id>_<secret>.",
};

pub(super) const TOPIC_UNKNOWN: Entry = Entry {
    code: "TOPIC_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "There is no topic of that name",
    help: "Create it first; topics are never created by producing or consuming.",
};

pub(super) const GROUP_UNKNOWN: Entry = Entry {
    code: "GROUP_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "The topic has no group of that name",
    help: "A group begins with its first reader and is forgotten after a long time without one.",
};

pub(super) const LEASE_UNKNOWN: Entry = Entry {
    code: "LEASE_UNKNOWN",
    status: 404,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "There is no lease with that token",
    help: "Send the token as it came with the message or effect; tokens are forgotten some time after it is settled.",
};

pub(super) const MESSAGE_UNKNOWN: Entry = Entry {
    code: "MESSAGE_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "There is no message at that place",
    help: "Check partition and offset; messages are dropped when every group is through with them or retention says so.",
};

pub(super) const EFFECT_UNKNOWN: Entry = Entry {
    code: "EFFECT_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "There is no effect with that scope and key",
    help: "Check tenant, scope and key; finished effects are forgotten after their ttl_ms, and begin \
           starts a new one.",
};

pub(super) const OUTPUT_UNKNOWN: Entry = Entry {
    code: "OUTPUT_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "There is no such output",
    help: "Check dataset, version and partition key; list /v2/outputs to see what is there, and cut over \
           before reading current.",
};

pub(super) const RUN_UNKNOWN: Entry = Entry {
    code: "RUN_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "There is no run of that name",
    help: "A run is forgotten when nothing has happened in it for run_ttl_ms; check the run_id or list /v2/runs.",
};

pub(super) const COMMIT_UNKNOWN: Entry = Entry {
    code: "COMMIT_UNKNOWN",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "No commit under that key is remembered",
    help: "It was not done, is not done yet, or is forgotten (commit_ttl_ms); sending it again with the same key is safe.",
};

pub(super) const ENTITY_UNKNOWN: Entry = Entry {
    code: "ENTITY_UNKNOWN",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "No entity has that name",
    help: "Check the name and the tenant_id; an entity that was never raised, or is removed, has version 0.",
};

pub(super) const ENDPOINT_UNKNOWN: Entry = Entry {
    code: "ENDPOINT_UNKNOWN",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "There is no such endpoint",
    help: "Check the name against `driftq endpoint list`; `driftq endpoint put` makes one.",
};

pub(super) const JOB_UNKNOWN: Entry = Entry {
    code: "JOB_UNKNOWN",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "There is no job of that name",
    help: "Jobs are forgotten some time after they end, and when the server restarts.",
};

pub(super) const FOREIGN_ORIGIN: Entry = Entry {
    code: "FOREIGN_ORIGIN",
    status: 403,
    v1_code: "PERMISSION_DENIED",
    v1_status: 403,
    retryable: false,
    title: "A web page of another origin may not ask this server",
    help: "Name the page's origin in allowed_origins if it is yours; programs that are no browsers send no Origin.",
};

pub(super) const FOREIGN_HOST: Entry = Entry {
    code: "FOREIGN_HOST",
    status: 403,
    v1_code: "PERMISSION_DENIED",
    v1_status: 403,
    retryable: false,
    title: "This server does not go by the name that was asked for",
    help: "Name the host in host_names if it is the server's; an IP address, localhost and names without a dot always work.",
};

pub(super) const NOT_FOUND: Entry = Entry {
    code: "NOT_FOUND",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "There is nothing at this path",
    help: "Check the path; calls begin with /v1 or /v2, metrics are at /metrics.",
};

pub(super) const METHOD_NOT_ALLOWED: Entry = Entry {
    code: "METHOD_NOT_ALLOWED",
    status: 405,
    v1_code: "METHOD_NOT_ALLOWED",
    v1_status: 405,
    retryable: false,
    title: "This path does not take this method",
    help: "The Allow header lists the methods that it takes.",
};

pub(super) const REQUEST_TIMEOUT: Entry = Entry {
    code: "REQUEST_TIMEOUT",
    status: 408,
    v1_code: "REQUEST_TIMEOUT",
    v1_status: 408,
    retryable: true,
    title: "The body did not arrive in time",
    help: "Nothing was done; send the request again, or send less at once.",
};

pub(super) const NOT_OWNER: Entry = Entry {
    code: "NOT_OWNER",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "Another owner holds the message",
    help: "The lease lapsed and a newer attempt has started, or the owner differs from the one that consumed it; \
           give this attempt up.",
};

pub(super) const NOT_IN_FLIGHT: Entry = Entry {
    code: "NOT_IN_FLIGHT",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The message is not on loan to this group",
    help: "Check topic, group, partition and offset; after a restart of the broker, wait for the redelivery.",
};

pub(super) const STALE_LEASE: Entry = Entry {
    code: "STALE_LEASE",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The lease is no longer valid",
    help: "A newer attempt has started, or the message or effect is settled; give this attempt up, and extend or \
           renew the lease sooner next time.",
};

pub(super) const SETTINGS_DIFFER: Entry = Entry {
    code: "SETTINGS_DIFFER",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The topic exists with other settings",
    help: "The detail names the difference; change settings with PATCH, which partitions do not allow.",
};

pub(super) const TENANT_DIFFERS: Entry = Entry {
    code: "TENANT_DIFFERS",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The topic belongs to another tenant",
    help: "A topic with a tenant takes no messages of others: leave tenant_id out, or send to a topic of that tenant.",
};

pub(super) const KEY_IN_FLIGHT: Entry = Entry {
    code: "KEY_IN_FLIGHT",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: true,
    title: "An operation with this idempotency key is under way",
    help: "Wait for the first one to end; sending the same key again is then answered with its outcome.",
};

pub(super) const EFFECT_RUNNING: Entry = Entry {
    code: "EFFECT_RUNNING",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: true,
    title: "The effect is being carried out",
    help: "Wait until its holder finishes it or its lease lapses, then resolve it; see lease_expires_at of \
           the effect.",
};

pub(super) const EFFECT_FINISHED: Entry = Entry {
    code: "EFFECT_FINISHED",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The effect has its final outcome",
    help: "What succeeded or failed for good never changes; begin replays the outcome, and a new key is a \
           new effect.",
};

pub(super) const ATTEMPTS_EXHAUSTED: Entry = Entry {
    code: "ATTEMPTS_EXHAUSTED",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The effect has used up its attempts",
    help: "Find out what happened and resolve the effect; failed_retryable grants one more attempt.",
};

pub(super) const OUTPUT_MODE_DIFFERS: Entry = Entry {
    code: "OUTPUT_MODE_DIFFERS",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The output was begun in the other mode",
    help: "A partition key of a version is either replaced or appended to; use the mode it has, or another version.",
};

pub(super) const VERSION_DIFFERS: Entry = Entry {
    code: "VERSION_DIFFERS",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "Another version is current",
    help: "Read the dataset to see what is current and what it can go back to, decide again, and name that version.",
};

pub(super) const VERSION_IN_USE: Entry = Entry {
    code: "VERSION_IN_USE",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The version is the current one",
    help: "Cut over to another version or roll back first; then it can be deleted.",
};

pub(super) const VERSION_SEALED: Entry = Entry {
    code: "VERSION_SEALED",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The version is sealed",
    help: "Readers have seen the version, or a caller sealed it: nothing moves in it any more; write a new version.",
};

pub(super) const PRECONDITION_FAILED: Entry = Entry {
    code: "PRECONDITION_FAILED",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "An entity has another version than was expected",
    help: "Another caller was there before: read again what the entity stands for, decide anew, and expect the version \
           that the problem names.",
};

pub(super) const LIMIT_REACHED: Entry = Entry {
    code: "LIMIT_REACHED",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "A limit of this broker is reached",
    help: "The detail names the limit; it is a setting of the server.",
};

pub(super) const BODY_TOO_LARGE: Entry = Entry {
    code: "BODY_TOO_LARGE",
    status: 413,
    v1_code: "PAYLOAD_TOO_LARGE",
    v1_status: 413,
    retryable: false,
    title: "The body is larger than the server takes",
    help: "Keep large payloads elsewhere and send a reference, or raise the server's limit.",
};

pub(super) const RESULT_TOO_LARGE: Entry = Entry {
    code: "RESULT_TOO_LARGE",
    status: 413,
    v1_code: "PAYLOAD_TOO_LARGE",
    v1_status: 413,
    retryable: false,
    title: "The result is larger than the server keeps",
    help: "Keep large results elsewhere and finish with a reference, or raise the server's effect_result_bytes_max.",
};

pub(super) const URL_TOO_LONG: Entry = Entry {
    code: "URL_TOO_LONG",
    status: 414,
    v1_code: "URI_TOO_LONG",
    v1_status: 414,
    retryable: false,
    title: "The URL is longer than the server takes",
    help: "Send the values as a JSON body instead of in the query.",
};

pub(super) const KEY_REUSED: Entry = Entry {
    code: "KEY_REUSED",
    status: 422,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The idempotency key was used for another request",
    help: "A key stands for one request only; use a new key for a new request.",
};

pub(super) const UNSUPPORTED_MEDIA_TYPE: Entry = Entry {
    code: "UNSUPPORTED_MEDIA_TYPE",
    status: 415,
    v1_code: "UNSUPPORTED_MEDIA_TYPE",
    v1_status: 415,
    retryable: false,
    title: "This call does not take that content type",
    help: "Send JSON with Content-Type: application/json, or many messages as application/x-ndjson.",
};

pub(super) const QUOTA_EXCEEDED: Entry = Entry {
    code: "QUOTA_EXCEEDED",
    status: 429,
    v1_code: "RESOURCE_EXHAUSTED",
    v1_status: 429,
    retryable: true,
    title: "A quota of the key is used up",
    help: "`reason` names the quota. Come back after the given time, or ask whoever made the key for more.",
};

pub(super) const OVERLOADED: Entry = Entry {
    code: "OVERLOADED",
    status: 429,
    v1_code: "RESOURCE_EXHAUSTED",
    v1_status: 429,
    retryable: true,
    title: "More work is waiting than may wait",
    help: "Try again after the given time; if it persists, consumers are too slow or too few.",
};

// 503 and not 507, because existing clients retry 503 and give up on 507, and a full disk is often emptied soon.
pub(super) const DISK_FULL: Entry = Entry {
    code: "DISK_FULL",
    status: 503,
    v1_code: "UNAVAILABLE",
    v1_status: 503,
    retryable: true,
    title: "The broker's disk is full",
    help: "New messages are refused until space returns; reading and acking go on, and no restart is needed.",
};

pub(super) const ROUTER_REFUSED: Entry = Entry {
    code: "ROUTER_REFUSED",
    status: 503,
    v1_code: "UNAVAILABLE",
    v1_status: 503,
    retryable: true,
    title: "The router has no good answer",
    help: "The router failed or took too long, and this server refuses what it cannot route; try again later.",
};

pub(super) const UNAVAILABLE: Entry = Entry {
    code: "UNAVAILABLE",
    status: 503,
    v1_code: "UNAVAILABLE",
    v1_status: 503,
    retryable: true,
    title: "The broker cannot answer now",
    help: "It is starting, stopping, holds as much for its clients as it may, or its log has failed; the detail says which.",
};

pub(super) const INTERNAL: Entry = Entry {
    code: "INTERNAL",
    status: 500,
    v1_code: "INTERNAL",
    v1_status: 500,
    retryable: true,
    title: "The server made a mistake",
    help: "Report it with the X-Request-Id of the answer; the server's log has a line with the same id.",
};
