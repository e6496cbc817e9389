//! After every crash: what is left is a prefix of what was decided, and all that was told is in it.

use std::collections::BTreeMap;

use driftq_core::{
    Answer, Commit, CommitInput, Committed, Description, EffectView, Input, Outcome, OutputInput, OutputList,
    Query, Receipt, Settlement, Ticket, TopicId, Verdict, VersionsList,
};

use crate::asked::Asked;
use crate::clients::Request;
use crate::commits::VERSIONS;
use crate::effects::{KEYS, effect_identity};
use crate::oracle::{CheckResult, Committing, Done, Lost, Outputs};
use crate::server::{NoStart, Probe, Server};
use crate::world::World;

/// Commits done long ago that are looked at after a crash.
const OLD_DEEDS: usize = 6;

impl World {
    /// Opens what is on disk, or in the log that the nodes share. `Ok(None)`: it failed on the way.
    pub(crate) fn boot(&mut self) -> Result<Option<Server>, NoStart> {
        match &mut self.cluster {
            None => Server::start(&self.disk, &self.settings, self.now, self.settings.seed),
            Some(cluster) => {
                let quiet = self.calm || !self.set_up;
                cluster.open(&mut self.rng, &self.settings, self.now, quiet)
            }
        }
    }

    /// Compares what is left with what was told, and with what was `lost`: under way when the server ended.
    pub(crate) fn recover(&mut self, probe: &mut Probe, lost: &BTreeMap<Ticket, Asked>) -> CheckResult {
        let mut views = BTreeMap::new();
        for key in 0..KEYS {
            let view = probe.effect(key)?;
            self.oracle.recovered(key, view.as_ref(), &lost_about(lost, key), self.now)?;
            views.insert(key, view);
        }
        let seen = probe.outputs()?;
        self.recover_deeds(probe, lost, &views, &seen)?;
        self.check_old_deeds(probe)
    }

    /// Those under way are there whole or not at all, and none without those before it.
    fn recover_deeds(
        &mut self,
        probe: &mut Probe,
        lost: &BTreeMap<Ticket, Asked>,
        views: &BTreeMap<u64, Option<EffectView>>,
        seen: &Outputs,
    ) -> CheckResult {
        let mut model = self.oracle.outputs.clone();
        let mut fits = vec![model == *seen];
        let mut models = vec![model.clone()];
        let mut deeds: Vec<(usize, &Committing, Option<bool>)> = Vec::new();
        for asked in lost.values() {
            match asked {
                Asked::Commit(committing) => {
                    let again = deeds.iter().any(|(_, other, _)| other.number == committing.number);
                    if again || self.oracle.deeds[committing.number].done.is_some() {
                        continue;
                    }
                    let there = self.evidence(probe, committing, views)?;
                    deeds.push((models.len() - 1, committing, there));
                    for output in &self.oracle.deeds[committing.number].outputs {
                        model.put(output, committing.at);
                    }
                }
                Asked::Order(order) => {
                    let _ = model.order(order);
                }
                _ => continue,
            }
            fits.push(model == *seen);
            models.push(model.clone());
        }
        // The number of orders and commits that are left, if there is one that explains everything.
        let cut = (0..models.len()).find(|cut| {
            let explains = |(place, _, there): &(usize, &Committing, Option<bool>)| {
                there.is_none_or(|there| there == (place < cut))
            };
            fits[*cut] && deeds.iter().all(explains)
        });
        let Some(cut) = cut else {
            return Err(format!(
                "whole: {deeds:?} are there in part: {seen:?}, told: {:?}",
                self.oracle.outputs
            ));
        };
        self.oracle.outputs = models.swap_remove(cut);
        let there = deeds.iter().filter(|(place, ..)| *place < cut);
        let there: Vec<Committing> = there.map(|(_, committing, _)| (*committing).clone()).collect();
        for committing in there {
            let name = self.oracle.deeds[committing.number].name;
            if let Some(Committed { already: true, stored, outputs, .. }) =
                name.map(|name| probe.commit(name))
            {
                self.oracle.deeds[committing.number].done = Some(Done { stored, outputs, at: committing.at });
            }
        }
        Ok(())
    }

