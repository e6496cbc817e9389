//! The calls of `/v2`, one file per resource. Which call a request makes is read off the same table that the OpenAPI
//! document is built from.

mod audit;
mod causes;
mod cluster;
mod commit;
mod credentials;
mod deliveries;
mod effects;
mod endpoints;
mod entities;
mod errands;
mod events;
mod exports;
mod filled;
mod groups;
mod jobs;
mod keys;
mod leases;
mod letters;
mod messages;
mod outputs;
mod produce;
mod report;
mod router;
mod runs;
mod server;
mod sessions;
mod settings;
mod tenants;
mod topics;
mod traced;
mod words;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use driftq_api::v2::{
    Operation, PATH_NAMES_MAX, expect_json, expect_no_parameters, idempotency_key, path_name,
};
use driftq_api::{Code, Fault};
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;

use super::app::App;
use super::failure::Call;
use super::guard::Caller;
use super::pulse::Pulse;
use super::v1::Handled;

pub(crate) use report::Newest as NewestReport;
pub(crate) use words::{Reader, line};

/// A request for one operation.
pub(crate) struct Request<'a> {
    pub(crate) app: &'a App,
    pub(crate) head: &'a Parts,
    pub(crate) names: [&'a str; PATH_NAMES_MAX],
    pub(crate) body: Option<Bytes>,
    pub(crate) pulse: &'a Arc<Pulse>,
    pub(crate) caller: &'a Caller,
}

/// Whether an operation takes a body.
pub(crate) const fn takes_body(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Produce
            | Operation::Lease
            | Operation::Ack
            | Operation::Nack
            | Operation::Extend
            | Operation::Release
            | Operation::PutTopic
            | Operation::PatchTopic
            | Operation::SeekGroup
            | Operation::Redrive
            | Operation::Purge
            | Operation::TestRouter
            | Operation::BeginEffect
            | Operation::FinishEffect
            | Operation::RenewEffect
            | Operation::ReleaseEffect
            | Operation::ReacquireEffect
            | Operation::ResolveEffect
            | Operation::GetEffect
            | Operation::Commit
            | Operation::CutOver
            | Operation::SealVersion
            | Operation::CreateKey
            | Operation::RotateKey
            | Operation::LimitTenant
            | Operation::PostDelivery
            | Operation::PostExport
            | Operation::PutEndpoint
            | Operation::DisableEndpoint
            | Operation::EnableEndpoint
            | Operation::MintCredential
            | Operation::Introspect
            | Operation::SignIn
            | Operation::DrainNode
            | Operation::ResumeNode
            | Operation::RollBack
    )
}

/// The state of a call is as large as that of the largest operation, for every request and every open connection. What is
/// not called for every message has its state on the heap.
fn boxed<'a>(
    operation: impl Future<Output = Handled> + Send + 'a,
) -> Pin<Box<dyn Future<Output = Handled> + Send + 'a>> {
    Box::pin(operation)
}

