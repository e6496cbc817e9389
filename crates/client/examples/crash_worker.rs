//! A worker that may be killed at any moment. The books show afterwards that nothing was charged twice or forgotten.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::time::Duration;

use driftq_client::{Client, Failure, Found, Worker, json};
use serde::{Deserialize, Serialize};

/// The longest pause on either side of the line in the books: room for a kill.
const PAUSE_MS_MAX: u64 = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Charge {
    key: String,
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

async fn pause() -> Result<(), Failure> {
    let random = getrandom::u64().map_err(|error| Failure::new(error.to_string()))?;
    tokio::time::sleep(Duration::from_millis(random % (PAUSE_MS_MAX + 1))).await;
    Ok(())
}

/// Appends one line in a single write, so that it is there whole or not at all.
async fn enter(books: &str, key: &str) -> Result<String, Failure> {
    pause().await?;
    let line = format!("{key} {}\n", std::process::id());
    let written = OpenOptions::new().append(true).create(true).open(books)?.write(line.as_bytes())?;
    if written != line.len() {
        return Err(Failure::new("the line was not written whole"));
    }
    pause().await?;
    Ok(line.trim_end().to_owned())
}

/// Whether the books have a line with this key.
fn look(books: &str, key: &str) -> Result<Found, Failure> {
    let mut text = String::new();
    match File::open(books) {
        Ok(mut file) => file.read_to_string(&mut text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error.into()),
    };
    match text.lines().find(|line| line.split(' ').next() == Some(key)) {
        Some(line) => Found::succeeded(line),
        None => Ok(Found::NotDone),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = Client::connect()?;
    let books = std::env::var("BOOKS").map_err(|_| Failure::new("BOOKS must name a file"))?;
    let lease = Duration::from_millis(setting("LEASE_MS", "3000").parse()?);
    let worker = Worker::new(&client, setting("GROUP", "billing")).concurrency(4).lease(lease);
    let worker = worker.handle(setting("TOPIC", "charges"), move |charge: Charge, context| {
        let books = books.clone();
        async move {
            let key = charge.key.clone();
            let (own, known) = (books.clone(), key.clone());
            let effect = context.effect("charge").key(&key).hold().reconcile(move |_| {
                let found = look(&own, &known);
                async move { found }
            });
            let _: String = effect.run(|| enter(&books, &key)).await?;
            Ok(context.send("receipts", json(&charge))?)
        }
    });
    Ok(worker.run().await?)
}
