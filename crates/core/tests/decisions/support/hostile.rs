//! What is done to a ledger that was read from bytes that no shard wrote.
#![allow(unreachable_pub, reason = "every test file is a crate")]

use driftq_core::ledger::Status;
use driftq_core::{
    Commit, CommitInput, EffectInput, EffectList, EffectReceipt, FinishEffect, Input, NewOutput, Output,
    OutputInput, OutputList, Query, RunList, Shard, Ticket, Time, VersionsList,
};

use super::ledger::{eager, effect_identity, output, repeatable, resolving};

const TICKET: Ticket = Ticket(1);

/// Asks for everything, and changes whatever can be changed.
pub(crate) fn touch(shard: &mut Shard, now: Time, out: &mut Output) {
    for query in queries() {
        shard.handle(now, Input::Describe { ticket: TICKET, query }, out);
    }
    for number in 0..12 {
        for epoch in [0, 1, 2, u32::MAX] {
            let receipt = EffectReceipt { number, epoch };
            shard.handle(
                now,
                Input::Effect(EffectInput::Renew { ticket: TICKET, receipt, lease_ms: Some(5) }),
                out,
            );
            let uncertain = epoch == 1;
            shard.handle(
                now,
                Input::Effect(EffectInput::Release { ticket: TICKET, receipt, uncertain }),
                out,
            );
        }
    }
    for key in ["k", "l", "m", "n"] {
        let ask = Box::new(eager(repeatable(key)));
        shard.handle(now, Input::Effect(EffectInput::Begin { ticket: TICKET, ask }), out);
        let resolve = resolving(key, Status::FailedRetryable, "x");
        shard.handle(now, Input::Effect(EffectInput::Resolve { ticket: TICKET, resolve }), out);
    }
    for number in 0..12 {
        let finish = |epoch| {
            let (ending, digest) = super::ledger::ending("x");
            let receipt = EffectReceipt { number, epoch };
            FinishEffect { receipt, status: Status::Succeeded, ending, digest }
        };
        for epoch in [1, 2] {
            let outputs = vec![output("v1", "p", "x"), output("v9", "p", "x")];
            let commit = Commit { finishes: vec![finish(epoch)], outputs, ..Commit::default() };
            shard.handle(
                now,
                Input::Commit(CommitInput::One { ticket: TICKET, commit: Box::new(commit) }),
                out,
            );
        }
    }
    let d = || "d".to_owned();
    for version in ["v1", "v2", "v3", "v9"].map(str::to_owned) {
        let from = version.clone();
        shard.handle(
            now,
            Input::Output(OutputInput::RollBack { ticket: TICKET, dataset: d().into(), from: from.clone() }),
            out,
        );
        shard.handle(
            now,
            Input::Output(OutputInput::CutOver {
                ticket: TICKET,
                dataset: d().into(),
                version,
                expect: None,
            }),
            out,
        );
        shard.handle(
            now,
            Input::Output(OutputInput::RollBack { ticket: TICKET, dataset: d().into(), from: from.clone() }),
            out,
        );
        shard.handle(
            now,
            Input::Output(OutputInput::Drop { ticket: TICKET, dataset: d().into(), version: from }),
            out,
        );
    }
}

fn queries() -> Vec<Query> {
    let NewOutput { dataset, version, .. } = output("v1", "p", "");
    let list = |version: &str| OutputList {
        dataset: dataset.clone().into(),
        version: version.into(),
        partition_key: None,
        from: None,
        limit: 9,
    };
    vec![
        Query::Effect(effect_identity("k")),
        Query::Effects(EffectList { limit: 99, ..EffectList::default() }),
        Query::Effects(EffectList { limit: 99, status: Some(Status::Unknown), ..EffectList::default() }),
        Query::Datasets(String::new(), None, 99),
        Query::Dataset(VersionsList { dataset: dataset.clone().into(), after: None, limit: 9 }),
        Query::Outputs(list(&version)),
        Query::Outputs(list("current")),
        Query::Runs(RunList { tenant: None, before: u64::MAX, began_before: None, limit: 99 }),
        Query::Run("r".into(), 0, 99),
        Query::Run("s".into(), 0, 99),
        Query::Run("run".into(), 0, 99),
    ]
}