    /// Whether a commit is there, by all its parts; `None` if they do not say.
    fn evidence(
        &self,
        probe: &mut Probe,
        committing: &Committing,
        views: &BTreeMap<u64, Option<EffectView>>,
    ) -> Result<Option<bool>, String> {
        let deed = &self.oracle.deeds[committing.number];
        let mut parts: Vec<(&str, bool)> = Vec::new();
        if let Some(name) = deed.name {
            parts.push(("name", probe.commit(name).already));
        }
        for said in committing.said.iter().filter(|said| !said.was_acking()) {
            parts.push(("ack", probe.is_acked(said.receipt)));
        }
        for id in &deed.messages {
            let Some(sent) = self.oracle.sent.get(id).filter(|sent| self.is_published(sent.topic)) else {
                continue;
            };
            let remembered = committing.at.after_ms(self.settings.idempotency_ttl_ms) > self.now;
            if let (Some(identity), true) = (self.identity(sent), remembered) {
                parts.push(("message", probe.whereabouts(sent.topic, identity)));
            }
        }
        for (lease, end) in &deed.finishes {
            let Some(Some(view)) = views.get(&lease.key) else { continue };
            // Whatever came later hides it.
            if (view.number, view.epoch) == (lease.receipt.number, lease.receipt.epoch) {
                let ending = view.ending.map(|blob| (blob.check, blob.length as usize));
                let said = Some((crate::server::check(&end.bytes), end.bytes.len()));
                parts.push(("effect", view.status == end.status && ending == said));
            }
        }
        match parts.first() {
            None => Ok(None),
            Some((_, there)) if parts.iter().all(|(_, other)| other == there) => Ok(Some(*there)),
            Some(_) => Err(format!("whole: commit {} is there in part: {parts:?}", committing.number)),
        }
    }

    fn is_published(&self, topic: TopicId) -> bool {
        self.topics.values().any(|known| known.id == topic)
    }

    /// What was answered is there for ever, as long as a client may ask.
    fn check_old_deeds(&self, probe: &mut Probe) -> CheckResult {
        let old = self.oracle.deeds.iter().enumerate().rev().filter(|(_, deed)| deed.done.is_some());
        for (number, deed) in old.take(OLD_DEEDS) {
            let (Some(name), Some(done)) = (deed.name, &deed.done) else { continue };
            if done.at.after_ms(self.settings.commit_ttl_ms) <= self.now {
                continue;
            }
            let answer = probe.commit(name);
            if !answer.already || answer.stored != done.stored || answer.outputs != done.outputs {
                return Err(format!("whole: commit {number} was {done:?}, now {answer:?}"));
            }
            if let Some(loan) = deed.acks.iter().find(|loan| !probe.is_acked(loan.receipt)) {
                return Err(format!("whole: commit {number} was answered, {loan:?} is not acked"));
            }
        }
        Ok(())
    }

    /// A client that did not get an answer asks again, or does not.
    pub(crate) fn ask_again(&mut self, lost: &BTreeMap<Ticket, Asked>) {
        for asked in lost.values() {
            if self.calm || self.rng.chance(1, 2) {
                continue;
            }
            match asked {
                Asked::Begin { ask, .. } if ask.caller != 0 => self.lost_asks.push(ask.clone()),
                Asked::Finish(finishing, lease) => {
                    self.network.push(Request::Finish(lease.clone(), finishing.end.clone()));
                }
                Asked::Resolve(resolving) => {
                    let (key, seen, end) = (resolving.key, resolving.seen, resolving.end.clone());
                    self.network.push(Request::Resolve { key, seen, end });
                }
                Asked::Commit(committing) => self.network.push(Request::Commit(committing.number)),
                _ => {}
            }
        }
    }
}

/// What was under way about one effect.
fn lost_about(lost: &BTreeMap<Ticket, Asked>, key: u64) -> Lost<'_> {
    let mut about = Lost::default();
    for asked in lost.values() {
        match asked {
            Asked::Begin { ask, at, .. } if ask.key == key => about.begins.push((ask, *at)),
            Asked::Finish(finishing, _) if finishing.key == key => {
                about.endings.push((Some(finishing.receipt), &finishing.end, finishing.at));
            }
            Asked::Resolve(resolving) if resolving.key == key => {
                about.endings.push((None, &resolving.end, resolving.at));
            }
            Asked::Renew { lease, until, .. } if lease.key == key => {
                about.renewals.push((lease.receipt, *until));
            }
            Asked::Commit(committing) => {
                let finishing = committing.finishing.iter().filter(|finishing| finishing.key == key);
                let said = finishing.map(|said| (Some(said.receipt), &said.end, said.at));
                about.endings.extend(said);
            }
            _ => {}
        }
    }
    about
}

