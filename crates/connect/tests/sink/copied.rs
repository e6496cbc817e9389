//! What `COPY` would bend, or is not for.

use serde_json::json;

use crate::bed::Bed;

#[tokio::test]
async fn texts_that_mean_something_to_copy_arrive_as_they_are() {
    let bed = Bed::new().await;
    let texts = ["\\N", "\\.", "a\tb\nc\rd\\", "\\x41", "", "é\\té", "\u{8}\u{b}\u{c}"];
    bed.produce_json(texts.iter().enumerate().map(|(id, text)| json!({"id": id, "text": text}))).await;
    bed.produce_json([json!({"id": texts.len(), "text": null})]).await;
    let sink = "mode = \"append\"\ncolumns = [{ name = \"id\", from = \"/id\", type = \"bigint\" }, \
         { name = \"text\", from = \"/text\", type = \"text\" }]\n";
    assert_eq!(bed.run(sink).await.rows, 8);
    let expected: Vec<String> =
        texts.iter().map(|text| text.bytes().map(|byte| format!("{byte:02x}")).collect()).collect();
    assert_eq!(bed.sql("SELECT text IS NULL FROM orders WHERE id = 7"), "t");
    let found =
        bed.sql("SELECT encode(convert_to(text, 'UTF8'), 'hex') || '.' FROM orders WHERE id < 7 ORDER BY id");
    let found: Vec<&str> = found.lines().map(|line| line.trim_end_matches('.')).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn moments_outside_of_what_a_calendar_of_today_writes_arrive() {
    let bed = Bed::new().await;
    let moments = ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"];
    bed.produce_json(moments.iter().map(|at| json!({"at": at}))).await;
    let sink = "mode = \"append\"\ncolumns = [{ name = \"at\", from = \"/at\", type = \"timestamptz\" }]\n";
    assert_eq!(bed.run(sink).await.rows, 3);
    let found = bed.sql("SET TimeZone = 'UTC'; SELECT at FROM orders ORDER BY at");
    let expected = "0001-01-01 00:00:00+00 BC\n0001-12-31 00:01:00+00 BC\n10000-01-01 23:58:59.999999+00";
    assert_eq!(found, expected);
}

#[tokio::test]
async fn keys_that_are_written_differently_and_are_the_same_are_one_row() {
    let bed = Bed::new().await;
    bed.sql("CREATE TABLE orders (id numeric UNIQUE, n bigint)");
    bed.produce_json((0..40).map(|n| json!({"id": if n % 2 == 0 { "1" } else { "1.0" }, "n": n}))).await;
    let columns = "columns = [{ name = \"id\", from = \"/id\", type = \"numeric\", required = true }, \
         { name = \"n\", from = \"/n\", type = \"bigint\", required = true }]\n";
    let progress = bed.run(&format!("mode = \"insert\"\ndedupe_key = [\"id\"]\n{columns}")).await;
    assert_eq!((progress.rows, progress.dead), (40, 0));
    assert_eq!(bed.sql("SELECT id::bigint, count(*) FROM orders GROUP BY id"), "1|1");
}

#[tokio::test]
async fn new_rows_and_rows_that_are_there_come_in_one_batch() {
    let bed = Bed::new().await;
    let columns = "columns = [{ name = \"a\", from = \"/a\", type = \"bigint\", required = true }, \
         { name = \"b\", from = \"/b\", type = \"text\", required = true }, \
         { name = \"v\", from = \"/v\", type = \"integer\", required = true }]\n";
    let sink = format!("mode = \"upsert\"\ndedupe_key = [\"b\", \"a\"]\nversion = \"v\"\n{columns}");
    let row = |n: i64| json!({"a": n % 10, "b": format!("b{}", n % 3), "v": n});
    bed.produce_json((0..12).map(row)).await;
    bed.run(&sink).await;
    assert_eq!(bed.sql("SELECT count(*), sum(v) FROM orders"), "12|66");
    bed.produce_json((5..90).rev().map(row)).await;
    bed.run(&sink).await;
    // All thirty keys, each with its highest number.
    let newest: i64 = (60..90).sum();
    assert_eq!(bed.sql("SELECT count(*), sum(v) FROM orders"), format!("30|{newest}"));
    assert_eq!(bed.letters().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_table_with_a_rule_is_written_by_statements_that_rules_apply_to() {
    let bed = Bed::new().await;
    bed.sql(
        "CREATE TABLE orders (id bigint); \
         CREATE RULE positive AS ON INSERT TO orders WHERE NEW.id < 0 DO INSTEAD NOTHING",
    );
    bed.produce_json((-10..10).map(|id| json!({"id": id}))).await;
    bed.run("mode = \"append\"\ncolumns = [{ name = \"id\", from = \"/id\", type = \"bigint\" }]\n").await;
    assert_eq!(bed.sql("SELECT count(*), min(id) FROM orders"), "10|0");
}
