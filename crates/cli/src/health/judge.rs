//! What was seen against the thresholds: a state, the problems, and figures for graphs.

use driftq_api::shown::{grouped, printable};
use driftq_api::v2::OnError;
use driftq_api::when::length;
use serde::Serialize;

use super::{
    survey::{Seen, Survey},
    threshold::Levels,
};
use crate::suggest;

/// More problems than this do not fit into a line.
const PROBLEMS_SHOWN_MAX: usize = 3;

/// How monitors call it. Later ones are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum State {
    Ok,
    Unknown,
    Warning,
    Critical,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Unknown => "UNKNOWN",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}

/// All thresholds.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub(super) lag: Levels,
    /// In milliseconds.
    pub(super) oldest: Levels,
    pub(super) dead: Levels,
    pub(super) unknown: Levels,
}

/// A number for graphs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Figure {
    pub(super) label: String,
    pub(super) value: u64,
    /// `ms`, or nothing for a count.
    pub(super) unit: &'static str,
    pub(super) warn: Option<u64>,
    pub(super) crit: Option<u64>,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    pub(super) state: State,
    pub(super) text: String,
}

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Judgement {
    pub(super) state: State,
    pub(super) text: String,
    pub(super) problems: Vec<Problem>,
    pub(super) figures: Vec<Figure>,
}

impl Judgement {
    /// For what went wrong before anything could be seen.
    pub(super) fn alone(state: State, text: String) -> Self {
        Self { state, text, problems: Vec::new(), figures: Vec::new() }
    }

    /// One line: state, text, and the figures behind a bar. What is named must not hold the bar itself.
    pub(super) fn line(&self) -> String {
        let text = printable(&self.text).replace('|', "/");
        let figures: Vec<String> = self.figures.iter().map(performance).collect();
        let figures = if figures.is_empty() { String::new() } else { format!(" | {}", figures.join(" ")) };
        format!("DRIFTQ {} - {text}{figures}\n", self.state.name())
    }
}

fn performance(figure: &Figure) -> String {
    let label = printable(&figure.label).replace(['\'', '=', '|'], "_");
    let level = |level: Option<u64>| level.map(|level| level.to_string()).unwrap_or_default();
    format!("'{label}'={}{};{};{};0", figure.value, figure.unit, level(figure.warn), level(figure.crit))
}

/// Compares. A figure is too high if it is *more* than the threshold.
pub(super) fn judge(survey: &Survey, limits: &Limits) -> Judgement {
    let mut findings = Comparison { problems: server(survey), figures: Vec::new() };
    let group_names: Vec<(String, &Seen)> = survey
        .groups
        .iter()
        .map(|seen| (format!("{}/{}", seen.group.topic, seen.group.name), seen))
        .collect();
    let lags = group_names.iter().map(|(name, seen)| (&**name, &*seen.group.topic, seen.group.lag));
    findings.compare("lag", "", &limits.lag, lags, |most| format!("lag {}", grouped(most)));
    if !limits.oldest.is_empty() {
        let ages =
            group_names.iter().map(|(name, seen)| (&**name, &*seen.group.topic, seen.oldest_ms.unwrap_or(0)));
        findings.compare("oldest", "ms", &limits.oldest, ages, |most| {
            format!("oldest waits {}", length(most.into()))
        });
    }
    let dead = survey.dead.iter().map(|dead| (&*dead.name, &*dead.name, dead.letters));
    findings.compare("dead", "", &limits.dead, dead, |most| format!("{} dead letter(s)", grouped(most)));
    let unknown = [("effects", "effects", survey.unknown.count)];
    findings.compare("unknown", "", &limits.unknown, unknown.into_iter(), |most| {
        format!("{} unknown", grouped(most))
    });
    findings.strangers("lag and oldest", limits.lag.scopes().chain(limits.oldest.scopes()), |scope| {
        let topics = survey.topic_names.iter().map(String::as_str);
        known(scope, group_names.iter().map(|(name, _)| &**name).chain(topics))
    });
    findings.strangers("dead", limits.dead.scopes(), |scope| {
        known(scope, survey.topic_names.iter().map(String::as_str))
    });
    findings.verdict(survey)
}

/// Nothing if the name is known; else a name that may have been meant, or an empty text.
fn known<'a>(scope: &str, mut names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    if names.clone().any(|name| name == scope) {
        return None;
    }
    Some(
        suggest::nearest(scope, names.by_ref())
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?")),
    )
}

