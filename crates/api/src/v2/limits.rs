//! Every bound of `/v2` by name. The schemas repeat them as literals, and a test holds the two against each other.

/// Longest name of a topic, a group or an owner, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most partitions of a topic.
pub const PARTITIONS_MAX: u64 = 4096;
/// Largest offset: what fits the signed 64-bit numbers of most languages.
pub const OFFSET_MAX: u64 = i64::MAX as u64;
/// Largest count or size in bytes that a setting may have.
pub const COUNT_MAX: u64 = i64::MAX as u64;
/// Longest delay, backoff or retention: ten years of 366 days.
pub const DURATION_MS_MAX: u64 = 10 * 366 * 24 * 3600 * 1000;
/// Longest lease: seven days.
pub const LEASE_MS_MAX: u64 = 7 * 24 * 3600 * 1000;
/// Most attempts that a retry policy can name.
pub const ATTEMPTS_MAX: u64 = i32::MAX as u64;
/// Most deliveries that a topic may let one group hold.
pub const IN_FLIGHT_MAX: u64 = 1_000_000;

/// Most actions that a key names: each once.
pub const ACTIONS_MAX: usize = 8;
/// Most topics that a key names.
pub const KEY_TOPICS_MAX: usize = 100;
/// Most tenants that a key names.
pub const KEY_TENANTS_MAX: usize = 100;
/// Longest note on a key, in bytes.
pub const KEY_NOTE_BYTES_MAX: usize = 255;

/// Longest actor, action or outcome that the audit is asked for, in bytes.
pub const AUDIT_WORD_BYTES_MAX: usize = 64;
/// Longest target that the audit is asked for, in bytes.
pub const AUDIT_TARGET_BYTES_MAX: usize = 512;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// Longest run, step, tenant or idempotency key, in bytes.
pub const IDENTITY_BYTES_MAX: usize = 4096;
/// Longest hash of a request, in bytes.
pub const REQUEST_HASH_BYTES_MAX: usize = 256;
/// Highest priority; 0 is the lowest, and what a message has that names none.
pub const PRIORITY_MAX: u64 = 9;
/// Most labels of a message.
pub const LABELS_MAX: usize = 64;
/// Longest name of a label, in bytes.
pub const LABEL_NAME_BYTES_MAX: usize = 128;
/// Longest value of a label, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 1024;
/// Most messages of one produce call.
pub const BATCH_MESSAGES_MAX: usize = 10_000;

/// Most messages of one lease call.
pub const LEASE_MESSAGES_MAX: u64 = 1000;
/// Longest wait of a lease call.
pub const WAIT_MS_MAX: u64 = 60_000;
/// Longest name of a lease request, in bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Most unsettled messages of a stream.
pub const CREDIT_MAX: u64 = 10_000;
/// Unsettled messages of a stream that asks for no number.
pub const CREDIT_DEFAULT: u32 = 32;
/// Most leases of one settling call.
pub const SETTLEMENTS_MAX: usize = 1000;
/// Longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 128;
/// Longest text of a failure, in bytes.
pub const ERROR_BYTES_MAX: usize = 4096;

/// Most dead letters that one call can name one by one.
pub const LETTERS_MAX: usize = 1000;
/// Fastest rate of a redrive.
pub const RATE_PER_SECOND_MAX: u64 = 1_000_000;
/// Longest `Idempotency-Key` header, in bytes.
pub const IDEMPOTENCY_HEADER_BYTES_MAX: usize = 255;
/// Longest cursor, in bytes: the cursor of the longest name.
pub const CURSOR_BYTES_MAX: usize = 2 * NAME_BYTES_MAX;

