//! Definitions: what operators declare and connectors follow.

use driftq_core::{
    Answer, DefinitionKind, DefinitionPage, DefinitionView, Description, Input, OrderInput, Query, Ticket,
};
use tokio::sync::watch;

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;

impl Broker {
    /// All definitions of a kind, by name, and how many changes there were.
    pub async fn definitions(&self, kind: DefinitionKind) -> Result<DefinitionPage, Failure> {
        match self.home().describe(Query::Definitions(kind)).await? {
            Description::Definitions(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// One definition, if there is one of that name.
    pub async fn definition(
        &self,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<Option<DefinitionView>, Failure> {
        match self.home().describe(Query::Definition(kind, name.to_owned())).await? {
            Description::Definition(definition) => Ok(definition),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes a definition say something, if it still has the version that is expected.
    pub async fn define(
        &self,
        kind: DefinitionKind,
        name: String,
        expected: Option<u64>,
        text: String,
    ) -> Result<DefinitionView, Failure> {
        let bytes = text.len();
        self.change_definition(bytes, |ticket| OrderInput::Define { ticket, kind, name, expected, text })
            .await
    }

    /// Removes a definition, if it still has the version that is expected.
    pub async fn undefine(
        &self,
        kind: DefinitionKind,
        name: String,
        expected: Option<u64>,
    ) -> Result<DefinitionView, Failure> {
        self.change_definition(0, |ticket| OrderInput::Undefine { ticket, kind, name, expected }).await
    }

    /// Changes with every change of definitions that this run of the broker has answered.
    #[must_use]
    pub fn definition_changes(&self) -> watch::Receiver<u64> {
        self.house().defined.subscribe()
    }

    async fn change_definition(
        &self,
        bytes: usize,
        order: impl FnOnce(Ticket) -> OrderInput,
    ) -> Result<DefinitionView, Failure> {
        // Told however the caller fares: one that has hung up, or did not hear, may have changed something.
        let _told = Told(&self.house().defined);
        match self.home().ask(bytes, true, |ticket| Input::Order(order(ticket))).await? {
            Answer::Definition(definition) => Ok(definition),
            other => Err(unexpected(&other)),
        }
    }
}

/// Wakes whoever waits for a change when it is dropped.
struct Told<'a>(&'a watch::Sender<u64>);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|changes| *changes += 1);
    }
}
