//! Keeps both crews at work: a worker that dies is replaced.

use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    sync::Notify,
    task::JoinSet,
};

use super::{
    plan::Point,
    provider::{Book, CREWS, Call, Crew, Fate, Provider},
    server::part,
    show::Show,
    worker::COMMAND,
};

pub(super) const SIGKILL: i32 = 9;

/// Everything that the workers have in common.
pub(super) struct Stage {
    provider: Mutex<Provider>,
    show: Show,
    url: String,
    place: PathBuf,
    /// Rings when an order was let go.
    moved: Notify,
}

/// One worker process.
struct Hand {
    child: Child,
    calls: Lines<BufReader<ChildStdout>>,
    answers: ChildStdin,
}

impl Stage {
    pub(super) fn new(provider: Provider, show: Show, url: String, place: PathBuf) -> Self {
        Self { provider: Mutex::new(provider), show, url, place, moved: Notify::new() }
    }

    pub(super) const fn show(&self) -> &Show {
        &self.show
    }

    /// How both crews did, in the order of [`CREWS`].
    pub(super) fn books(&self) -> [Book; 2] {
        let provider = self.provider();
        CREWS.map(|crew| provider.book(crew).clone())
    }

    fn provider(&self) -> MutexGuard<'_, Provider> {
        self.provider.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until all orders are settled. The workers end with this future.
    pub(super) async fn run<F: Future<Output = Result<()>>>(
        self: &Arc<Self>,
        workers: u16,
        settled: impl FnOnce() -> F,
    ) -> Result<()> {
        let mut hands = JoinSet::new();
        for crew in CREWS {
            for _ in 0..workers {
                let stage = Arc::clone(self);
                hands.spawn(async move { stage.replace(crew).await });
            }
        }
        let done = async {
            while !self.is_worked_on() {
                self.moved.notified().await;
            }
            settled().await
        };
        tokio::select! {
            done = done => done?,
            Some(ended) = hands.join_next() => ended.context("a worker's task ended")??,
        }
        hands.shutdown().await;
        Ok(())
    }

    fn is_worked_on(&self) -> bool {
        let provider = self.provider();
        CREWS.iter().all(|crew| provider.book(*crew).worked_on() == provider.book(*crew).messages())
    }

    /// One place in a crew: a worker after the other, until everything is over.
    async fn replace(&self, crew: Crew) -> Result<()> {
        loop {
            let mut hand = self.hire(crew)?;
            let (point, number) = self.serve(crew, &mut hand).await?;
            let pid = hand.child.id();
            hand.child.kill().await.context("killing a worker")?;
            let status = hand.child.wait().await.context("a killed worker")?;
            // Only what the system confirms counts.
            if status.signal() != Some(SIGKILL) {
                bail!("a worker was to be killed and ended with {status} by itself");
            }
            self.provider().killed(crew, point);
            self.show.killed(crew, point, number, pid);
            self.show.update(&self.books());
        }
    }

    fn hire(&self, crew: Crew) -> Result<Hand> {
        let name = if crew == Crew::Naive { "naive" } else { "driftq" };
        let log = File::options().create(true).append(true).open(self.place.join("workers.log"));
        let mut child = part(COMMAND)?
            .args(["--crew", name, "--url", &self.url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.context("the workers' log")?)
            .spawn()
            .context("starting a worker")?;
        let calls = BufReader::new(child.stdout.take().context("a worker's stdout")?).lines();
        let answers = child.stdin.take().context("a worker's stdin")?;
        Ok(Hand { child, calls, answers })
    }

    /// Answers a worker's calls until one of them is its last.
    async fn serve(&self, crew: Crew, hand: &mut Hand) -> Result<(Point, u32)> {
        while let Some(line) = hand.calls.next_line().await.context("a worker's call")? {
            let call: Call = serde_json::from_str(&line).context("a worker's call")?;
            let fate = self.provider().hear(crew, &call)?;
            let said = match fate {
                Fate::Dies(point, number) => return Ok((point, number)),
                Fate::Goes(said) => said,
            };
            let answer = format!("{}\n", serde_json::to_string(&said)?);
            hand.answers.write_all(answer.as_bytes()).await.context("answering a worker")?;
            if matches!(call, Call::Acking { .. }) {
                self.show.update(&self.books());
                self.moved.notify_one();
            }
        }
        let status = hand.child.wait().await.context("a worker")?;
        let log = std::fs::read_to_string(self.place.join("workers.log")).unwrap_or_default();
        bail!("a worker ended by itself ({status}): {}", log.lines().last().unwrap_or_default())
    }
}
