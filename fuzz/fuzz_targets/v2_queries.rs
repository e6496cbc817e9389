//! Queries, paths, cursors and times of `/v2`.
#![no_main]

use driftq_api::v2::{
    AuditQuery, BrowseQuery, EffectsQuery, LettersQuery, Operation, Page, Position, Section, StreamQuery,
    path_name, path_offset, path_partition, tenant_and_page, tenant_and_section,
};
use driftq_api::{Moment, Query};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = (Operation::find("GET", text), path_name("name", text), path_partition(text), path_offset(text));
    if let Some(moment) = Moment::parse(text) {
        assert!(Moment::parse(&moment.to_string()).is_some(), "what is written can be read");
    }
    if let Ok(position) = Position::from_cursor(text) {
        assert_eq!(position.cursor(), text, "a cursor has one form");
    }
    let Ok(query) = Query::parse(text) else { return };
    let _ = Page::from_query(&query);
    let _ = Section::from_query(query.clone());
    let _ = AuditQuery::from_query(query.clone());
    let _ = BrowseQuery::from_query(query.clone());
    let _ = EffectsQuery::from_query(query.clone());
    let _ = LettersQuery::from_query(query.clone());
    let _ = StreamQuery::from_query(query.clone());
    let _ = tenant_and_page(query.clone());
    let _ = tenant_and_section(query);
});
