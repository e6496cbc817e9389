//! Every knob of the server in one table.

use std::time::Duration;

use driftq_api::units;
use driftq_engine::WriteMode;
use tracing::level_filters::LevelFilter;

use super::{
    LogFormat, Profile, exposure, front,
    knob::{self, Knob, LIST, SWITCH},
    log,
    shapes::{NONE, fit, size_within},
    traces,
};
use crate::router::{check_url, parse_on_error, parse_topics, show_on_error, show_topics};

/// hyper does not work with less room for a head.
const HEAD_BYTES_LEAST: u64 = 8 << 10;
/// The log takes no other segments.
const SEGMENT_BYTES_LEAST: u64 = 4 << 10;
const SEGMENT_BYTES_MOST: u64 = 1 << 30;
const SEGMENT_BYTES_STEP: u32 = 64;
/// The engine takes no larger messages: they have to fit into one batch with others.
const MESSAGE_BYTES_MOST: u64 = 40 << 20;
/// A worker with a larger result stores a pointer to it instead.
const RESULT_BYTES_MOST: u64 = 4 << 20;
/// What one request writes has to fit into one batch of the log.
const BODY_BYTES_MOST: u64 = driftq_engine::core::INPUT_BYTES_MAX as u64;

pub(super) const SERVER: &str = "Server";
const DELIVERY: &str = "Delivery";
const RETENTION: &str = "Retention and idempotency";
const EFFECTS: &str = "Effects, commits, outputs and runs";
const LIMITS: &str = "Limits";
const HTTP: &str = "HTTP";
const STORAGE: &str = "Storage";
const ROUTER: &str = "Router";