/// Answers a request.
pub(crate) async fn answer(operation: Operation, request: Request<'_>) -> Handled {
    match operation {
        Operation::Produce => produce::produce(&request).await,
        Operation::Browse => boxed(messages::browse(&request)).await,
        Operation::GetMessage => boxed(messages::get(&request)).await,
        Operation::CancelMessage => boxed(messages::cancel(&request)).await,
        Operation::RetryMessage => boxed(messages::retry(&request)).await,
        Operation::Lease => leases::lease(&request).await,
        Operation::Stream => boxed(leases::stream(&request)).await,
        Operation::Ack => leases::ack(&request).await,
        Operation::Nack => leases::nack(&request).await,
        Operation::Extend => leases::extend(&request).await,
        Operation::Release => boxed(leases::release(&request)).await,
        Operation::ListTopics => boxed(topics::list(&request)).await,
        Operation::GetTopic => boxed(topics::get(&request)).await,
        Operation::PutTopic => boxed(topics::put(&request)).await,
        Operation::PatchTopic => boxed(topics::patch(&request)).await,
        Operation::DeleteTopic => boxed(topics::delete(&request)).await,
        Operation::PauseTopic => boxed(topics::pause(&request, true)).await,
        Operation::ResumeTopic => boxed(topics::pause(&request, false)).await,
        Operation::ListGroups => boxed(groups::list(&request)).await,
        Operation::GetGroup => boxed(groups::get(&request)).await,
        Operation::DeleteGroup => boxed(groups::delete(&request)).await,
        Operation::SeekGroup => boxed(groups::seek(&request)).await,
        Operation::PauseGroup => boxed(groups::pause(&request, true)).await,
        Operation::ResumeGroup => boxed(groups::pause(&request, false)).await,
        Operation::ListDeadTopics => boxed(letters::topics(&request)).await,
        Operation::ListLetters => boxed(letters::list(&request)).await,
        Operation::ListCauses => boxed(causes::list(&request)).await,
        Operation::GetLetter => boxed(letters::get(&request)).await,
        Operation::Redrive => boxed(letters::redrive(&request)).await,
        Operation::Purge => boxed(letters::purge(&request)).await,
        Operation::ListJobs => jobs::list(&request),
        Operation::GetJob => jobs::get(&request),
        Operation::CancelJob => jobs::cancel(&request),
        Operation::BeginEffect => effects::begin(&request).await,
        Operation::FinishEffect => effects::finish(&request).await,
        Operation::RenewEffect => effects::renew(&request).await,
        Operation::ReleaseEffect => boxed(effects::release(&request)).await,
        Operation::ReacquireEffect => boxed(effects::reacquire(&request)).await,
        Operation::ResolveEffect => boxed(effects::resolve(&request)).await,
        Operation::GetEffect => boxed(effects::get(&request)).await,
        Operation::ListEffects => boxed(effects::list(&request)).await,
        Operation::Commit => commit::commit(&request).await,
        Operation::ListDatasets => boxed(outputs::datasets(&request)).await,
        Operation::GetDataset => boxed(outputs::dataset(&request)).await,
        Operation::GetVersion => boxed(outputs::version(&request)).await,
        Operation::GetOutput => boxed(outputs::partition(&request)).await,
        Operation::GetCommit => boxed(commit::get(&request)).await,
        Operation::SealVersion => boxed(outputs::seal(&request)).await,
        Operation::CutOver => boxed(outputs::cut_over(&request)).await,
        Operation::RollBack => boxed(outputs::roll_back(&request)).await,
        Operation::DeleteVersion => boxed(outputs::delete(&request)).await,
        Operation::ListEntities => boxed(entities::list(&request)).await,
        Operation::GetEntity => boxed(entities::get(&request)).await,
        Operation::RemoveEntity => boxed(entities::remove(&request)).await,
        Operation::CreateKey => boxed(keys::create(&request)).await,
        Operation::ListKeys => boxed(keys::list(&request)).await,
        Operation::GetKey => boxed(keys::get(&request)).await,
        Operation::RotateKey => boxed(keys::rotate(&request)).await,
        Operation::RevokeKey => boxed(keys::revoke(&request)).await,
        Operation::PostDelivery => boxed(deliveries::post(&request)).await,
        Operation::ListDeliveries => boxed(deliveries::list(&request)).await,
        Operation::PostExport => boxed(exports::post(&request)).await,
        Operation::ListExports => boxed(exports::list(&request)).await,
        Operation::ListEndpoints => boxed(endpoints::list(&request)).await,
        Operation::GetEndpoint => boxed(endpoints::get(&request)).await,
        Operation::PutEndpoint => boxed(endpoints::put(&request)).await,
        Operation::DeleteEndpoint => boxed(endpoints::delete(&request)).await,
        Operation::DisableEndpoint => boxed(endpoints::switch(&request, false)).await,
        Operation::EnableEndpoint => boxed(endpoints::switch(&request, true)).await,
        Operation::MintCredential => boxed(credentials::mint(&request)).await,
        Operation::Introspect => boxed(credentials::introspect(&request)).await,
        Operation::GetOpenIdConfiguration => credentials::configuration(&request),
        Operation::GetJsonWebKeys => credentials::keys(&request),
        Operation::ListTenants => boxed(tenants::list(&request)).await,
        Operation::GetTenant => boxed(tenants::get(&request)).await,
        Operation::LimitTenant => boxed(tenants::limit(&request)).await,
        Operation::ListAudit => boxed(audit::list(&request)).await,
        Operation::ListRuns => boxed(runs::list(&request)).await,
        Operation::GetRun => boxed(runs::get(&request)).await,
        Operation::GetRouter => router::status(&request),
        Operation::TestRouter => boxed(router::test(&request)).await,
        Operation::StreamEvents => boxed(events::stream(&request)).await,
        Operation::SignIn => sessions::sign_in(&request),
        Operation::GetSession => sessions::get(&request),
        Operation::SignOut => sessions::sign_out(&request),
        Operation::GetCluster => cluster::get(&request),
        Operation::DrainNode => boxed(cluster::mark(&request, true)).await,
        Operation::ResumeNode => boxed(cluster::mark(&request, false)).await,
        Operation::GetReport => boxed(report::get(&request)).await,
        Operation::GetStatus => server::status(&request),
        Operation::Healthz => Ok(server::healthz()),
        Operation::Readyz => server::readyz(request.app),
        Operation::GetOpenApi => Ok(server::openapi()),
    }
}

pub(crate) fn unknown() -> Fault {
    Fault::new(Code::NotFound, "there is no such call")
}

impl Request<'_> {
    /// A name in the path, decoded; `what` is how the table calls it.
    fn name(&self, place: usize, what: &str) -> Result<Cow<'_, str>, Fault> {
        path_name(what, self.names[place])
    }

    /// The tenant as which the call is made: the one that it names, or the only one of the caller's key.
    fn tenant<'a>(&self, named: Cow<'a, str>) -> Result<Cow<'a, str>, Fault> {
        self.caller.tenant(named)
    }

    /// How messages of a topic are shown that are only looked at.
    fn reader<'a>(&'a self, topic: &'a str) -> Reader<'a> {
        Reader { topic, broker: &self.app.broker, shows_payloads: self.caller.sees_payloads(), traced: None }
    }

    /// The key that makes sending the call again safe, if there is one.
    fn key(&self) -> Result<Option<String>, Fault> {
        let mut values = self.head.headers.get_all("idempotency-key").iter();
        let key = values.next().map(|value| idempotency_key(value.as_bytes())).transpose()?;
        if values.next().is_some() {
            return Err(Fault::invalid("Idempotency-Key: is given twice"));
        }
        Ok(key.map(str::to_owned))
    }

    /// The body of a call that takes JSON; empty if there is none.
    fn json(&self) -> Result<&[u8], Fault> {
        let body = self.body.as_deref().unwrap_or_default();
        if !body.is_empty() {
            expect_json(self.content_type())?;
        }
        Ok(body)
    }

    fn content_type(&self) -> Option<&str> {
        self.head.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"))
    }

    fn query(&self) -> Result<driftq_api::Query<'_>, Fault> {
        driftq_api::Query::parse(super::request::raw_query(self.head))
    }

    /// Refuses a query where none is taken.
    fn no_query(&self) -> Result<(), Fault> {
        expect_no_parameters(self.query()?)
    }
}

/// Puts a failure of the broker into words.
fn fault(failure: &driftq_engine::Failure) -> Fault {
    super::failure::fault(failure, Call::Other)
}
