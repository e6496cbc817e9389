//! What time alone does: each deadline goes to the capability that set it.

use alloc::vec::Vec;

use crate::shard::Shard;
use crate::turn::timer::Due;
use crate::words::action::Output;
use crate::words::id::Time;

/// Deadlines handled by one tick; the rest is due at once again, so that other inputs get their turn.
pub(crate) const DUE_PER_TICK_MAX: usize = 256;

impl Shard {
    /// Sets the timers that outlive a run.
    pub(crate) fn schedule_upkeep(&mut self) {
        let Self { turn, deliveries, effects, .. } = self;
        turn.schedule_forget(None);
        let (mut gates, mut lanes) = (Vec::new(), Vec::new());
        for topic in turn.journal.state.each_topic() {
            gates.extend(topic.groups.keys().map(|group| (topic.id, *group)));
            lanes.extend((0..topic.info().partitions).map(|partition| (topic.id, partition)));
        }
        effects.schedule_effects(turn);
        turn.schedule_commits();
        turn.schedule_runs();
        turn.schedule_audit();
        for gate in gates {
            turn.schedule_forget(Some(gate));
        }
        for (topic, partition) in lanes {
            deliveries.schedule_retention(turn, topic, partition);
            deliveries.review_history(turn, topic, partition);
            deliveries.watch_deadlines(turn, topic, partition);
        }
    }

    pub(crate) fn handle_tick(&mut self, out: &mut Output) {
        let Self { turn, deliveries, effects, .. } = self;
        // Taken off first: what newly comes up while these are handled waits for the next tick, even if it is due now.
        let due = core::iter::from_fn(|| turn.timers.pop(turn.now)).take(DUE_PER_TICK_MAX);
        let due: Vec<(Time, Due)> = due.collect();
        for (at, due) in due {
            match due {
                Due::Lapse(spot) => deliveries.on_lapse(turn, spot, out),
                Due::Retry(spot) => deliveries.on_retry(turn, spot),
                Due::Bury(spot) => deliveries.on_bury_again(turn, spot, out),
                Due::Forget(gate) => deliveries.on_forget(turn, gate, out),
                Due::Idle(topic, group) => deliveries.on_idle(turn, topic, group, out),
                Due::Retain(topic, partition) => deliveries.on_retain(turn, topic, partition, out),
                Due::Trim(topic, partition) => deliveries.on_trim(turn, topic, partition, out),
                Due::Deadline(topic, partition) => deliveries.on_deadline(turn, topic, partition, out),
                Due::Begin(topic, partition) => deliveries.on_begin(turn, topic, partition),
                Due::Waited(group, ticket) => deliveries.on_patience_end(turn, group, ticket),
                // It keeps its place, or those in front of it would be the only ones that ever go on.
                Due::GoOn(..) if deliveries.is_turn_over(out) => turn.timers.set(at, due),
                Due::GoOn(_, group) => deliveries.go_on(turn, group, out),
                Due::Unreserve(identity) => deliveries.unreserve(turn, identity),
                Due::EffectLapse(number) => effects.on_effect_lapse(turn, deliveries, number, out),
                Due::EffectWaited(ticket) => effects.on_effect_waited(turn, ticket, out),
                Due::Sweep => effects.on_sweep(turn, out),
                Due::ForgetCommits => turn.on_forget_commits(out),
                Due::RunOld(run) => turn.on_run_old(run, out),
                Due::DropAudit => turn.on_drop_audit(out),
            }
        }
    }
}