impl Probe {
    fn effect(&mut self, key: u64) -> Result<Option<EffectView>, String> {
        match self.describe(Query::Effect(effect_identity(key))) {
            Some(Description::Effect(view)) => Ok(view),
            other => Err(format!("answers: an effect is {other:?}")),
        }
    }

    fn whereabouts(&mut self, topic: TopicId, identity: driftq_core::Identity) -> bool {
        matches!(self.describe(Query::Whereabouts(topic, identity)), Some(Description::Whereabouts(Some(_))))
    }

    fn describe(&mut self, query: Query) -> Option<Description> {
        match self.ask(|ticket| Input::Describe { ticket, query }) {
            Some(Answer::Described(description)) => Some(description),
            _ => None,
        }
    }

    /// What is remembered of a commit of this name.
    fn commit(&mut self, name: driftq_core::Identity) -> Committed {
        let commit = Box::new(Commit { name: Some(name), ..Commit::default() });
        // One that asks for nothing is done at once, if it was not before; in a probe that does no harm.
        if let Some(known) = self.commits.get(&name) {
            return known.clone();
        }
        let committed = match self.ask(|ticket| Input::Commit(CommitInput::One { ticket, commit })) {
            Some(Answer::Committed(committed)) => committed,
            _ => Committed::default(),
        };
        self.commits.insert(name, committed.clone());
        committed
    }

    /// Whether a message was acked by this token: the lease does not go on, and the same ack again is taken and changes
    /// nothing.
    fn is_acked(&mut self, receipt: Receipt) -> bool {
        let mut say = |verdict| {
            let written = self.written();
            let items = vec![Settlement { receipt, verdict }];
            let answer = self.ask(|ticket| Input::Settle { ticket, items });
            let Some(Answer::Settlements(outcomes)) = answer else { return None };
            outcomes.first().copied().filter(|_| self.written() == written)
        };
        matches!(say(Verdict::Extend { lease_ms: None, begun: true }), Some(Outcome::Stale { .. }))
            && say(Verdict::Ack) == Some(Outcome::Ok)
    }

    /// Whether readers of a dataset saw this version before the last roll-back: the same roll-back again is taken.
    fn is_rolled_back(&mut self, dataset: &str, version: &str) -> bool {
        let (dataset, from) = (dataset.into(), version.to_string());
        let answer = self.ask(|ticket| Input::Output(OutputInput::RollBack { ticket, dataset, from }));
        matches!(answer, Some(Answer::CutOver { changed: false, .. }))
    }

    fn outputs(&mut self) -> Result<Outputs, String> {
        let Some(Description::Datasets(datasets, false)) =
            self.describe(Query::Datasets(String::new(), None, 100))
        else {
            return Err("answers: the server does not list the datasets".into());
        };
        let mut outputs = Outputs::default();
        for summary in datasets {
            let dataset = summary.dataset.to_string();
            let list = VersionsList { dataset: dataset.clone().into(), after: None, limit: 100 };
            let Some(Description::Dataset(Some(view))) = self.describe(Query::Dataset(list)) else {
                return Err(format!("outputs: {dataset} is listed and not there"));
            };
            let mut pages = Vec::new();
            for version in &view.versions {
                let (dataset, version) = (dataset.clone(), version.version.to_string());
                let list = OutputList {
                    dataset: dataset.into(),
                    version,
                    partition_key: None,
                    from: None,
                    limit: 1000,
                };
                let Some(Description::Outputs(Some(page))) = self.describe(Query::Outputs(list)) else {
                    return Err("outputs: a version is listed and not there".into());
                };
                pages.push(page);
            }
            let current = view.summary.current.as_deref();
            let mut others = VERSIONS.iter().filter(|version| current != Some(**version));
            let rolled_back = others.find(|version| self.is_rolled_back(&dataset, version));
            outputs.see(&view, rolled_back.copied(), &pages);
        }
        Ok(outputs)
    }
}
