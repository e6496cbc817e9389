//! A service written by hand, as generated code would be, and a client.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use driftq_ledger::grpc::IdempotencyLayer;
use driftq_ledger::memory::ManualClock;
use driftq_ledger::{Identity, Ledger, Record};
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::codegen::tokio_stream;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::grpc::moody::Moody;
use crate::grpc::signals::{Signals, within};

pub(crate) const CHARGE: &str = "/shop.v1.Payments/Charge";
/// Several receipts for one charge.
pub(crate) const WATCH: &str = "/shop.v1.Payments/Watch";
/// One receipt for several charges.
pub(crate) const BATCH: &str = "/shop.v1.Payments/Batch";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Charge {
    /// What the handler is to do.
    #[prost(string, tag = "1")]
    pub(crate) how: String,
    #[prost(uint64, tag = "2")]
    pub(crate) amount: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Receipt {
    #[prost(uint64, tag = "1")]
    pub(crate) run: u64,
    #[prost(string, tag = "2")]
    pub(crate) text: String,
}

#[derive(Clone)]
struct Payments(Arc<Signals>);

impl NamedService for Payments {
    const NAME: &'static str = "shop.v1.Payments";
}

impl tower::Service<http::Request<Body>> for Payments {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let signals = Arc::clone(&self.0);
        let mut grpc = tonic::server::Grpc::new(ProstCodec::<Receipt, Charge>::default());
        Box::pin(async move {
            Ok(match request.uri().path() {
                WATCH => {
                    let watch = tower::service_fn(move |_: Request<Charge>| {
                        let run = signals.run() as u64;
                        let receipts = (0..3).map(move |at| Ok(Receipt { run, text: at.to_string() }));
                        async { Ok::<_, Status>(Response::new(tokio_stream::iter(receipts))) }
                    });
                    grpc.server_streaming(watch, request).await
                }
                BATCH => {
                    let batch = tower::service_fn(move |mut charges: Request<tonic::Streaming<Charge>>| {
                        let run = signals.run() as u64;
                        async move {
                            let mut count = 0;
                            while charges.get_mut().message().await?.is_some() {
                                count += 1;
                            }
                            Ok(Response::new(Receipt { run, text: count.to_string() }))
                        }
                    });
                    grpc.client_streaming(batch, request).await
                }
                _ => {
                    let charge =
                        move |charge: Request<Charge>| charged(charge.into_inner(), Arc::clone(&signals));
                    grpc.unary(tower::service_fn(charge), request).await
                }
            })
        })
    }
}

async fn charged(charge: Charge, signals: Arc<Signals>) -> Result<Response<Receipt>, Status> {
    let run = signals.run() as u64;
    let (how, more) = charge.how.split_once(' ').unwrap_or((&charge.how, ""));
    match how {
        "wait" => signals.pause().await,
        "panic" => panic!("half done"),
        "fail" => {
            let mut metadata = MetadataMap::new();
            metadata.insert("x-run", MetadataValue::from(run));
            let code = Code::from_bytes(more.as_bytes());
            let text = format!("no: ä, {run}");
            return Err(Status::with_details_and_metadata(code, text, b"\0details\xff"[..].into(), metadata));
        }
        _ => {}
    }
    let text = if how == "large" { "x".repeat(more.parse().unwrap()) } else { how.to_owned() };
    let mut receipt = Response::new(Receipt { run, text });
    receipt.metadata_mut().insert("x-run", MetadataValue::from(run));
    receipt.metadata_mut().insert_bin("x-proof-bin", MetadataValue::from_bytes(b"\0proof"));
    Ok(receipt)
}

pub(crate) struct Bed {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ledger: Ledger,
    pub(crate) store: Moody,
    pub(crate) signals: Arc<Signals>,
    channel: Channel,
}

pub(crate) type Answer = Result<Response<Receipt>, Status>;

impl Bed {
    pub(crate) async fn start(set_up: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Self {
        let clock = Arc::new(ManualClock::default());
        let (store, ledger) = Moody::ledger(&clock);
        let layer = IdempotencyLayer::new(ledger.clone(), |parts| {
            Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned())
        });
        let signals = Arc::new(Signals::default());
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = incoming.local_addr().unwrap();
        let server = Server::builder().layer(set_up(layer)).add_service(Payments(Arc::clone(&signals)));
        tokio::spawn(server.serve_with_incoming(incoming));
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self { clock, ledger, store, signals, channel }
    }

    pub(crate) fn call(&self) -> Call {
        let mut metadata = MetadataMap::new();
        metadata.insert("x-user", MetadataValue::from_static("ann"));
        Call { channel: self.channel.clone(), metadata, charge: Charge::default() }
    }

    pub(crate) async fn record(&self, key: &str) -> Option<Record> {
        self.ledger.get(&Identity::new("ann", CHARGE, key).unwrap()).await.unwrap()
    }

    pub(crate) fn runs(&self) -> usize {
        self.signals.runs()
    }
}

#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) channel: Channel,
    metadata: MetadataMap,
    charge: Charge,
}

impl Call {
    pub(crate) fn user(mut self, user: &'static str) -> Self {
        self.metadata.insert("x-user", MetadataValue::from_static(user));
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.metadata("idempotency-key", key)
    }

    pub(crate) fn metadata(mut self, name: &'static str, value: &str) -> Self {
        self.metadata.append(name, value.parse().unwrap());
        self
    }

    pub(crate) fn how(mut self, how: &str) -> Self {
        self.charge.how = how.to_owned();
        self
    }

    pub(crate) fn amount(mut self, amount: u64) -> Self {
        self.charge.amount = amount;
        self
    }

    pub(crate) fn request<T>(self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata;
        request
    }

    pub(crate) async fn send(self) -> Answer {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.unwrap();
        let charge = self.charge.clone();
        let codec = ProstCodec::<Charge, Receipt>::default();
        within(client.unary(self.request(charge), PathAndQuery::from_static(CHARGE), codec)).await
    }
}

/// The word and the code of an answer of the layer's own.
pub(crate) fn refusal(answer: &Answer) -> (&str, Code) {
    let status = answer.as_ref().expect_err("a refusal");
    assert!(status.message().len() > 10 && !status.message().contains("secret-host"), "{status:?}");
    let word = status.metadata().get("idempotency-problem").map(|word| word.to_str().unwrap());
    (word.unwrap_or("none"), status.code())
}

pub(crate) fn metadata(answer: &Answer) -> &MetadataMap {
    match answer {
        Ok(response) => response.metadata(),
        Err(status) => status.metadata(),
    }
}

pub(crate) fn is_replayed(answer: &Answer) -> bool {
    metadata(answer).get("idempotent-replayed").is_some_and(|value| value == "true")
}

pub(crate) fn retry_after_ms(answer: &Answer) -> Option<u64> {
    metadata(answer).get("retry-after-ms").map(|millis| millis.to_str().unwrap().parse().unwrap())
}