fn server(survey: &Survey) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut problem = |state, text: String| problems.push(Problem { state, text });
    if let Some(why) = survey.refusal() {
        let why = why.map_or_else(String::new, |why| format!(" ({})", printable(why)));
        problem(State::Critical, format!("the server takes no new messages{why}"));
    }
    match survey.router_failure() {
        None => {}
        Some(OnError::Pass) => {
            problem(State::Warning, "the router fails, and messages go on without it".to_owned());
        }
        Some(OnError::Reject) => {
            problem(State::Critical, "the router fails, and messages are refused".to_owned());
        }
    }
    problems
}

/// Where problems and figures are laid down.
struct Comparison {
    problems: Vec<Problem>,
    figures: Vec<Figure>,
}

impl Comparison {
    /// Compares each value, as (name, topic, value), and keeps the highest for graphs, and those that have a
    /// threshold of their own.
    fn compare<'a>(
        &mut self,
        label: &str,
        unit: &'static str,
        levels: &Levels,
        values: impl Iterator<Item = (&'a str, &'a str, u64)>,
        words: impl Fn(u64) -> String,
    ) {
        let (mut highest, first) = (0, self.figures.len());
        for (name, topic, value) in values {
            highest = highest.max(value);
            let (warn, crit) = levels.of(&[name, topic]);
            let exceeds = |level: Option<u64>| level.filter(|level| value > *level);
            let found = exceeds(crit).map(|level| (State::Critical, level));
            if let Some((state, level)) = found.or_else(|| exceeds(warn).map(|level| (State::Warning, level)))
            {
                let most = if unit == "ms" { length(level.into()) } else { grouped(level) };
                self.problems.push(Problem {
                    state,
                    text: format!("{}: {}, more than {most}", printable(name), words(value)),
                });
            }
            if levels.scopes().any(|scope| scope == name) {
                let label = format!("{label} {name}");
                self.figures.push(Figure { label, value, unit, warn, crit });
            }
        }
        let (warn, crit) = levels.of(&[]);
        let general = Figure { label: label.to_owned(), value: highest, unit, warn, crit };
        self.figures.insert(first, general);
    }

    /// A threshold for something that is not there would never be exceeded, and the operator would not notice.
    fn strangers<'a>(
        &mut self,
        what: &str,
        scopes: impl Iterator<Item = &'a str>,
        meant: impl Fn(&str) -> Option<String>,
    ) {
        for scope in scopes {
            let Some(hint) = meant(scope) else { continue };
            let text = format!("`{}` of the thresholds of {what} is not there{hint}", printable(scope));
            if self.problems.iter().all(|problem| problem.text != text) {
                self.problems.push(Problem { state: State::Unknown, text });
            }
        }
    }

    fn verdict(mut self, survey: &Survey) -> Judgement {
        self.problems.sort_by_key(|problem| std::cmp::Reverse(problem.state));
        let state = self.problems.iter().map(|problem| problem.state).max().unwrap_or(State::Ok);
        let shown = self.problems.iter().take(PROBLEMS_SHOWN_MAX).map(|problem| &*problem.text);
        let mut text = shown.collect::<Vec<_>>().join("; ");
        match self.problems.len() {
            0 => text = fine(survey),
            count if count > PROBLEMS_SHOWN_MAX => {
                text.push_str(&format!("; and {} more", count - PROBLEMS_SHOWN_MAX));
            }
            _ => {}
        }
        Judgement { state, text, problems: self.problems, figures: self.figures }
    }
}

fn fine(survey: &Survey) -> String {
    let letters = survey.dead.iter().map(|dead| dead.letters).sum();
    let worst = survey.groups.iter().max_by_key(|seen| seen.group.lag).filter(|seen| seen.group.lag > 0);
    let worst = worst.map_or_else(String::new, |seen| {
        format!(" ({}/{})", printable(&seen.group.topic), printable(&seen.group.name))
    });
    let lag = survey.groups.iter().map(|seen| seen.group.lag).max().unwrap_or(0);
    format!(
        "{} group(s) of {} topic(s), lag at most {}{worst}, {} dead letter(s), {} effect(s) unknown",
        grouped(survey.groups.len() as u64),
        grouped(survey.topic_names.len() as u64),
        grouped(lag),
        grouped(letters),
        grouped(survey.unknown.count),
    )
}
