//! How much memory the state takes. A program of its own: what is measured is the whole process.
#![cfg(target_os = "linux")]

use driftq_core::ledger::Status;
use driftq_core::{
    About, Action, Answer, BeginEffect, EffectAnswer, EffectInput, Ending, FinishEffect, Identity, Input,
    NewBlob, Output, Position, Settings, Shard, State, Ticket, Time,
};

const EFFECTS: u64 = 200_000;
/// What an effect that is over may take, with everything by which it is found.
const BYTES_PER_EFFECT_MAX: u64 = 200;

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number");
    pages * 4096
}

/// Begins and ends one effect, as a worker does on behalf of nobody.
fn run_effect(shard: &mut Shard, out: &mut Output, at: (Time, &mut Position), n: u64) {
    let (now, base) = at;
    let key = format!("charge-{n}");
    let about = About { scope: "payments".into(), key: key.as_str().into(), ..About::default() };
    let blob = |bytes: Vec<u8>| NewBlob { bytes, check: n as u32 };
    let ask = BeginEffect {
        identity: Identity::of("tenant", "payments", &key),
        about: blob(about.encode()),
        caller: n + 1,
        owner: "worker-7f3a".into(),
        ..BeginEffect::default()
    };
    shard.handle(now, Input::Effect(EffectInput::Begin { ticket: Ticket(1), ask: Box::new(ask) }), out);
    let receipt = match sync(shard, out, now, base) {
        Some(Answer::Effect(EffectAnswer::Execute(lease))) => lease.receipt,
        other => panic!("{other:?}"),
    };
    let ending = Ending { body: Some(b"{\"charged\": true}".into()), ..Ending::default() }.encode();
    let digest = Ending::digest(&ending) ^ n;
    let finish = FinishEffect { receipt, status: Status::Succeeded, ending: blob(ending), digest };
    shard.handle(now, Input::Effect(EffectInput::Finish { ticket: Ticket(2), finish }), out);
    assert!(matches!(sync(shard, out, now, base), Some(Answer::EffectEnded { .. })));
}

fn sync(shard: &mut Shard, out: &mut Output, now: Time, base: &mut Position) -> Option<Answer> {
    *base = base.plus(out.facts.len());
    out.facts.clear();
    shard.begin_batch(*base);
    shard.handle(now, Input::Durable { upto: *base }, out);
    let mut replies = out.actions.drain(..).filter_map(|action| match action {
        Action::Reply { answer, .. } => Some(answer),
        _ => None,
    });
    replies.next_back()
}

#[test]
fn an_effect_that_is_over_takes_little() {
    let mut shard = Shard::new(Settings::default(), State::new(1));
    let (mut out, mut base) = (Output::default(), Position(1 << 32));
    let start = 1_700_000_000_000;
    shard.open(Time(start), base, [1; 32], &mut out);
    sync(&mut shard, &mut out, Time(start), &mut base);
    let before = resident_bytes();
    for n in 0..EFFECTS {
        run_effect(&mut shard, &mut out, (Time(start + n / 10), &mut base), n);
    }
    let each = (resident_bytes() - before) / EFFECTS;
    println!("{each} bytes for each effect");
    assert!(each <= BYTES_PER_EFFECT_MAX, "{each} bytes for each effect");
}
