//! The router as this binary offers it: a brain behind HTTP, or rules in a file.
//!
//! # What a brain is asked
//!
//! `POST` to the configured URL with a JSON body. One message:
//! `{"topic": "orders", "message": {"key": "k", "value": "v", "envelope": {…}}}`; several, if the brain says that it
//! can: `{"topic": "orders", "messages": [{…}, {…}]}`. `topic` is the one that the producer named. `envelope` looks as
//! it does to consumers and is left out if there is none. A key or value that is not UTF-8 comes as `key_b64` or
//! `value_b64` (base64, padded). Of a value longer than [`VALUE_BYTES_MAX`] only the beginning comes, with
//! `"value_truncated": true` and its full length in `value_bytes`.
//!
//! # What a brain answers
//!
//! Status 200 and `{"label": "…", "target_topic": "…", "partition_override": 0, "meta": {"name": "text"}}`, where
//! everything but the label may be left out or null; for several messages `{"decisions": [{…}, null, …]}`, one each,
//! in their order. No opinion is `null`, `{}` or status 204. With `"cache": {"on": "key", "ttl_ms": 60000}` it
//! promises the same answer for every message to the same topic with the same key; `on` is `key`, `value`, `tenant`,
//! `label:NAME`, or a list of them (an empty list: whatever the message). Unknown fields are refused: a typing error
//! in `target_topic` must not go unnoticed.
//!
//! A brain that takes several messages says how many in a header of every answer, `DriftQ-Batch-Max: 64`. As long as
//! it does not, it is asked about one at a time.

mod answer;
mod config;
pub mod http;
pub mod question;

pub use config::{RouterConfig, build, check_url, parse_on_error, parse_topics, show_on_error, show_topics};
