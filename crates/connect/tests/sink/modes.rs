//! Insert, upsert and append.

use serde_json::json;

use crate::bed::Bed;

const COLUMNS: &str = r#"columns = [
  { name = "id", from = "/id", type = "text", required = true },
  { name = "version", from = "/version", type = "bigint", required = true },
  { name = "note", from = "/note", type = "text" },
]
"#;

fn orders(rows: &[(&str, i64, &str)]) -> Vec<serde_json::Value> {
    rows.iter().map(|(id, version, note)| json!({"id": id, "version": version, "note": note})).collect()
}

#[tokio::test]
async fn insert_keeps_the_row_that_is_there() {
    let bed = Bed::new().await;
    let sink = format!("mode = \"insert\"\ndedupe_key = [\"id\"]\n{COLUMNS}");
    bed.produce_json(orders(&[("a", 1, "first"), ("b", 1, "x"), ("a", 2, "second")])).await;
    bed.run(&sink).await;
    bed.produce_json(orders(&[("a", 3, "third"), ("c", 1, "y")])).await;
    bed.run(&sink).await;
    assert_eq!(bed.sql("SELECT id, note FROM orders ORDER BY id"), "a|first\nb|x\nc|y");
    assert_eq!(bed.letters().await, Vec::<String>::new());
}

#[tokio::test]
async fn upsert_never_overwrites_what_is_newer_or_equal() {
    let bed = Bed::new().await;
    let sink = format!("mode = \"upsert\"\ndedupe_key = [\"id\"]\nversion = \"version\"\n{COLUMNS}");
    // In one batch: the newest counts, and of equals the first.
    bed.produce_json(orders(&[
        ("a", 2, "two"),
        ("a", 3, "three"),
        ("a", 1, "one"),
        ("b", 5, "x"),
        ("b", 5, "y"),
    ]))
    .await;
    bed.run(&sink).await;
    assert_eq!(bed.sql("SELECT * FROM orders ORDER BY id"), "a|3|three\nb|5|x");
    bed.produce_json(orders(&[("a", 2, "late"), ("b", 5, "equal"), ("c", 1, "new")])).await;
    bed.run(&sink).await;
    assert_eq!(bed.sql("SELECT * FROM orders ORDER BY id"), "a|3|three\nb|5|x\nc|1|new");
    bed.produce_json(orders(&[("a", 4, "four"), ("b", 6, "six")])).await;
    bed.run(&sink).await;
    assert_eq!(bed.sql("SELECT * FROM orders ORDER BY id"), "a|4|four\nb|6|six\nc|1|new");
}

#[tokio::test]
async fn append_writes_every_message_and_minds_a_key_only_if_there_is_one() {
    let bed = Bed::new().await;
    bed.produce_json(orders(&[("a", 1, "x"), ("a", 1, "x"), ("b", 1, "x")])).await;
    bed.run(&format!("mode = \"append\"\n{COLUMNS}")).await;
    assert_eq!(bed.sql("SELECT id, count(*) FROM orders GROUP BY id ORDER BY id"), "a|2\nb|1");

    let keyed = Bed::new().await;
    keyed.produce_json(orders(&[("a", 1, "x"), ("a", 2, "y"), ("b", 1, "x")])).await;
    let progress = keyed.run(&format!("mode = \"append\"\ndedupe_key = [\"id\"]\n{COLUMNS}")).await;
    assert_eq!(keyed.sql("SELECT id, note FROM orders ORDER BY id"), "a|x\nb|x");
    assert_eq!(progress.dead, 1);
    let letters = keyed.letters().await;
    assert!(letters.len() == 1 && letters[0].contains("duplicate key"), "{letters:?}");
}
