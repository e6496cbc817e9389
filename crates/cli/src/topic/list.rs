//! `driftq topic list`.

use anyhow::Result;
use driftq_api::v1::Topics;
use serde::Serialize;

use crate::{Common, output};

#[derive(Serialize)]
struct Row {
    name: String,
}

pub(super) async fn run(common: &Common) -> Result<()> {
    let mut session = common.client()?.session();
    let topics: Topics = session.get("/v1/topics").await.map_err(|error| error.into_error())?;
    let rows: Vec<Row> = topics.topics.into_iter().map(|name| Row { name }).collect();
    output::print_many(common.output, &rows, || {
        if rows.is_empty() {
            return "no topics yet; create one with `driftq topic create NAME`\n".to_owned();
        }
        rows.iter().map(|row| format!("{}\n", output::printable(&row.name))).collect()
    })
}
