//! A message that comes again is not written again.

use serde_json::{Value, json};

use crate::bed::{Bed, GROUP, TOPIC};

const SINK: &str = "mode = \"append\"\nbatch_rows = 700\n\
     columns = [{ name = \"id\", from = \"/id\", type = \"bigint\" }]\n";

#[tokio::test]
async fn messages_without_a_key_are_written_once_however_often_they_come() {
    let bed = Bed::new().await;
    bed.produce_json((0..3_000).map(|id| json!({"id": id}))).await;
    let first = bed.run(SINK).await;
    assert_eq!((first.rows, first.repeated), (3_000, 0));
    let path = format!("/v2/topics/{TOPIC}/groups/{GROUP}/seek");
    let _: Value = bed.client.post(&path, &json!({"to": "earliest"})).await.unwrap();
    bed.produce_json((3_000..3_100).map(|id| json!({"id": id}))).await;
    let again = bed.run(SINK).await;
    assert_eq!((again.rows, again.repeated), (100, 3_000));
    assert_eq!(bed.sql("SELECT count(*), count(DISTINCT id) FROM orders"), "3100|3100");
    // However many partitions there are, progress is one range.
    assert_eq!(bed.sql("SELECT topic, done FROM progress"), format!("{TOPIC}|{{[0,3100)}}"));
}

#[tokio::test]
async fn another_sink_has_a_progress_of_its_own() {
    let bed = Bed::new().await;
    bed.produce_json((0..10).map(|id| json!({"id": id}))).await;
    bed.run(SINK).await;
    let other = bed.file(SINK).replace("name = \"test\"", "name = \"other\"\ngroup = \"sink.test\"");
    let path = format!("/v2/topics/{TOPIC}/groups/{GROUP}/seek");
    let _: Value = bed.client.post(&path, &json!({"to": "earliest"})).await.unwrap();
    let file = driftq_connect::config::File::parse(&other).unwrap();
    let connectors = driftq_connect::run::Connectors::new(file).unwrap();
    crate::bed::run_until(&connectors, &bed.client, bed.idle()).await;
    assert_eq!(bed.sql("SELECT count(*), count(DISTINCT id) FROM orders"), "20|10");
}

#[tokio::test]
async fn rows_whose_progress_is_refused_are_not_written() {
    let bed = Bed::new().await;
    bed.connectors(SINK).migrate().await.unwrap();
    // A sequence counts on, whatever becomes of a transaction.
    bed.sql(&format!(
        "CREATE SEQUENCE tries; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF nextval('{}.tries') <= 3 THEN RAISE EXCEPTION 'busy' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$; \
         CREATE TRIGGER refuse BEFORE UPDATE ON progress FOR EACH ROW EXECUTE FUNCTION refuse()",
        bed.schema
    ));
    bed.produce_json((0..100).map(|id| json!({"id": id}))).await;
    assert_eq!(bed.run(SINK).await.rows, 100);
    assert_eq!(bed.sql("SELECT count(*), count(DISTINCT id) FROM orders"), "100|100");
    assert_eq!(bed.sql("SELECT last_value > 3 FROM tries"), "t");
}
