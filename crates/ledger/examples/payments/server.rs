//! The payment API.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header, request::Parts};
use axum::response::{Extension, IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use driftq_ledger::http::{Attempt, IdempotencyLayer};
use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{Ending, Lease, Ledger, OnLapse, Terms};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;

use crate::provider::Provider;

/// How long a request has a key to itself. Short, so that the demonstration is.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// How long outcomes are remembered.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a duplicate waits for the one who is at it.
const WAIT: Duration = Duration::from_secs(2);
/// How long somebody outside takes to answer, so that a crash has something to interrupt.
const LATENCY: Duration = Duration::from_millis(15);
/// The name of the records of payouts, in the ledger.
pub(crate) const PAYOUT: &str = "POST /payouts";

/// Where to serve, and with what.
pub(crate) struct Settings {
    pub(crate) database: String,
    pub(crate) listen: SocketAddr,
    pub(crate) provider: PathBuf,
    /// Whether to end when the standard input does, so that no server outlives whoever started it.
    pub(crate) ends_with_input: bool,
}

/// The table of charges. A charge may come twice under one key as far as the table is concerned: that it does not is
/// the ledger's doing, and the torment counts.
const CHARGES: &str = "CREATE TABLE IF NOT EXISTS charges (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key text NOT NULL,
    account text NOT NULL,
    amount bigint NOT NULL
)";

struct Bank {
    store: PostgresStore,
    provider: Provider,
}

#[derive(Deserialize)]
struct Payment {
    account: String,
    amount: u64,
}

#[derive(Serialize)]
struct Receipt {
    id: i64,
    account: String,
    amount: u64,
}

pub(crate) async fn serve(settings: Settings) -> Result<()> {
    let store = PostgresStore::connect(&settings.database)?;
    store.migrate().await?;
    store.pool().get().await?.batch_execute(CHARGES).await?;
    let ledger = Ledger::new(store.clone());
    let sweeper = ledger.clone();
    let sweeping = tokio::spawn(async move { sweeper.keep_swept(Duration::from_secs(60)).await });

    let layer = |on_lapse| {
        IdempotencyLayer::new(ledger.clone(), |parts: &Parts| principal(&parts.headers))
            .required(true)
            .terms(Terms::default().lease(LEASE).ttl(TTL).on_lapse(on_lapse))
            .wait(WAIT)
    };
    let bank = Arc::new(Bank { store, provider: Provider::open(&settings.provider)? });
    let app = Router::new()
        // Whether a provider has paid, nobody here knows after a crash.
        .route("/payouts", post(pay_out).route_layer(layer(OnLapse::Hold)))
        // What a server that was not heard of again has written is rolled back, or will be when it tries to commit.
        .route("/charges", post(charge).route_layer(layer(OnLapse::Retry)))
        .with_state(bank);

    let listener = tokio::net::TcpListener::bind(settings.listen).await.context("listening")?;
    println!("listening on {}", listener.local_addr()?);
    let ended = async move {
        let mut nothing = [0; 64];
        while settings.ends_with_input
            && tokio::io::stdin().read(&mut nothing).await.is_ok_and(|read| read > 0)
        {}
        if !settings.ends_with_input {
            // Nobody to wait for but whoever presses Ctrl-C.
            let _ = tokio::signal::ctrl_c().await;
        }
    };
    tokio::select! {
        served = async { axum::serve(listener, app).await } => served.context("serving")?,
        () = ended => {}
    }
    sweeping.abort();
    Ok(())
}

/// On whose behalf. A real service checks the token.
fn principal(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::to_owned)
}

/// An effect outside the database. The layer in front of this handler has asked the ledger, and writes down what is
/// answered here; a crash in between leaves a record that is held until somebody has asked the provider.
async fn pay_out(
    State(bank): State<Arc<Bank>>,
    Extension(attempt): Extension<Attempt>,
    Json(payment): Json<Payment>,
) -> Response {
    tokio::time::sleep(LATENCY).await;
    if let Err(error) = bank.provider.pay(attempt.identity().key(), &payment.account, payment.amount) {
        // Whether the line reached the disk is not known. A 500 says so, and the record is held.
        return refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string());
    }
    tokio::time::sleep(LATENCY).await;
    let receipt = Receipt { id: 0, account: payment.account, amount: payment.amount };
    (StatusCode::CREATED, Json(receipt)).into_response()
}

/// An effect inside the database: the row and the outcome are written in one transaction, and the layer answers what
/// that transaction has stored.
async fn charge(
    State(bank): State<Arc<Bank>>,
    Extension(attempt): Extension<Attempt>,
    Json(payment): Json<Payment>,
) -> Response {
    match bank.charge_in_transaction(attempt.take_lease(), &payment).await {
        Ok(response) => response,
        // Overtaken, or the database is away: nothing of it stands, or the layer finds that it does.
        Err(error) => refused(StatusCode::SERVICE_UNAVAILABLE, &format!("{error:#}")),
    }
}

impl Bank {
    /// The row and the outcome are there together or not at all.
    async fn charge_in_transaction(&self, lease: &Lease, payment: &Payment) -> Result<Response> {
        let mut client = self.store.pool().get().await?;
        let transaction = client.transaction().await?;
        let amount = i64::try_from(payment.amount)?;
        let key = lease.identity.key();
        let row = transaction
            .query_one(
                "INSERT INTO charges (idempotency_key, account, amount) VALUES ($1, $2, $3) RETURNING id",
                &[&key, &payment.account, &amount],
            )
            .await?;
        tokio::time::sleep(LATENCY).await;
        let receipt = Receipt { id: row.get(0), account: payment.account.clone(), amount: payment.amount };
        let response = driftq_ledger::Response::json(&receipt)?.code(201);
        self.store.finish_tx(&transaction, lease, &Ending::succeeded(response)).await?;
        transaction.commit().await?;
        Ok((StatusCode::CREATED, Json(receipt)).into_response())
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, why.to_owned()).into_response()
}
