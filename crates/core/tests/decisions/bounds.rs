//! How much one input can make of itself: whatever waits for it, its facts fit into a frame of the log.

use crate::support::orders::patient;
use crate::support::{Draft, Rig};
use driftq_core::{Action, Answer, Input, LeaseRequest, Settings, Ticket};

const GROUPS: usize = 350;
const MESSAGES: usize = 1_000;
/// What the log takes as one frame.
const FRAME_BYTES_MAX: usize = 80 << 20;

#[test]
fn a_batch_that_hundreds_of_groups_wait_for_fits_into_a_frame() {
    let settings =
        Settings { lease_in_flight_max: u32::MAX, turn_steps_max: u32::MAX, ..Settings::default() };
    let mut rig = Rig::new(settings);
    let topic = rig.topic("t", 1);
    let owner = "o".repeat(255);
    let tickets: Vec<_> = (0..GROUPS)
        .map(|number| {
            let request = LeaseRequest {
                group: format!("group-{number:03}"),
                owner: owner.clone(),
                ..patient(topic, MESSAGES as u32, 30_000)
            };
            rig.ask_lease(request)
        })
        .collect();
    rig.sync();
    let mut seen = rig.log.batches.len();
    let messages = vec![Draft::to(topic).message(); MESSAGES];
    let answer = rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
    assert!(matches!(answer, Answer::ProducedMany(_)), "{answer:?}");
    let (mut sizes, mut answered) = (Vec::new(), 0);
    // Each tick goes on where the batch before was full.
    while rig.shard.next_deadline().is_some_and(|due| due <= rig.now) {
        rig.tell(Input::Tick);
        rig.sync();
        for batch in rig.log.batches[seen..].iter_mut() {
            sizes.push(batch.bytes.len());
            // Nothing reads it again; the rest of this process has better use for the room.
            batch.bytes = Vec::new();
        }
        seen = rig.log.batches.len();
        answered += rig.actions.drain(..).filter(|action| is_share(action, &tickets)).count();
    }

    // More by far than a frame holds, and no batch near it: a little over the bound on what one dispatch writes.
    assert!(sizes.iter().sum::<usize>() > FRAME_BYTES_MAX, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < 2 << 20), "{sizes:?}");
    assert_eq!(answered, GROUPS, "every group gets its share");
}

fn is_share(action: &Action, tickets: &[Ticket]) -> bool {
    matches!(action, Action::Reply { ticket, answer: Answer::Leased(got) } if !got.is_empty() && tickets.contains(ticket))
}
