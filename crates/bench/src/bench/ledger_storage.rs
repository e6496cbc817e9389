//! What records of the ledger cost the database: updates in place, bytes of its log, and whether calls get dearer when
//! there are many.

use std::time::Instant;

use anyhow::{Context, Result};
use driftq_ledger::{Filter, Ledger, LedgerError, Status, Sweep, postgres::PostgresStore};

use super::{
    Plan,
    figure::{Figure, Must, Report, Unit},
    ledger::{Bed, Job, METHOD, PRINCIPAL, SCHEMA, WAYS, pair, scattered},
    progress::Progress,
    statistics::{median, ratio},
};

/// Of all updates, how many must be in place.
const MUST_HOT_PERCENT: f64 = 90.0;
/// What a pair may write to the log, by what the bare statements do.
const MUST_LOG_RATIO: f64 = 1.2;
/// What must be left of the rate with many records.
const MUST_FLAT_RATIO: f64 = 0.9;
/// Pairs of which the log is measured at a time.
const LOGGED: u64 = 500;
/// How often, ours and the peer's in turns; the median counts.
const LOGGED_ROUNDS: u64 = 7;
/// Pairs before, which bring whole pages into the log.
const WARM: u64 = 2_000;
/// How often a sweep and the counts are timed.
const TIMED: usize = 9;
/// Few records, to compare with.
const FEW: u64 = 10_000;
/// Records that are filled in by one statement.
const FILLED_AT_ONCE: u64 = 1_000_000;

