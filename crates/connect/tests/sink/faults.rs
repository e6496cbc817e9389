//! A database that goes away, and a pooler in front of it.

use std::sync::Arc;

use driftq_testbed::{PgBouncer, Postgres};
use serde_json::json;

use crate::bed::{Bed, DATABASE, GROUP, TOPIC, eventually, run_until};

const SINK: &str = "mode = \"append\"\nbatch_rows = 100\n\
     columns = [{ name = \"id\", from = \"/id\", type = \"bigint\" }]\n";

#[tokio::test]
async fn a_database_that_crashes_is_waited_for_and_nothing_is_held_meanwhile() {
    let postgres = Arc::new(Postgres::start().unwrap());
    let bed = Bed::on(&postgres).await;
    let connectors = bed.connectors(SINK);
    connectors.migrate().await.unwrap();
    bed.produce_json((0..500).map(|id| json!({"id": id}))).await;
    run_until(&connectors, &bed.client, async {
        bed.idle().await;
        postgres.crash().unwrap();
        bed.produce_json((500..1_000).map(|id| json!({"id": id}))).await;
        // It has borrowed some, seen that they cannot be written, and given them back.
        eventually("all is given back", || async {
            let group = bed.client.group(TOPIC, GROUP).await.unwrap();
            group.lag == 500 && group.in_flight == 0
        })
        .await;
        postgres.restart().unwrap();
        bed.idle().await;
    })
    .await;
    let count = format!("SELECT count(*), count(DISTINCT id) FROM {}.orders", bed.schema);
    assert_eq!(postgres.psql(&count).unwrap(), "1000|1000");
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_as_good_as_the_database() {
    let mut bed = Bed::new().await;
    let pooler = PgBouncer::start(&DATABASE).unwrap();
    bed.url = pooler.url().to_owned();
    bed.produce_json((0..1_000).map(|id| json!({"id": if id == 500 { json!("x") } else { json!(id) }})))
        .await;
    let progress = bed.run(SINK).await;
    assert_eq!((progress.rows, progress.dead), (999, 1));
    assert_eq!(bed.sql("SELECT count(*), count(DISTINCT id) FROM orders"), "999|999");
}