/// All of them, in the order of `--help` and of `driftq config check`.
// Three lines per entry: rustfmt would put every part on a line of its own.
#[rustfmt::skip]
pub static KNOBS: &[Knob] = &[
    Knob {
        name: "listen",
        flag: "listen",
        env: "DRIFTQ_LISTEN",
        heading: SERVER,
        help: "Address to listen on; port 0 lets the system choose one",
        value: "ADDR",
        get: |config| config.listen.clone(),
        set: |config, text| {
            let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.and_then(|port| port.parse::<u16>().ok()).is_none() {
                return Err(format!("`{text}` is not host:port, for example 127.0.0.1:8080"));
            }
            text.clone_into(&mut config.listen);
            Ok(())
        },
    },
    Knob {
        name: "keys",
        flag: "keys",
        env: "DRIFTQ_KEYS",
        heading: SERVER,
        help: "Who is served: off (anybody who can connect) or required (only who shows a key)",
        value: "WHO",
        get: |config| if config.http.keys_required { "required" } else { "off" }.to_owned(),
        set: |config, text| {
            config.http.keys_required = match text {
                "required" => true,
                "off" => false,
                _ => return Err(format!("`{text}` is neither off nor required")),
            };
            Ok(())
        },
    },
    Knob {
        name: "root_key_file",
        flag: "root-key-file",
        env: "DRIFTQ_ROOT_KEY_FILE",
        heading: SERVER,
        help: "File with the root key, such as a mounted secret; else the one of `driftq key create --root`",
        value: "FILE",
        get: |config| config.root_key_file.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        set: |config, text| {
            config.root_key_file = (!text.is_empty()).then(|| text.into());
            Ok(())
        },
    },
    Knob {
        name: "data",
        flag: "data",
        env: "DRIFTQ_DATA",
        heading: SERVER,
        help: "Directory that holds the log; created if it is not there, used by one server at a time",
        value: "DIR",
        get: |config| config.data.display().to_string(),
        set: |config, text| {
            if text.is_empty() {
                return Err("the path is empty".to_owned());
            }
            config.data = text.into();
            Ok(())
        },
    },
    Knob {
        name: "ephemeral",
        flag: "ephemeral",
        env: "DRIFTQ_EPHEMERAL",
        heading: SERVER,
        help: "Keep everything in memory: fast, and gone when the server stops",
        value: SWITCH,
        get: |config| config.ephemeral.to_string(),
        set: |config, text| {
            config.ephemeral = exposure::switch(text)?;
            Ok(())
        },
    },
    log::LOG,
    log::LOG_SCHEMA,
    log::LOG_CLUSTER,
    log::NODE_URL,
    Knob {
        name: "profile",
        flag: "profile",
        env: "DRIFTQ_PROFILE",
        heading: SERVER,
        help: "Set of defaults to start from: default, or v1-dev for the small limits of the v1 specification",
        value: "PROFILE",
        get: |config| match config.profile {
            Profile::Default => "default".to_owned(),
            Profile::V1Dev => "v1-dev".to_owned(),
        },
        set: |config, text| {
            config.profile = knob::profile(text)?;
            Ok(())
        },
    },
    Knob {
        name: "log_format",
        flag: "log-format",
        env: "DRIFTQ_LOG_FORMAT",
        heading: SERVER,
        help: "Shape of log lines on stderr: text or json",
        value: "FORMAT",
        get: |config| match config.log_format {
            LogFormat::Text => "text".to_owned(),
            LogFormat::Json => "json".to_owned(),
        },
        set: |config, text| {
            config.log_format = match text {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err(format!("`{text}` is neither text nor json")),
            };
            Ok(())
        },
    },
    Knob {
        name: "log_level",
        flag: "log-level",
        env: "DRIFTQ_LOG_LEVEL",
        heading: SERVER,
        help: "Which log lines are written: off, error, warn, info, debug, trace, or a filter per module",
        value: "LEVEL",
        get: |config| config.log_level.clone(),
        set: |config, text| {
            text.parse::<tracing_subscriber::filter::Targets>().map_err(|error| format!("`{text}`: {error}"))?;
            // To the filter a bare word is a module, and no level is all of them: a slip of the finger would silence
            // everything else, or nothing.
            let level = |part: &str| part.rsplit_once('=').map_or(part, |(_, level)| level).trim().to_owned();
            let is_level = |word: &String| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
            if let Some(word) = text.split(',').map(level).find(|word| !is_level(word)) {
                return Err(format!("`{word}` is none of off, error, warn, info, debug, trace; a module reads driftq_engine=debug"));
            }
            text.clone_into(&mut config.log_level);
            Ok(())
        },
    },
    duration! { "stop_grace_ms", "stop-grace-ms", "DRIFTQ_STOP_GRACE_MS",
        SERVER, engine.stop_grace,
        "How long a graceful stop waits for open streams to end" },
    duration! { "drain_timeout_ms", "drain-timeout-ms", "DRIFTQ_DRAIN_TIMEOUT_MS",
        SERVER, http.drain_timeout,
        "How long a graceful stop waits for connections to finish what they began" },
    front::HOST_NAMES,
    front::ALLOWED_ORIGINS,
    front::ISSUER,
    front::TLS_CERT,
    front::TLS_KEY,
    front::TLS_CLIENT_CA,
    front::TLS_CLIENT,
    front::BEHIND_PROXY,
    amount! { "in_flight_max", "in-flight-max", "DRIFTQ_IN_FLIGHT_MAX",
        DELIVERY, count, 1, engine.settings.in_flight_max,
        "Unacked deliveries at once per topic, group and partition" },
    amount! { "lease_ms_max", "lease-ms-max", "DRIFTQ_LEASE_MS_MAX",
        DELIVERY, millis, 1, engine.settings.lease_ms_max,
        "Longest lease that a reader may ask for" },
    amount! { "retry_max_attempts", "retry-max-attempts", "DRIFTQ_RETRY_MAX_ATTEMPTS",
        DELIVERY, count, 0, engine.settings.retry.max_attempts,
        "Deliveries before a message becomes a dead letter, for /v2 messages and topics without a policy; 0 for no limit" },
    amount! { "retry_backoff_ms", "retry-backoff-ms", "DRIFTQ_RETRY_BACKOFF_MS",
        DELIVERY, millis, 0, engine.settings.retry.backoff_ms,
        "Wait before the first retry of such a message; it doubles with each further one, and chance takes any part of it" },
    amount! { "retry_max_backoff_ms", "retry-max-backoff-ms", "DRIFTQ_RETRY_MAX_BACKOFF_MS",
        DELIVERY, millis, 0, engine.settings.retry.max_backoff_ms,
        "Longest wait between two attempts of such a message" },
    amount! { "stream_credit", "stream-credit", "DRIFTQ_STREAM_CREDIT",
        DELIVERY, count, 1, engine.stream_credit,
        "Messages handed to one stream before its socket has taken them" },
    amount! { "group_expiry_ms", "group-expiry-ms", "DRIFTQ_GROUP_EXPIRY_MS",
        RETENTION, millis, 1, engine.settings.group_expiry_ms,
        "A group without readers and acks for this long is forgotten and no longer holds messages back" },
    optional! { "retention_ms", "retention-ms", "DRIFTQ_RETENTION_MS",
        RETENTION, millis, engine.settings.retention_ms,
        "Drop messages older than this, read or not; none keeps them until every group has acked" },
    optional! { "retention_bytes", "retention-bytes", "DRIFTQ_RETENTION_BYTES",
        RETENTION, bytes, engine.settings.retention_bytes,
        "Drop the oldest messages beyond this many payload bytes per partition; none for no such limit" },
    amount! { "kept_messages_max", "kept-messages-max", "DRIFTQ_KEPT_MESSAGES_MAX",
        RETENTION, count, 1, engine.settings.kept_messages_max,
        "Messages kept per partition after every group is done with them, in topics with keep_ms or keep_bytes" },
    amount! { "dead_letters_max", "dead-letters-max", "DRIFTQ_DEAD_LETTERS_MAX",
        RETENTION, count, 1, engine.settings.dead_letters_max,
        "Dead letters kept per partition of a dead-letter topic; beyond it the oldest goes" },
    amount! { "idempotency_ttl_ms", "idempotency-ttl-ms", "DRIFTQ_IDEMPOTENCY_TTL_MS",
        RETENTION, millis, 1, engine.settings.idempotency_ttl_ms,
        "How long an idempotency key is remembered" },
    amount! { "idempotency_records_max", "idempotency-records-max", "DRIFTQ_IDEMPOTENCY_RECORDS_MAX",
        RETENTION, count, 1, engine.settings.idempotency_records_max,
        "Idempotency keys remembered at once" },
    amount! { "audit_keep_ms", "audit-keep-ms", "DRIFTQ_AUDIT_KEEP_MS",
        RETENTION, millis, 1, engine.settings.audit_keep_ms,
        "How long the audit tells of what was done" },
    amount! { "audit_keep_bytes", "audit-keep-bytes", "DRIFTQ_AUDIT_KEEP_BYTES",
        RETENTION, bytes, 1, engine.settings.audit_keep_bytes,
        "Memory that entries of the audit may take; the oldest go first" },
    amount! { "effect_lease_ms", "effect-lease-ms", "DRIFTQ_EFFECT_LEASE_MS",
        EFFECTS, millis, 1, engine.settings.effect_lease_ms_default,
        "How long an effect is on loan, for callers that do not say" },
    amount! { "effect_ttl_ms", "effect-ttl-ms", "DRIFTQ_EFFECT_TTL_MS",
        EFFECTS, millis, 1, engine.settings.effect_ttl_ms_default,
        "How long the outcome of an effect is remembered, for callers that do not say" },
    amount! { "effects_max", "effects-max", "DRIFTQ_EFFECTS_MAX",
        EFFECTS, count, 1, engine.settings.effects_max,
        "Effects remembered at once before new ones get 429" },
    knob!(
        "effect_result_bytes_max",
        "effect-result-bytes-max",
        "DRIFTQ_EFFECT_RESULT_BYTES_MAX",
        EFFECTS,
        "Largest outcome of an effect: code, headers, body and error together, at most 4MiB",
        unit!(bytes).0,
        |config| units::show_bytes(u64::from(config.engine.settings.effect_result_bytes_max)),
        |config, text| {
            config.engine.settings.effect_result_bytes_max = size_within(text, 1, RESULT_BYTES_MOST)?;
            Ok(())
        }
    ),
    amount! { "commit_ttl_ms", "commit-ttl-ms", "DRIFTQ_COMMIT_TTL_MS",
        EFFECTS, millis, 1, engine.settings.commit_ttl_ms,
        "How long a commit is remembered, for callers that did not hear the answer" },
    amount! { "commits_max", "commits-max", "DRIFTQ_COMMITS_MAX",
        EFFECTS, count, 1, engine.settings.commits_max,
        "Commits remembered at once; the oldest go first" },
    amount! { "outputs_max", "outputs-max", "DRIFTQ_OUTPUTS_MAX",
        EFFECTS, count, 1, engine.settings.outputs_max,
        "Output pointers kept" },
    amount! { "output_bytes_max", "output-bytes-max", "DRIFTQ_OUTPUT_BYTES_MAX",
        EFFECTS, bytes, 1, engine.settings.output_bytes_max,
        "Memory that output pointers may take" },
    amount! { "entities_max", "entities-max", "DRIFTQ_ENTITIES_MAX",
        EFFECTS, count, 1, engine.settings.entities_max,
        "Entities whose versions are remembered" },
    amount! { "run_ttl_ms", "run-ttl-ms", "DRIFTQ_RUN_TTL_MS",
        EFFECTS, millis, 1, engine.settings.run_ttl_ms,
        "A run in which nothing has happened for this long is forgotten" },
    amount! { "run_entries_max", "run-entries-max", "DRIFTQ_RUN_ENTRIES_MAX",
        EFFECTS, count, 1, engine.settings.run_entries_max,
        "Messages and effects listed for runs; the oldest run goes first" },
    amount! { "partition_messages_max", "partition-messages-max", "DRIFTQ_PARTITION_MESSAGES_MAX",
        LIMITS, count, 1, engine.settings.partition_messages_max,
        "Messages that wait in one partition before producers get 429" },
    amount! { "partition_bytes_max", "partition-bytes-max", "DRIFTQ_PARTITION_BYTES_MAX",
        LIMITS, bytes, 1, engine.settings.partition_bytes_max,
        "Key and value bytes that wait in one partition before producers get 429" },
    amount! { "topics_max", "topics-max", "DRIFTQ_TOPICS_MAX",
        LIMITS, count, 1, engine.settings.topics_max,
        "Topics" },
    amount! { "partitions_max", "partitions-max", "DRIFTQ_PARTITIONS_MAX",
        LIMITS, count, 1, engine.settings.partitions_max,
        "Partitions of one topic" },
    amount! { "groups_max", "groups-max", "DRIFTQ_GROUPS_MAX",
        LIMITS, count, 1, engine.settings.groups_max,
        "Consumer groups of one topic" },
    amount! { "consumers_max", "consumers-max", "DRIFTQ_CONSUMERS_MAX",
        LIMITS, count, 1, engine.settings.consumers_max,
        "Open streams" },
    amount! { "input_queue_max", "input-queue-max", "DRIFTQ_INPUT_QUEUE_MAX",
        LIMITS, count, 1, engine.input_queue_max,
        "Requests that wait for the broker's turn before new ones get 429" },
    amount! { "input_queue_bytes_max", "input-queue-bytes-max", "DRIFTQ_INPUT_QUEUE_BYTES_MAX",
        LIMITS, bytes, 1, engine.input_queue_bytes_max,
        "Payload bytes of those requests" },
    knob!(
        "message_bytes_max",
        "message-bytes-max",
        "DRIFTQ_MESSAGE_BYTES_MAX",
        LIMITS,
        "Largest message, at most 40MiB",
        unit!(bytes).0,
        |config| units::show_bytes(config.engine.message_bytes_max as u64),
        |config, text| {
            config.engine.message_bytes_max = size_within(text, 1, MESSAGE_BYTES_MOST)?;
            Ok(())
        }
    ),
    amount! { "connections_max", "connections-max", "DRIFTQ_CONNECTIONS_MAX",
        HTTP, count, 1, http.connections_max,
        "Open connections; beyond it the idlest makes room for a new one. Fewer if ulimit -n is low" },
    amount! { "head_bytes_max", "head-bytes-max", "DRIFTQ_HEAD_BYTES_MAX",
        HTTP, bytes, HEAD_BYTES_LEAST, http.head_bytes_max,
        "Request line with all headers" },
    amount! { "url_bytes_max", "url-bytes-max", "DRIFTQ_URL_BYTES_MAX",
        HTTP, bytes, 1, http.url_bytes_max,
        "URL; beyond it the answer is 414" },
    knob!(
        "body_bytes_max",
        "body-bytes-max",
        "DRIFTQ_BODY_BYTES_MAX",
        HTTP,
        "Request body; beyond it the answer is 413. At most 24MiB: what one request writes fits into one batch of the log",
        unit!(bytes).0,
        |config| units::show_bytes(config.http.body_bytes_max as u64),
        |config, text| {
            config.http.body_bytes_max = size_within(text, 1, BODY_BYTES_MOST)?;
            Ok(())
        }
    ),
    amount! { "edge_bytes_max", "edge-bytes-max", "DRIFTQ_EDGE_BYTES_MAX",
        HTTP, bytes, 1, http.edge_bytes_max,
        "Bodies, answers and lines of streams that are held for all clients together; beyond it they wait, then the answer is 503. What has at most 8KiB is not counted" },
    duration! { "head_timeout_ms", "head-timeout-ms", "DRIFTQ_HEAD_TIMEOUT_MS",
        HTTP, http.head_timeout,
        "From the first byte of a request to the end of its headers" },
    duration! { "body_timeout_ms", "body-timeout-ms", "DRIFTQ_BODY_TIMEOUT_MS",
        HTTP, http.body_timeout,
        "From the end of the headers to the end of the body" },
    duration! { "answer_timeout_ms", "answer-timeout-ms", "DRIFTQ_ANSWER_TIMEOUT_MS",
        HTTP, http.answer_timeout,
        "A connection that takes nothing of its answer for this long is closed" },
    duration! { "idle_timeout_ms", "idle-timeout-ms", "DRIFTQ_IDLE_TIMEOUT_MS",
        HTTP, http.idle_timeout,
        "A connection without a request is closed after this long, and so is one that takes nothing of its stream" },
    duration! { "heartbeat_ms", "heartbeat-ms", "DRIFTQ_HEARTBEAT_MS",
        HTTP, http.heartbeat,
        "An idle stream carries a bare newline this often" },
    knob!(
        "segment_bytes",
        "segment-bytes",
        "DRIFTQ_SEGMENT_BYTES",
        STORAGE,
        "Size of one log file, 4KiB to 1GiB",
        unit!(bytes).0,
        |config| units::show_bytes(u64::from(config.engine.segment_bytes)),
        |config, text| {
            let size: u32 = size_within(text, SEGMENT_BYTES_LEAST, SEGMENT_BYTES_MOST)?;
            if !size.is_multiple_of(SEGMENT_BYTES_STEP) {
                return Err(format!("{size} is not a multiple of {SEGMENT_BYTES_STEP}"));
            }
            config.engine.segment_bytes = size;
            Ok(())
        }
    ),
    amount! { "snapshot_every_bytes", "snapshot-every-bytes", "DRIFTQ_SNAPSHOT_EVERY_BYTES",
        STORAGE, bytes, 1, engine.snapshot_every_bytes,
        "Write a snapshot after this much log (or as much as the last one is large), so that a start has little to \
         replay; sooner if the log is in PostgreSQL or NATS, from where it takes longer to read" },
    Knob {
        name: "shards",
        flag: "shards",
        env: "DRIFTQ_SHARDS",
        heading: STORAGE,
        help: "Shards, each with a log and a deciding thread of its own, for machines with many cores; auto: as many as \
               the data directory has, one if it is new. There can be more later, never fewer",
        value: "COUNT",
        get: |config| match config.engine.shards {
            0 => "auto".to_owned(),
            count => count.to_string(),
        },
        set: |config, text| {
            config.engine.shards = match (text, text.parse()) {
                ("auto", _) => 0,
                (_, Ok(count @ 1..=driftq_engine::core::SHARDS_MAX)) => count,
                _ => return Err(format!("`{text}` is neither auto nor a number from 1 to 64")),
            };
            Ok(())
        },
    },
    Knob {
        name: "commit",
        flag: "commit",
        env: "DRIFTQ_COMMIT",
        heading: STORAGE,
        help: "Which thread writes and syncs: adaptive, thread or inline; every choice is equally durable",
        value: "WHO",
        get: |config| match config.engine.commit {
            WriteMode::Adaptive => "adaptive".to_owned(),
            WriteMode::Thread => "thread".to_owned(),
            WriteMode::Inline => "inline".to_owned(),
        },
        set: |config, text| {
            config.engine.commit = match text {
                "adaptive" => WriteMode::Adaptive,
                "thread" => WriteMode::Thread,
                "inline" => WriteMode::Inline,
                _ => return Err(format!("`{text}` is none of adaptive, thread, inline")),
            };
            Ok(())
        },
    },
    amount! { "payload_cache_bytes", "payload-cache-bytes", "DRIFTQ_PAYLOAD_CACHE_BYTES",
        STORAGE, bytes, 0, engine.payload_cache_bytes,
        "Memory for payloads that are likely to be read soon; everything else stays on disk" },
    knob!(
        "router_url", "router-url", "DRIFTQ_ROUTER_URL",
        ROUTER,
        "Ask this service, over HTTP, about every message before it is stored; none for no such service",
        "URL",
        |config| config.router.url.clone().unwrap_or_else(|| NONE.to_owned()),
        |config, text| {
            config.router.url = if text == NONE { None } else { Some(check_url(text)?) };
            Ok(())
        }
    ),
    knob!(
        "router_rules", "router-rules", "DRIFTQ_ROUTER_RULES",
        ROUTER,
        "Ask the rules in this TOML file instead; none for no rules",
        "FILE",
        |config| config.router.rules.as_ref().map_or_else(|| NONE.to_owned(), |path| path.display().to_string()),
        |config, text| {
            config.router.rules = (text != NONE).then(|| text.into());
            Ok(())
        }
    ),
    duration! { "router_timeout_ms", "router-timeout-ms", "DRIFTQ_ROUTER_TIMEOUT_MS",
        ROUTER, router.timeout,
        "Longest time that a producer waits for the router" },
    knob!(
        "router_on_error", "router-on-error", "DRIFTQ_ROUTER_ON_ERROR",
        ROUTER,
        "What happens to a message that the router fails on: pass stores it unrouted, reject answers 503",
        "POLICY",
        |config| show_on_error(config.router.on_error).to_owned(),
        |config, text| {
            config.router.on_error = parse_on_error(text)?;
            Ok(())
        }
    ),
    knob!(
        "router_topics", "router-topics", "DRIFTQ_ROUTER_TOPICS",
        ROUTER,
        "Topics that are routed: names, or beginnings with a star, separated by commas",
        LIST,
        |config| show_topics(&config.router.topics),
        |config, text| {
            config.router.topics = parse_topics(text)?;
            Ok(())
        }
    ),
    amount! { "router_concurrency_max", "router-concurrency-max", "DRIFTQ_ROUTER_CONCURRENCY_MAX",
        ROUTER, count, 1, router.concurrency_max,
        "Questions to the router under way at once" },
    amount! { "router_batch_max", "router-batch-max", "DRIFTQ_ROUTER_BATCH_MAX",
        ROUTER, count, 1, router.batch_max,
        "Messages in one question at most, if the service says that it takes several" },
    amount! { "router_cache_entries_max", "router-cache-entries-max", "DRIFTQ_ROUTER_CACHE_ENTRIES_MAX",
        ROUTER, count, 0, router.cache_entries_max,
        "Decisions that are remembered where the router allows it; 0 for none" },
    amount! { "router_breaker_failures_max", "router-breaker-failures-max", "DRIFTQ_ROUTER_BREAKER_FAILURES_MAX",
        ROUTER, count, 1, router.breaker.failures_max,
        "The router is left alone after this many failures in a row" },
    knob!(
        "router_breaker_failure_percent_max",
        "router-breaker-failure-percent-max",
        "DRIFTQ_ROUTER_BREAKER_FAILURE_PERCENT_MAX",
        ROUTER,
        "It is also left alone when this share of the questions in a window failed, 1 to 100",
        "PERCENT",
        |config| config.router.breaker.failure_percent_max.to_string(),
        |config, text| {
            let percent: u32 = fit(units::count(text)?, 1)?;
            if percent > 100 {
                return Err(format!("{percent} percent is more than all"));
            }
            config.router.breaker.failure_percent_max = percent;
            Ok(())
        }
    ),
    amount! { "router_breaker_window_calls_min", "router-breaker-window-calls-min", "DRIFTQ_ROUTER_BREAKER_WINDOW_CALLS_MIN",
        ROUTER, count, 1, router.breaker.window_calls_min,
        "Questions that a window must have before that share means anything" },
    duration! { "router_breaker_window_ms", "router-breaker-window-ms", "DRIFTQ_ROUTER_BREAKER_WINDOW_MS",
        ROUTER, router.breaker.window,
        "Length of a window" },
    duration! { "router_breaker_cooldown_ms", "router-breaker-cooldown-ms", "DRIFTQ_ROUTER_BREAKER_COOLDOWN_MS",
        ROUTER, router.breaker.cooldown,
        "How long the router is left alone before one question is tried again" },
    traces::OTLP_ENDPOINT,
    traces::TRACE_SAMPLE,
];
