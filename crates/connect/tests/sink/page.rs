//! The page about sinks says what is so: its file and its statements are taken from it.

use driftq_connect::config::File;
use driftq_connect::run::Connectors;
use serde_json::json;

use crate::bed::{Bed, run_until};

const PAGE: &str = include_str!("../../../../docs/how-to/into-postgresql.md");

fn block(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let (_, rest) = PAGE.split_once(&fence).unwrap();
    rest.split_once("```").unwrap().0
}

#[tokio::test]
async fn the_file_and_the_statements_of_the_page_work() {
    let bed = Bed::new().await;
    let url = format!("{}?options=-csearch_path%3D{}", bed.url, bed.schema);
    let file = block("toml").replace("url_env = \"DATABASE_URL\"", &format!("url = \"{url}\""));
    let connectors = Connectors::new(File::parse(&file).unwrap()).unwrap();
    let sink = &connectors.sinks()[0];
    let needs = sink.check().await.unwrap().needs;
    let asked: String = needs.iter().map(|need| format!("{};\n", need.sql.as_deref().unwrap())).collect();
    assert_eq!(asked, block("sql"));
    bed.sql(block("sql"));
    assert_eq!(sink.check().await.unwrap().needs, []);
    bed.produce_json([
        json!({"id": 1, "version": 2, "total": "10.50", "state": "paid"}),
        json!({"id": 1, "version": 1, "total": 9}),
        json!({"id": 2, "version": 1}),
        json!({"version": 1}),
        json!({"id": 3, "version": 1}),
    ])
    .await;
    run_until(&connectors, &bed.client, async {
        crate::bed::eventually("the group is through", || async {
            let group = bed.client.group("orders", "sink.orders").await;
            group.is_ok_and(|group| group.lag == 0 && group.in_flight == 0)
        })
        .await;
    })
    .await;
    let rows = bed.sql("SELECT id, version, total, state, placed_at IS NOT NULL FROM orders ORDER BY id");
    assert_eq!(rows, "1|2|10.50|paid|t\n2|1||new|t\n3|1||new|t");
    assert_eq!(bed.sql(block("sql look")), "orders|2|5");
}
