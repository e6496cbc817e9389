//! What operators and their programs order: topics and groups made, set, paused and deleted; moves, cancellations,
//! removals, redrives, attempts that are not to wait.

pub(crate) mod cancel;
pub(crate) mod redrive;
pub(crate) mod retry;
pub(crate) mod seek;
pub(crate) mod topics;

use crate::delivery::Deliveries;
use crate::outbox::desk::OutboxDesk;
use crate::turn::Turn;
use crate::words::action::Output;
use crate::words::order::OrderInput;

impl Deliveries {
    pub(crate) fn handle_order(
        &mut self,
        turn: &mut Turn,
        outbox: &mut OutboxDesk,
        order: OrderInput,
        out: &mut Output,
    ) {
        match order {
            OrderInput::CreateTopic { ticket, name, partitions, settings, tenant, exact } => {
                let wanted = (partitions, &settings, tenant.as_deref());
                turn.handle_create_topic(ticket, &name, wanted, exact, out);
            }
            OrderInput::ConfigureTopic { ticket, topic, patch } => {
                self.handle_configure(turn, ticket, topic, &patch, out)
            }
            OrderInput::DeleteTopic { ticket, topic } => self.handle_delete_topic(turn, ticket, topic, out),
            OrderInput::Pause { ticket, topic, group, paused } => {
                self.handle_pause(turn, ticket, topic, group.as_deref(), paused, out);
            }
            OrderInput::Cancel { ticket, message } => self.handle_cancel(turn, ticket, message, out),
            OrderInput::Retry { ticket, message } => self.handle_retry(turn, ticket, message, out),
            OrderInput::Seek { ticket, topic, group, partition, to } => {
                self.handle_seek(turn, ticket, (topic, &group), (partition, to), out);
            }
            OrderInput::DeleteGroup { ticket, topic, group } => {
                self.handle_delete_group(turn, ticket, topic, &group, out)
            }
            OrderInput::Redrive { ticket, letter, message, .. } if turn.is_elsewhere(&message) => {
                self.handle_redrive_elsewhere(turn, outbox, ticket, (letter, message), out);
            }
            OrderInput::Redrive { ticket, letter, message, group } => {
                self.handle_redrive(turn, ticket, letter, message, group.as_deref(), out);
            }
            OrderInput::Remove { ticket, messages } => self.handle_remove(turn, ticket, &messages, out),
            OrderInput::CreateKey { ticket, key } => turn.handle_create_key(ticket, &key, out),
            OrderInput::ReplaceKey { ticket, old, new, digest, overlap_ms } => {
                turn.handle_replace_key(ticket, old, (new, digest), overlap_ms, out);
            }
            OrderInput::EndKey { ticket, key } => turn.handle_end_key(ticket, key, out),
            OrderInput::Define { ticket, kind, name, expected, text } => {
                turn.handle_define(ticket, (kind, &name), expected, &text, out);
            }
            OrderInput::Undefine { ticket, kind, name, expected } => {
                turn.handle_undefine(ticket, (kind, &name), expected, out);
            }
            OrderInput::LimitTenant { ticket, tenant, limits } => {
                turn.handle_limit_tenant(ticket, &tenant, limits, out);
            }
            OrderInput::Record { ticket, entry, is_dispensable } => {
                turn.handle_record(ticket, entry, is_dispensable, out);
            }
            OrderInput::ForgetEntity { ticket, entity } => turn.handle_forget_entity(ticket, &entity, out),
        }
    }
}