/// Longest tenant of an effect, in bytes; it may be empty.
pub const EFFECT_TENANT_BYTES_MAX: usize = 255;
/// Longest scope of an effect, in bytes.
pub const EFFECT_SCOPE_BYTES_MAX: usize = 255;
/// Longest key of an effect, in bytes: as long as any key of a message may be.
pub const EFFECT_KEY_BYTES_MAX: usize = IDENTITY_BYTES_MAX;
/// Longest hash of what an effect is asked to do, in bytes.
pub const EFFECT_HASH_BYTES_MAX: usize = 255;
/// Longest run or step that an effect names itself, in bytes.
pub const EFFECT_LINEAGE_BYTES_MAX: usize = 255;
/// Longest name of a begin or reacquire call, in bytes.
pub const EFFECT_REQUEST_ID_BYTES_MAX: usize = 255;
/// Most attempts that an effect may be capped at.
pub const EFFECT_ATTEMPTS_MAX: u64 = 1_000_000;
/// Most headers of an outcome.
pub const HEADERS_MAX: usize = 64;
/// Longest name of a header, in bytes.
pub const HEADER_NAME_BYTES_MAX: usize = 255;
/// Longest value of a header, in bytes.
pub const HEADER_VALUE_BYTES_MAX: usize = 8192;
/// Longest reason for resolving an effect by hand, in bytes.
pub const WHY_BYTES_MAX: usize = 4096;

/// Most entities of which one begin or one commit expects something.
pub const EXPECTED_MAX: usize = 100;
/// Most effects that one call begins.
pub const EFFECTS_MAX: usize = 1000;
/// Most versions that one commit says were read.
pub const READS_MAX: usize = 100;
/// Most commits of one call.
pub const COMMITS_MAX: usize = 1000;
/// Most items in each list of a commit.
pub const COMMIT_ITEMS_MAX: usize = 1000;
/// Longest dataset, version, partition key or dedupe key of an output, in bytes.
pub const OUTPUT_NAME_BYTES_MAX: usize = 255;
/// Longest location of an output, in bytes.
pub const LOCATION_BYTES_MAX: usize = 2048;
/// Longest digest of an output, in bytes.
pub const DIGEST_BYTES_MAX: usize = 255;
/// Most cut-overs of a dataset that are remembered.
pub const CUT_OVERS_MAX: usize = 16;
/// Longest place in a list that a cursor can hold, in bytes: the longest run and some numbers.
pub const PLACE_BYTES_MAX: usize = IDENTITY_BYTES_MAX + 64;

/// Longest URL of an endpoint, or path of a file with a secret, in bytes.
pub const ENDPOINT_URL_BYTES_MAX: usize = 2048;
/// Longest description of an endpoint, in bytes.
pub const ENDPOINT_DESCRIPTION_BYTES_MAX: usize = 1024;
/// Most secrets that sign at the same time.
pub const ENDPOINT_SECRETS_MAX: usize = 4;
/// Longest secret, in bytes, encrypted or not.
pub const SECRET_BYTES_MAX: usize = 1024;
/// Most recipients of an e-mail.
pub const ENDPOINT_RECIPIENTS_MAX: usize = 50;
/// Most topics that are bound to an endpoint.
pub const ENDPOINT_TOPICS_MAX: usize = 16;
/// Most sends of an endpoint at a time, of one connector.
pub const ENDPOINT_CONCURRENCY_MAX: u64 = 64;
/// Most entries of a retry schedule.
pub const ENDPOINT_RETRIES_MAX: usize = 20;
/// Shortest time that a receiver has.
pub const DELIVERY_TIMEOUT_MS_MIN: u64 = 1000;
/// Longest time that a receiver has.
pub const DELIVERY_TIMEOUT_MS_MAX: u64 = 60_000;
/// Longest id of a delivery, in bytes.
pub const DELIVERY_ID_BYTES_MAX: usize = 255;
/// Longest reason for disabling an endpoint, in bytes.
pub const REASON_BYTES_MAX: usize = 1024;

/// Longest audience of a credential, in bytes.
pub const AUDIENCE_BYTES_MAX: usize = 512;
/// Longest time that a credential is good for.
pub const CREDENTIAL_TTL_MS_MAX: u64 = 3_600_000;
/// Longest credential, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 32_768;

/// Longest id of an export, in bytes: it is the name of a folder.
pub const EXPORT_ID_BYTES_MAX: usize = 128;
/// Longest query of an export, in bytes.
pub const EXPORT_STATEMENT_BYTES_MAX: usize = 65_536;
/// Most parameters of such a query.
pub const EXPORT_PARAMETERS_MAX: usize = 100;
/// Most rows of a part of an export that can be asked for.
pub const EXPORT_PART_ROWS_MAX: u64 = 100_000_000;
/// Most bytes of a part that can be asked for. An object store is given a part in one piece, from memory.
pub const EXPORT_PART_BYTES_MAX: u64 = 1 << 30;
