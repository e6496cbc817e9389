//! Commits whose parts live in several shards: carries the questions that [`Across`] decides on.

use driftq_core::{
    Across, Commit, CommitInput, CommitResult, Description, Identity, Input, Next, Query, Question, Receipt,
    Reply, ShardId,
};
use futures_util::future::join_all;

use crate::broker::{Broker, unexpected};
use crate::commits::{commit_in, decided};
use crate::effect_request::EffectCall;
use crate::failure::Failure;

impl Broker {
    /// Whether everything that a commit is about is in one shard.
    pub(crate) fn is_whole_in(&self, seat: ShardId, commit: &Commit) -> bool {
        self.shard_count() == 1 || commit.is_whole_in(seat)
    }

    /// Does a commit whose parts are in several shards.
    pub(crate) async fn commit_across(&self, commit: Commit) -> Result<CommitResult, Failure> {
        let mut across = match Across::new(commit) {
            Ok(across) => across,
            Err(refused) => return Ok(Err(refused)),
        };
        let mut replies = Vec::new();
        loop {
            let asked = match across.next(replies) {
                Next::Ask(asked) => asked,
                Next::Done(result) => return Ok(result),
            };
            let carried = asked.into_iter().map(|(shard, question)| self.carry(shard, question));
            replies = join_all(carried).await.into_iter().collect::<Result<_, _>>()?;
        }
    }

    /// Asks a shard, and brings back what it says.
    async fn carry(&self, shard: ShardId, question: Question) -> Result<Reply, Failure> {
        let shared = self.shard(shard);
        match question {
            Question::Lease(receipt) => match shared.describe(Query::Lease(receipt)).await? {
                Description::Lease(lease) => Ok(Reply::Lease(lease)),
                other => Err(unexpected(&other)),
            },
            Question::Check(commit) => self.could(shard, commit).await.map(Reply::Commit),
            Question::Do(commit) => commit_in(shared, commit).await.map(Reply::Commit),
        }
    }

    /// Whether a shard could do its part now.
    async fn could(&self, shard: ShardId, commit: Commit) -> Result<CommitResult, Failure> {
        let commit = Box::new(commit);
        let input = |ticket| Input::Commit(CommitInput::Check { ticket, commit });
        decided(self.shard(shard).ask(0, true, input).await?)
    }

    /// Whether a delivery is the newest one of its message, and its holder may act for it.
    pub(crate) async fn is_current(&self, receipt: Receipt) -> Result<(), Failure> {
        let question = Commit { fences: vec![receipt], ..Commit::default() };
        match self.could(receipt.topic.shard(), question).await? {
            Ok(_) => Ok(()),
            Err((_, reject)) => Err(Failure::Reject(reject)),
        }
    }

    /// Raises the entities that an effect expects something of, in whose shard it does not live: once, however often it
    /// is begun on that condition, for as long as its record counts.
    pub(crate) async fn raise_for(&self, effect: Identity, call: &EffectCall<'_>) -> Result<(), Failure> {
        let versions: Vec<[u8; 8]> =
            call.expect.iter().map(|expected| expected.version.to_le_bytes()).collect();
        let condition = call.expect.iter().zip(&versions);
        let condition = condition.flat_map(|(expected, version)| [expected.entity.as_bytes(), version]);
        let parts: Vec<&[u8]> =
            [b"expected by an effect", &effect.0[..]].into_iter().chain(condition).collect();
        let raise = Commit {
            name: Some(Identity::of_parts(&parts)),
            name_ttl_ms: call.ttl_ms.or_else(|| Some(self.settings().effect_ttl_ms_default)),
            tenant: call.about.tenant.to_string(),
            expect: call.expect.clone(),
            ..Commit::default()
        };
        match commit_in(self.home(), raise).await? {
            Ok(_) => Ok(()),
            Err((_, reject)) => Err(Failure::refused(reject, &call.expect)),
        }
    }
}
