//! Numbers for metrics, asked of the decide thread only every so often, however many scrapers ask.

use std::time::{Duration, Instant};

use driftq_core::Tally;
use tokio::sync::Mutex;

use crate::broker::Broker;
use crate::failure::Failure;

/// How old the numbers of a scrape may be: many scrapers, or one in a hurry, cost as much as one every so often.
const AGE_MAX: Duration = Duration::from_millis(250);

/// The newest numbers, and when they were asked for.
#[derive(Default)]
pub(crate) struct Scraped {
    newest: Mutex<Option<(Instant, Tally)>>,
}

impl Broker {
    /// What [`Broker::tally`] says, or has said a moment ago.
    pub async fn scraped(&self) -> Result<Tally, Failure> {
        // Held while one scraper asks: the others wait for the same answer.
        let mut newest = self.house().scraped.newest.lock().await;
        if let Some((_, tally)) = newest.as_ref().filter(|(asked, _)| asked.elapsed() < AGE_MAX) {
            return Ok(tally.clone());
        }
        let asked = Instant::now();
        let tally = self.tally().await?;
        *newest = Some((asked, tally.clone()));
        Ok(tally)
    }
}
