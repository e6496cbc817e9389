//! Bodies and queries of `/v1`.
#![no_main]

use driftq_api::Query;
use driftq_api::v1::{Ack, Consume, CreateTopic, Nack, Produce, mended};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mended = mended(bytes);
    let body = mended.as_deref().unwrap_or(bytes);
    let _ = Produce::from_json(body);
    let _ = CreateTopic::from_json(body);
    let _ = Consume::from_json(body);
    let _ = Ack::from_json(body);
    let _ = Nack::from_json(body);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(query) = Query::parse_v1(text) else { return };
    let _ = Produce::from_query(query.clone());
    let _ = CreateTopic::from_query(query.clone());
    let _ = Consume::from_query(query.clone());
    let _ = Ack::from_query(query.clone());
    let _ = Nack::from_query(query);
});
