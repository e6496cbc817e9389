//! Rows that are none become dead letters, and hold nobody up.

use driftq_client::{json, raw};
use serde_json::{Value, json as value};

use crate::bed::{Bed, GROUP, TOPIC};

const SINK: &str = r#"mode = "insert"
dedupe_key = ["id"]
columns = [
  { name = "id", from = "/id", type = "bigint", required = true },
  { name = "name", from = "/name", type = "text" },
  { name = "price", from = "/price", type = "numeric" },
  { name = "doc", from = "/doc", type = "jsonb" },
]
"#;

const TABLE: &str = "CREATE TABLE orders (id bigint UNIQUE, name varchar(10) CHECK (name <> 'forbidden'), \
     price numeric(10, 2), doc jsonb)";

#[tokio::test]
async fn one_bad_row_of_each_kind_leaves_the_rest_of_the_batch_alone() {
    let bed = Bed::new().await;
    bed.sql(TABLE);
    let mut messages: Vec<_> =
        (0..991).map(|id| json(&value!({"id": id, "name": "x", "price": 1.25}))).collect();
    let bad = [
        (raw("{\"id\": 1,"), "not JSON"),
        (raw("{\"name\": \"x\"}"), "column id is required"),
        (raw("{\"id\": \"x\"}"), "x is no integer"),
        (raw("{\"id\": 9223372036854775808}"), "too large"),
        (raw("{\"id\": 1, \"name\": \"a\\u0000\"}"), "NUL"),
        (raw("{\"id\": -1, \"name\": \"more than ten\"}"), "value too long"),
        (raw("{\"id\": -2, \"name\": \"forbidden\"}"), "check constraint"),
        (raw("{\"id\": -3, \"price\": 1e30}"), "numeric field overflow"),
        (raw("{\"id\": -4, \"doc\": \"\\u0000\"}"), "(22P05)"),
    ];
    let reasons: Vec<&str> = bad.iter().map(|(_, reason)| *reason).collect();
    for (place, (message, _)) in bad.into_iter().enumerate() {
        messages.insert(place * 100, message);
    }
    bed.produce(messages).await;
    let progress = bed.run(SINK).await;
    assert_eq!((progress.rows, progress.dead), (991, 9));
    assert_eq!(bed.sql("SELECT count(*), count(DISTINCT id), min(id) FROM orders"), "991|991|0");
    let letters = bed.letters().await;
    assert_eq!(letters.len(), reasons.len());
    for reason in reasons {
        assert!(letters.iter().any(|letter| letter.contains(reason)), "{reason}: {letters:?}");
    }
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_commit_finds_its_rows_too() {
    let bed = Bed::new().await;
    bed.sql(
        "CREATE TABLE names (name text PRIMARY KEY); INSERT INTO names VALUES ('known'); \
         CREATE TABLE orders (id bigint UNIQUE, name text REFERENCES names DEFERRABLE INITIALLY DEFERRED, \
         price numeric, doc jsonb)",
    );
    let row = |id: i64| value!({"id": id, "name": if id % 7 == 3 { "unknown" } else { "known" }});
    bed.produce_json((0..50).map(row)).await;
    let progress = bed.run(SINK).await;
    assert_eq!((progress.rows, progress.dead), (43, 7));
    assert_eq!(bed.sql("SELECT count(*) FROM orders WHERE id % 7 <> 3"), "43");
}

#[tokio::test]
async fn a_letter_that_is_sent_back_is_written_once_the_table_takes_it() {
    let bed = Bed::new().await;
    bed.sql(TABLE);
    let names = ["x", "forbidden", "y", "much too long a name"];
    bed.produce_json((0..4).map(|id| value!({"id": id, "name": names[id]}))).await;
    bed.run(SINK).await;
    assert_eq!(bed.letters().await.len(), 2);
    bed.sql("ALTER TABLE orders DROP CONSTRAINT orders_name_check");
    let redrive = value!({"all": true});
    let _: Value = bed.client.post(&format!("/v2/dlq/{TOPIC}/redrive"), &redrive).await.unwrap();
    crate::bed::eventually("the letters are back", || async {
        bed.client.group(TOPIC, GROUP).await.unwrap().lag > 0
    })
    .await;
    let progress = bed.run(SINK).await;
    assert_eq!((progress.rows, progress.repeated, progress.dead), (1, 0, 1));
    assert_eq!(bed.sql("SELECT id, name FROM orders ORDER BY id"), "0|x\n1|forbidden\n2|y");
    assert_eq!(bed.letters().await.len(), 1);
    // The gap is closed: the letter that is left is the only one.
    assert_eq!(bed.sql("SELECT done FROM progress"), "{[0,3)}");
}
