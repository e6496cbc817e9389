//! One frame: the numbers, and the busiest topics.

use driftq_api::units::about_bytes;
use driftq_api::v2::{Sample, TopicRow};

use super::{View, now};
use crate::colour::{self, Tone};
use crate::{Listing, grouped, printable};

/// Longest name of a topic that is shown whole.
const NAME_CHARS_MAX: usize = 40;

/// The frame, in so many lines at the most.
pub(super) fn text(view: &View, server: &str, lines: usize) -> String {
    let Some(sample) = &view.sample else { return format!("{server}\n") };
    let mut text = format!("{}  {}\n\n", colour::on_stdout(Tone::Heading, server), sample.at);
    text.push_str(&rates(view, sample));
    text.push_str(&standing(sample));
    if view.left_out > 0 {
        text.push_str(&format!("{} partitions are left out: there are too many\n", grouped(view.left_out)));
    }
    let room = lines.saturating_sub(text.lines().count() + 2);
    if room > 0 && !view.topics.is_empty() {
        text.push('\n');
        text.push_str(&topics(view, room));
    }
    text
}

/// What happens in a second.
fn rates(view: &View, sample: &Sample) -> String {
    let Some(before) = &view.before else { return "rates come with the next event\n".to_owned() };
    let millis = now().age_ms(before.at).saturating_sub(now().age_ms(sample.at)).max(1);
    let rate = |count: fn(&Sample) -> u64| {
        let more = count(sample).saturating_sub(count(before));
        grouped(u64::try_from(u128::from(more) * 1_000 / u128::from(millis)).unwrap_or(u64::MAX))
    };
    format!(
        "per second   produced {}   delivered {}   acked {}   retried {}   failed {}   \
         effects {}   commits {}   written {}\n",
        rate(|sample| sample.produced),
        rate(|sample| sample.delivered),
        rate(|sample| sample.acked),
        rate(|sample| sample.redelivered),
        rate(|sample| sample.nacked),
        rate(|sample| sample.effects_executed),
        rate(|sample| sample.commits),
        about_bytes(sample.written_bytes.saturating_sub(before.written_bytes) * 1_000 / millis),
    )
}

/// How it stands.
fn standing(sample: &Sample) -> String {
    let oldest = sample.oldest_at.map_or_else(|| "none".to_owned(), |at| now().tell(at));
    let warned = |name: &str, count: u64| {
        let text = format!("{name} {}", grouped(count));
        if count > 0 { colour::on_stdout(Tone::Bad, &text) } else { text }
    };
    format!(
        "messages     waiting {}   in flight {}   retrying {}   scheduled {}   oldest {oldest}   {}\n\
         effects      running {}   to be retried {}   {}\n\
         server       topics {}   streams {}   log files {}   kept {}\n",
        grouped(sample.lag),
        grouped(sample.in_flight),
        grouped(sample.retrying),
        grouped(sample.scheduled),
        warned("dead letters", sample.dead_letters),
        grouped(sample.effects_in_progress),
        grouped(sample.effects_retryable),
        warned("unknown", sample.effects_unknown),
        grouped(sample.topics),
        grouped(sample.streams),
        grouped(sample.segments),
        about_bytes(sample.bytes),
    )
}

/// The topics with most to do.
fn topics(view: &View, room: usize) -> String {
    let mut rows: Vec<&TopicRow> = view.topics.values().collect();
    rows.sort_by(|one, other| {
        (other.lag, other.in_flight).cmp(&(one.lag, one.in_flight)).then_with(|| one.name.cmp(&other.name))
    });
    let mut listing = Listing::new(&[
        "topic",
        "waiting",
        "in flight",
        "retrying",
        "scheduled",
        "readers",
        "groups",
        "oldest",
    ]);
    for row in rows.into_iter().take(room) {
        let name: String = printable(&row.name).chars().take(NAME_CHARS_MAX).collect();
        let oldest =
            if row.paused { Some("paused".to_owned()) } else { row.oldest_at.map(|at| now().tell(at)) };
        let numbers = [row.lag, row.in_flight, row.retrying, row.scheduled, row.consumers, row.groups];
        let cells = std::iter::once(name).chain(numbers.map(grouped));
        listing.row(cells.chain([oldest.unwrap_or_else(|| "-".to_owned())]));
    }
    listing.text()
}

#[cfg(test)]
mod tests {
    use driftq_api::v2::Event;

    use super::*;

    /// As the server writes it.
    fn event(at: &str, produced: u64, topics: &str) -> Event {
        let text = format!(
            r#"{{"sample":{{"at":"{at}","epoch":1,"produced":{produced},"delivered":0,"redelivered":0,"acked":0,
            "nacked":0,"buried":0,"effects_executed":0,"effects_replayed":0,"commits":0,"written_bytes":0,"topics":2,
            "messages":3,"bytes":10,"lag":1234,"in_flight":0,"retrying":0,"scheduled":0,"dead_letters":2,
            "effects_in_progress":0,"effects_retryable":0,"effects_unknown":0,"streams":0,"segments":1}},
            "topics":[{topics}],"left_out":0}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn row(name: &str, lag: u64) -> String {
        format!(
            r#"{{"name":"{name}","messages":1,"bytes":1,"next_offset":1,"lag":{lag},"in_flight":0,"retrying":0,
            "scheduled":0,"consumers":0,"groups":1,"paused":false}}"#
        )
    }

    #[test]
    fn the_busiest_topics_come_first_and_rates_follow_from_two_events() {
        let mut view = View::default();
        let rows = format!("{},{}", row("quiet", 1), row("busy", 9));
        view.take(event("2026-01-01T00:00:00Z", 100, &rows));
        assert!(text(&view, "http://x", 40).contains("rates come with the next event"));
        view.take(event("2026-01-01T00:00:02Z", 1_100, &row("quiet", 2)));
        let shown = text(&view, "http://x", 40);
        assert!(shown.contains("produced 500 "), "{shown}");
        assert!(shown.contains("dead letters 2"), "{shown}");
        let (busy, quiet) = (shown.find("busy").unwrap(), shown.find("quiet").unwrap());
        assert!(busy < quiet, "{shown}");
        let short = text(&view, "http://x", 9);
        assert!(short.lines().count() <= 9, "{short}");
    }
}