impl Bed<'_> {
    pub(super) async fn measure_storage(
        &self,
        plan: &Plan,
        progress: &Progress,
        report: &mut Report,
    ) -> Result<()> {
        progress.expect(2);
        progress.step("updates in place");
        self.in_place(report).await?;
        progress.step("bytes of the log");
        self.log_bytes(report).await?;
        self.flat(plan, progress, report).await
    }

    /// A number that a statement gives.
    async fn number(&self, statement: &str) -> Result<f64> {
        let client = self.store.pool().get().await.context("connecting to the database")?;
        let row = client.query_one(statement, &[]).await.context("asking the database")?;
        Ok(row.try_get::<_, i64>(0)? as f64)
    }

    /// Of all pairs of the rounds before. A session tells what it has done when it ends.
    async fn in_place(&self, report: &mut Report) -> Result<()> {
        self.store.pool().retain(|_, _| false);
        let of = |column: &str| {
            format!(
                "SELECT {column} FROM pg_stat_user_tables WHERE schemaname = '{SCHEMA}' AND relname = 'keys'"
            )
        };
        // The sessions end by themselves; the counts are there when they have.
        let (mut before, mut all) = (-1.0, 0.0);
        while before < all {
            before = all;
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            all = self.number(&of("n_tup_upd")).await?;
        }
        let hot = self.number(&of("n_tup_hot_upd")).await?;
        let figure = Figure::new("endings written in place", hot * 100.0 / all.max(1.0), Unit::Percent);
        report.add(figure.must(Must::AtLeast(MUST_HOT_PERCENT)));
        Ok(())
    }

    /// Bytes per pair, ours and of an insert and an update, in tables of their own: nothing cleans up after the rounds
    /// before, and every page that is written has been written since the last checkpoint.
    async fn log_bytes(&self, report: &mut Report) -> Result<()> {
        self.store.pool().resize(1);
        let store = self.store.clone().table(&format!("{SCHEMA}.logged"))?;
        store.migrate().await?;
        self.run(&format!(
            "CREATE TABLE {SCHEMA}.logged_bare (LIKE {SCHEMA}.bare INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING INDEXES); \
             ALTER TABLE {SCHEMA}.logged SET (autovacuum_enabled = false); \
             ALTER TABLE {SCHEMA}.logged_bare SET (autovacuum_enabled = false); \
             ALTER TABLE {SCHEMA}.keys SET (autovacuum_enabled = false); \
             ALTER TABLE {SCHEMA}.bare SET (autovacuum_enabled = false)"
        ))
        .await?;
        let ledger = Ledger::new(store);
        // Only some users may.
        drop(self.run("CHECKPOINT").await);
        self.both_logged(&ledger, 0, WARM).await?;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for round in 1..=LOGGED_ROUNDS {
            let (our, peer) = self.both_logged(&ledger, round, LOGGED).await?;
            ours.push(our);
            bare.push(peer);
        }
        let figure = Figure::new("log per begin + finish", median(&ours), Unit::Bytes);
        let figure = figure.beside("INSERT and UPDATE of a row", median(&bare), ratio(&ours, &bare));
        report.add(figure.must(Must::RatioAtMost(MUST_LOG_RATIO)));
        Ok(())
    }

    /// Bytes of the log per pair, ours and the peer's, each with the same keys.
    async fn both_logged(&self, ledger: &Ledger, round: u64, pairs: u64) -> Result<(f64, f64)> {
        let position = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let keys = (round * WARM..).take(usize::try_from(pairs).unwrap_or(usize::MAX)).map(scattered);
        let keys: Vec<String> = keys.collect();
        let before = self.number(position).await?;
        for key in &keys {
            pair(ledger, key, &self.payload).await?;
        }
        let between = self.number(position).await?;
        for key in &keys {
            self.bare_pair(key).await?;
        }
        let after = self.number(position).await?;
        Ok(((between - before) / pairs as f64, (after - between) / pairs as f64))
    }

    async fn bare_pair(&self, key: &str) -> Result<()> {
        let client = self.store.pool().get().await.context("connecting to the database")?;
        let insert = format!(
            "INSERT INTO {SCHEMA}.logged_bare (principal, grpc_method, idempotency_key, request_hash, status, \
             lease_expires_at, expires_at) VALUES ('{PRINCIPAL}', '{METHOD}', $1, repeat('a', 64), 'IN_PROGRESS', \
             now() + interval '30 s', now() + interval '1 day')"
        );
        let update = format!(
            "UPDATE {SCHEMA}.logged_bare SET status = 'SUCCEEDED', response_code = 200, response_payload = $2, \
             updated_at = now() WHERE principal = '{PRINCIPAL}' AND grpc_method = '{METHOD}' \
             AND idempotency_key = $1 AND status = 'IN_PROGRESS'"
        );
        client.execute(&insert, &[&key]).await.context("a bare insert")?;
        client.execute(&update, &[&key, &self.payload]).await.context("a bare update")?;
        Ok(())
    }

    /// The same load with few records and with many, in a table of its own.
    async fn flat(&self, plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
        let connections = plan.connections.last().copied().unwrap_or(1).min(64);
        let store = self.store.clone().table(&format!("{SCHEMA}.flat"))?;
        store.migrate().await?;
        let ledger = Ledger::new(store.clone());
        progress.expect(2 + plan.rounds * 2);
        let (mut rates, mut sweeps, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for records in [FEW, plan.retained] {
            progress.step("filling in records");
            self.fill(&store, &ledger, records).await?;
            let mut round = Vec::new();
            for _ in 0..plan.rounds {
                progress.step("begin and finish among many");
                round.push(self.load(&store, WAYS[0], connections, plan, Job::Pair).await?);
            }
            rates.push(round);
            while ledger.sweep(Sweep::default()).await?.more {}
            sweeps.push(Self::timed(|| async { ledger.sweep(Sweep::default()).await.map(drop) }).await?);
            counts.push(Self::timed(|| async { ledger.stats().await.map(drop) }).await?);
        }
        let name = format!("begin + finish with {} records, {connections} connections", plan.retained);
        let figure = Figure::new(name, median(&rates[1]), Unit::PerSecond);
        let peer = format!("with {FEW} records");
        let figure = figure.beside(peer, median(&rates[0]), ratio(&rates[1], &rates[0]));
        report.add(figure.must(Must::RatioAtLeast(MUST_FLAT_RATIO)));
        for (what, times) in [("a sweep", sweeps), ("counts", counts)] {
            let name = format!("{what} with {} records", plan.retained);
            let figure = Figure::new(name, times[1], Unit::Milliseconds);
            report.add(figure.beside(format!("with {FEW} records"), times[0], times[1] / times[0].max(1e-3)));
        }
        let unknown = Filter { status: Some(Status::Unknown), limit: 100, ..Filter::default() };
        let started = Instant::now();
        ledger.list(&unknown).await?;
        let name = format!("list of what is unknown with {} records", plan.retained);
        report.add(Figure::new(name, started.elapsed().as_secs_f64() * 1e3, Unit::Milliseconds));
        Ok(())
    }

    /// Milliseconds of a call, the median of some.
    async fn timed<Fut: Future<Output = Result<(), LedgerError>>>(call: impl Fn() -> Fut) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..TIMED {
            let started = Instant::now();
            call().await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(&times))
    }

    /// Records that have ended, under keys in no order, up to this many.
    async fn fill(&self, store: &PostgresStore, ledger: &Ledger, records: u64) -> Result<()> {
        let table = format!("{SCHEMA}.flat");
        let there = self.number(&format!("SELECT count(*) FROM {table}")).await? as u64;
        // An index over keys in no order is made sooner than it is grown.
        self.run(&format!("ALTER TABLE {table} DROP CONSTRAINT flat_pkey")).await?;
        let mut from = there;
        while from < records {
            let to = records.min(from + FILLED_AT_ONCE);
            self.run(&format!(
                "INSERT INTO {table} (principal, grpc_method, idempotency_key, request_hash, hash_version, status, \
                     response_code, response_payload, lease_expires_at, expires_at) \
                 SELECT '{PRINCIPAL}', '{METHOD}', md5(n::text), repeat('a', 64), 1, 'SUCCEEDED', 200, \
                     convert_to(repeat('x', {}), 'UTF8'), NULL, now() + interval '1 day' \
                 FROM generate_series({from} + 1, {to}) AS n",
                self.payload.len()
            ))
            .await?;
            from = to;
        }
        self.run(&format!("ALTER TABLE {table} ADD PRIMARY KEY (principal, grpc_method, idempotency_key)"))
            .await?;
        self.run(&format!("VACUUM ANALYZE {table}")).await?;
        drop(self.run("CHECKPOINT").await);
        store.pool().retain(|_, _| false);
        while ledger.sweep(Sweep::default()).await?.more {}
        Ok(())
    }
}
