//! Every type and every source of a column, exactly.

use driftq_client::raw;

use crate::bed::{Bed, GROUP};

const SINK: &str = r#"mode = "append"
columns = [
  { name = "text", from = "/text", type = "text" },
  { name = "big", from = "/deep/big", type = "bigint" },
  { name = "int", from = "/list/1", type = "integer" },
  { name = "real", from = "/real", type = "double" },
  { name = "exact", from = "/exact", type = "numeric" },
  { name = "yes", from = "/yes", type = "boolean" },
  { name = "at", from = "/at", type = "timestamptz" },
  { name = "doc", from = "/deep", type = "jsonb" },
  { name = "uuid", from = "/uuid", type = "uuid" },
  { name = "bytes", from = "/bytes", type = "bytea" },
  { name = "key", from = "$key", type = "text" },
  { name = "place", from = "$offset", type = "bigint" },
  { name = "part", from = "$partition", type = "integer" },
  { name = "stored", from = "$produced_at", type = "timestamptz" },
  { name = "idem", from = "$idempotency_key", type = "text" },
  { name = "whole", from = "$value", type = "jsonb" },
  { name = "absent", from = "/absent", type = "integer", default = 7 },
  { name = "none", from = "/none", type = "text" },
]
"#;

#[tokio::test]
async fn every_type_and_source_arrives_as_it_was_sent() {
    let bed = Bed::new().await;
    let payload = r#"{"text": "a\"é\t|", "deep": {"big": 9007199254740993}, "list": [1, -2147483648], "real": 0.1,
        "exact": 123456789012345678901234567890.123456789012345678901, "yes": false,
        "at": "2026-11-17T08:30:00.123456+01:30", "uuid": "0189ab12-3456-7890-abcd-ef0123456789", "bytes": "AP8="}"#;
    let message = raw(payload).key("customer-4").idempotency_key("order-17");
    bed.produce([message]).await;
    bed.run(SINK).await;
    let look = "SET TimeZone = 'UTC'; SELECT text, big, int, real, exact, yes, at, doc, uuid, bytes, key, place, \
                part BETWEEN 0 AND 2, now() - stored < interval '1 hour', idem, whole->'deep', absent, none IS NULL \
                FROM orders";
    assert_eq!(
        bed.sql(look),
        "a\"é\t||9007199254740993|-2147483648|0.1|123456789012345678901234567890.123456789012345678901|f|\
         2026-11-17 07:00:00.123456+00|{\"big\": 9007199254740993}|0189ab12-3456-7890-abcd-ef0123456789|\\x00ff|\
         customer-4|0|t|t|order-17|{\"big\": 9007199254740993}|7|t"
    );
    assert_eq!(bed.client.group("orders", GROUP).await.unwrap().lag, 0);
}

#[tokio::test]
async fn a_payload_that_nobody_reads_need_not_be_json() {
    let bed = Bed::new().await;
    bed.produce([raw("not json"), raw(vec![0, 159, 146, 150])]).await;
    let sink = "mode = \"append\"\ncolumns = [{ name = \"bytes\", from = \"$value\", type = \"bytea\" }]\n";
    bed.run(sink).await;
    assert_eq!(bed.sql("SELECT bytes FROM orders ORDER BY bytes"), "\\x009f9296\n\\x6e6f74206a736f6e");
}
