//! A handler behind the layer that ends the call itself, in the transaction of its own write. On a real PostgreSQL.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use driftq_ledger::grpc::{Attempt, IdempotencyLayer, Meaning};
use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{Class, Ending, OnLapse, Response, Terms};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tonic::Status;
use tonic::body::Body;
use tonic_prost::ProstCodec;
use tower::{Layer as _, Service, ServiceExt as _};

use crate::grpc::bed::{CHARGE, Charge, Receipt};
use crate::support::Bed;

/// Writes, and ends the call in the same transaction. What happens then is what the charge says.
async fn charged(
    call: tonic::Request<Charge>,
    store: PostgresStore,
    run: usize,
) -> Result<tonic::Response<Receipt>, Status> {
    let attempt = call.extensions().get::<Attempt>().expect("the layer puts it there").clone();
    let receipt = Receipt { run: run as u64, text: "stored".to_owned() };
    let mut client = store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let response = Response::new(receipt.encode_to_vec()).code(0);
    store.finish_tx(&transaction, attempt.take_lease(), &Ending::succeeded(response)).await.unwrap();
    match call.get_ref().how.as_str() {
        "roll back once" if run == 1 => {
            transaction.rollback().await.unwrap();
            attempt.means(Meaning::Failed(Class::Refused));
            return Err(Status::internal("rolled back"));
        }
        "lose the answer" => {
            transaction.commit().await.unwrap();
            return Err(Status::unavailable("who knows"));
        }
        _ => transaction.commit().await.unwrap(),
    }
    Ok(tonic::Response::new(receipt))
}

type Answer = (Option<String>, Option<Receipt>, bool);

/// The code if it is no success, the message, and whether it is a stored answer.
async fn called<S>(service: &S, how: &str) -> Answer
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible> + Clone,
{
    let message = Charge { how: how.to_owned(), amount: 5 }.encode_to_vec();
    let mut frame = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
    frame.extend(message);
    let request = http::Request::post(CHARGE).header("idempotency-key", how).header("te", "trailers");
    let request = request.header("content-type", "application/grpc");
    let request = request.body(Body::new(Full::new(Bytes::from(frame)))).unwrap();
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let code = parts.headers.get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
    let bytes = body.collect().await.unwrap().to_bytes();
    let receipt = (!bytes.is_empty()).then(|| Receipt::decode(bytes.slice(5..)).unwrap());
    (code, receipt, parts.headers.contains_key("idempotent-replayed"))
}

#[tokio::test]
async fn what_a_handler_commits_is_the_answer_for_everybody() {
    let bed = Bed::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let (store, counted) = (bed.store.clone(), Arc::clone(&runs));
    let inner = tower::service_fn(move |request: http::Request<Body>| {
        let (store, run) = (store.clone(), counted.fetch_add(1, Ordering::SeqCst) + 1);
        async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Receipt, Charge>::default());
            let charge = move |call| charged(call, store.clone(), run);
            Ok::<_, Infallible>(grpc.unary(tower::service_fn(charge), request).await)
        }
    });
    for on_lapse in [OnLapse::Hold, OnLapse::Retry] {
        runs.store(0, Ordering::SeqCst);
        bed.psql("TRUNCATE {table}");
        let layer = IdempotencyLayer::new(bed.ledger.clone(), |_| Some("ann".to_owned()));
        let service = layer.terms(Terms::default().on_lapse(on_lapse)).layer(inner.clone());
        let stored = |run| Some(Receipt { run, text: "stored".to_owned() });
        // Rolled back, and said to be as good as never begun, also under hold.
        assert_eq!(called(&service, "roll back once").await, (Some("13".to_owned()), None, false));
        for replayed in [false, true] {
            assert_eq!(called(&service, "roll back once").await, (None, stored(2), replayed));
        }
        for replayed in [false, true] {
            assert_eq!(called(&service, "lose the answer").await, (None, stored(3), replayed));
        }
        for replayed in [false, true] {
            assert_eq!(called(&service, "commit").await, (None, stored(4), replayed));
        }
    }
}
