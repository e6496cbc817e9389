//! `driftq job list`.

use anyhow::Result;
use driftq_api::v2::Jobs;

use super::words::{kind, sentence, state};
use crate::{
    Common,
    output::{self, Listing, printable},
    when::Now,
};

pub(super) async fn run(common: &Common) -> Result<()> {
    let mut session = common.client()?.session();
    let answer: Jobs<'static> = session.get("/v2/jobs").await.map_err(|error| error.into_error())?;
    output::print_many(common.output, &answer.jobs, || {
        if answer.jobs.is_empty() {
            return "no jobs; `driftq dlq redrive` and `driftq dlq purge` start one\n".to_owned();
        }
        let now = Now::read();
        let mut listing = Listing::new(&["JOB", "WHAT", "TOPIC", "STATE", "STARTED", "SO FAR"]);
        for job in &answer.jobs {
            listing.row([
                printable(&job.id),
                kind(job).to_owned(),
                printable(&job.topic),
                state(job).to_owned(),
                now.tell(job.started_at),
                sentence(job),
            ]);
        }
        listing.text()
    })
}
