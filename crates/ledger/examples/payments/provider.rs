//! What stands for a payment provider: something outside the database that cannot be rolled back.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, Result};

/// A file with a line per payout. Unlike most providers it does not recognise a key that it has seen: it would pay
/// twice.
pub(crate) struct Provider {
    book: Mutex<File>,
}

impl Provider {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let book = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { book: Mutex::new(book.with_context(|| format!("opening {}", path.display()))?) })
    }

    /// Pays. From the moment of the write on, the money is gone.
    pub(crate) fn pay(&self, key: &str, account: &str, amount: u64) -> std::io::Result<()> {
        let mut book = self.book.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        book.write_all(format!("{key}\t{account}\t{amount}\n").as_bytes())?;
        book.sync_data()
    }
}

/// What the provider says when it is asked: how often it has paid under each key.
pub(crate) fn paid(path: &Path) -> Result<BTreeMap<String, u64>> {
    let book = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut paid = BTreeMap::new();
    for line in book.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        if let Some((key, _)) = line.split_once('\t') {
            *paid.entry(key.to_owned()).or_default() += 1;
        }
    }
    Ok(paid)
}
