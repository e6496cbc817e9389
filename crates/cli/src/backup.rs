//! `driftq backup` and `driftq restore`: the log of a data directory, kept elsewhere and brought back.

use std::fs;
use std::io::{BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use driftq_api::units::about_bytes;
use driftq_connect::backup::{Backup, Manifest};
use driftq_connect::export::{ExportError, PlaceUrl};
use driftq_engine::tools::{self, Outlook};
use driftq_engine::transfer::{self, Copy, CopyEnd};
use serde::Serialize;

use crate::migrate::explain;
use crate::wal::Directory;
use crate::{Common, Exit, Fault, aligned, grouped, printable, progress};

/// How often a copy begins again because the server gave up a file that it needs.
const COPIES_MAX: usize = 10;
/// What a data directory is called until it is whole; the digest of the manifest follows.
const UNFINISHED: &str = ".restoring-";
/// Letters of that digest.
const DIGEST_SHOWN: usize = 12;

const PLACES: &str = "PLACE is a directory (a path, or file:///path) or an object store: s3://bucket/prefix, \
gs://bucket/prefix, az://container/prefix, with credentials from the usual environment variables of each store.";

/// Where backups are, and which one is meant.
#[derive(clap::Args)]
struct Named {
    /// Where backups are kept: a directory, or s3://bucket/prefix, gs://…, az://…
    place: String,
    /// The name of the backup: 1 to 100 of a-z, A-Z, 0-9, -, _ and .
    #[arg(long)]
    id: String,
    /// Where an S3-compatible store is; AWS_ENDPOINT_URL if not given
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

impl Named {
    fn open(&self) -> Result<Backup> {
        let place = PlaceUrl::parse(&self.place, self.endpoint.as_deref()).map_err(refused)?;
        Backup::open(&place, &self.id).map_err(refused)
    }
}

#[derive(clap::Args)]
#[command(after_help = const_format())]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    directory: Directory,
}

fn const_format() -> String {
    format!(
        "{PLACES}

Reads the data directory, while a server is at work on it or not; the server notices nothing. Everything that was \
acknowledged before the command began is in the backup, which says up to which position it reaches. If there are several \
shards, all of them are in it, each up to a position of its own, and what one has sent to another is in it once. A log in \
PostgreSQL is backed up by the tools of PostgreSQL.

A backup counts once its manifest is there, which is written last. One that was killed is repeated by the same command, \
and keeps the parts that are there. The same id again changes nothing.

The root key is not in it: keep it elsewhere.

Examples:
  driftq backup ./backups --id monday --data /var/lib/driftq
  driftq backup s3://bucket/driftq --id 2026-11-17 --data /var/lib/driftq
  driftq backup s3://bucket/driftq --id tuesday --endpoint http://127.0.0.1:8333 -o json"
    )
}

fn restore_help() -> String {
    format!(
        "{PLACES}

Every part is checked against its digest, and the log as a start would check it, before the directory has its name: it \
is there whole or not at all. One that was killed is repeated by the same command.

Stop the server whose backup it is before another one serves from the copy: what the first hands out after the backup \
is not known to the second.

Examples:
  driftq restore ./backups --id monday --data /var/lib/driftq-new
  driftq restore s3://bucket/driftq --id 2026-11-17 --data /var/lib/driftq -o json"
    )
}

#[derive(clap::Args)]
#[command(after_help = restore_help())]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    named: Named,
    /// The data directory to make; it must not exist yet, or be empty
    #[arg(long, env = "DRIFTQ_DATA", hide_env_values = true, value_name = "DIR")]
    data: PathBuf,
}

/// What was kept or brought back.
#[derive(Serialize)]
struct Report {
    result: &'static str,
    id: String,
    location: String,
    end: String,
    messages: u64,
    files: usize,
    bytes: u64,
    parts_reused: u64,
    digest: String,
}

impl Report {
    fn new(result: &'static str, location: String, manifest: &Manifest, parts_reused: u64) -> Self {
        Self {
            result,
            id: manifest.id.clone(),
            location,
            end: manifest.end.clone(),
            messages: manifest.messages,
            files: manifest.files.len(),
            bytes: manifest.bytes(),
            parts_reused,
            digest: manifest.digest(),
        }
    }

    fn display(&self) -> String {
        aligned(&[
            (self.result, printable(&self.location)),
            ("up to", self.end.clone()),
            ("messages", grouped(self.messages)),
            ("size", format!("{} in {} file(s)", about_bytes(self.bytes), self.files)),
            ("digest", self.digest.clone()),
        ])
    }
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut backup = args.named.open()?;
    if let Some(manifest) = backup.manifest().await.map_err(refused)? {
        let report = Report::new("kept before", backup.location(), &manifest, 0);
        return common.show(&report, Report::display);
    }
    backup.begin().await.map_err(refused)?;
    let spinner = progress::spinner("copying the log");
    let mut manifest = None;
    for _ in 0..COPIES_MAX {
        manifest = copy(&mut backup, &args.named.id, &args.directory.data, &spinner).await?;
        if manifest.is_some() {
            break;
        }
    }
    spinner.finish_and_clear();
    let Some(manifest) = manifest else {
        let what = "the server gave up files faster than they could be copied";
        return Err(Fault::new(Exit::Overloaded, what).help("run the same command again").into());
    };
    if !backup.finish(&manifest).await.map_err(refused)? {
        let what = format!("another process has made the backup {} meanwhile", printable(&args.named.id));
        return Err(Fault::new(Exit::Conflict, what).help("choose another --id for this one").into());
    }
    common.show(&Report::new("kept", backup.location(), &manifest, backup.reused), Report::display)
}

/// One attempt; `None` if the server gave up a file that it needs.
async fn copy(
    backup: &mut Backup,
    id: &str,
    data: &Path,
    spinner: &indicatif::ProgressBar,
) -> Result<Option<Manifest>> {
    let mut copy = Copy::begin(data).map_err(|error| explain(&error))?;
    let mut files = Vec::new();
    loop {
        let mut file = tempfile::tempfile().context("making a temporary file")?;
        let mut out = BufWriter::new(&mut file);
        let Some(copied) = copy.next(&mut out).map_err(|error| explain(&error))? else { break };
        out.flush().context("writing a temporary file")?;
        drop(out);
        file.rewind().context("reading a temporary file")?;
        spinner.set_message(format!("keeping {}", copied.name));
        files.push(backup.put(&copied.name, copied.length, &mut file).await.map_err(refused)?);
    }
    let CopyEnd::Whole { end, messages, shards } = copy.finish() else { return Ok(None) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let taken_at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let made_by = concat!("driftq ", env!("CARGO_PKG_VERSION"));
    let shards = Some(shards);
    Ok(Some(Manifest { end, messages, shards, files, ..Manifest::new(id, made_by, taken_at_ms) }))
}

pub(super) async fn restore(common: &Common, args: &RestoreArgs) -> Result<()> {
    let backup = args.named.open()?;
    let data = std::path::absolute(&args.data).context("the data directory")?;
    if fs::read_dir(&data).is_ok_and(|mut entries| entries.next().is_some()) {
        let what = format!("the directory {} is not empty", data.display());
        return Err(Fault::new(Exit::Conflict, what)
            .help("name one that does not exist yet with --data")
            .into());
    }
    let Some(manifest) = backup.manifest().await.map_err(refused)? else {
        let what = format!("there is no whole backup at {}", printable(&backup.location()));
        let help = "one that was interrupted is completed by the same `driftq backup`";
        return Err(Fault::new(Exit::Invalid, what).help(help).into());
    };
    if let Some(shard) = manifest.missing() {
        let lost =
            if shard == 0 { "the log of the first shard".to_owned() } else { format!("shard-{shard}") };
        let what = format!("{lost} is missing in the backup {}", printable(&backup.location()));
        return Err(Fault::new(Exit::Damaged, what).help("use another backup").into());
    }
    let digest = manifest.digest();
    let unfinished = transfer::unfinished(&data, &format!("{UNFINISHED}{}", &digest[..DIGEST_SHOWN]));
    fs::create_dir_all(&unfinished).with_context(|| format!("making {}", unfinished.display()))?;
    let spinner = progress::spinner("restoring the log");
    for file in &manifest.files {
        let path = unfinished.join(&file.name);
        // It has its name since it is whole.
        if !path.exists() {
            if let Some(shard) = path.parent() {
                fs::create_dir_all(shard).with_context(|| format!("making {}", shard.display()))?;
            }
            spinner.set_message(format!("restoring {}", printable(&file.name)));
            backup.fetch(file, &path).await.map_err(refused)?;
        }
    }
    spinner.finish_and_clear();
    check(&unfinished)?;
    transfer::put_in_place(&unfinished, &data).map_err(|error| explain(&error))?;
    let location = data.display().to_string();
    common.show(&Report::new("restored", location, &manifest, 0), Report::display)
}

/// Whether a server would start on it.
fn check(unfinished: &Path) -> Result<()> {
    let damaged = |what| Fault::new(Exit::Damaged, what).help("use another backup");
    for dir in transfer::logs_in(unfinished).map_err(|error| damaged(error.to_string()))? {
        let looked = tools::inspect(&dir, false, &mut |_| {}).context("looking at what was restored")?;
        if looked.outlook != Outlook::Sound {
            return Err(damaged(looked.text).into());
        }
    }
    Ok(())
}

fn refused(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Invalid(why) => Fault::new(Exit::Usage, why).into(),
        error => Fault::new(Exit::Failure, error.to_string()).into(),
    }
}

#[cfg(test)]
mod tests {
    use driftq_engine::{Broker, Config, Storage};

    use super::*;
    use crate::block_on;

    /// A home with the data of a server of three shards, of which a backup was kept.
    fn kept() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let storage = Storage::Directory(data.clone());
        let config = Config { storage, shards: 3, segment_bytes: 64 << 10, ..Config::default() };
        let broker = Broker::start(config).unwrap().broker;
        block_on(async {
            broker.stop().await;
            let args = Args { named: named(home.path()), directory: Directory { data } };
            run(&Common::default(), &args).await
        })
        .unwrap();
        home
    }

    fn named(home: &Path) -> Named {
        let place = home.join("backups").display().to_string();
        Named { place, id: "one".to_owned(), endpoint: None }
    }

    /// Restores the backup after its manifest was changed.
    fn restored(home: &Path, change: impl Fn(&mut Manifest)) -> Result<PathBuf> {
        let path = home.join("backups/one/manifest.json");
        let mut manifest = serde_json::from_slice(&fs::read(&path)?)?;
        change(&mut manifest);
        fs::write(path, serde_json::to_vec(&manifest)?)?;
        let data = home.join("in/restored");
        fs::create_dir_all(home.join("in"))?;
        let args = RestoreArgs { named: named(home), data: data.clone() };
        block_on(restore(&Common::default(), &args))?;
        Ok(data)
    }

    #[test]
    fn all_shards_are_kept_and_come_back() {
        let home = kept();
        let data = restored(home.path(), |manifest| {
            assert_eq!(manifest.end.split(", ").count(), 3, "{}", manifest.end);
        })
        .unwrap();
        assert_eq!(transfer::logs_in(&data).unwrap().len(), 3);
        for shard in ["", "shard-1", "shard-2"] {
            let name = Path::new(shard).join("seg-00000001.log");
            let [there, here] =
                [&home.path().join("data"), &data].map(|dir| fs::read(dir.join(&name)).unwrap());
            assert!(there.iter().any(|byte| *byte != 0) && there == here, "{}", name.display());
        }
    }

    /// It does not say how many shards there are, and comes back all the same.
    #[test]
    fn a_backup_of_an_earlier_version_comes_back() {
        let home = kept();
        let data = restored(home.path(), |manifest| manifest.shards = None).unwrap();
        assert_eq!(transfer::logs_in(&data).unwrap().len(), 3);
    }

    #[test]
    fn a_manifest_does_not_reach_out_of_the_directory() {
        let home = kept();
        let rename = |manifest: &mut Manifest| {
            let file = manifest.files.iter_mut().find(|file| file.name.starts_with("shard-1/")).unwrap();
            file.name = "shard-1/seg-/../../../seg-00000001.log".to_owned();
        };
        let refused = restored(home.path(), rename).unwrap_err().to_string();
        assert!(refused.contains("no file of a log"), "{refused}");
        assert_eq!(fs::read_dir(home.path().join("in")).unwrap().count(), 0);
    }

    #[test]
    fn a_backup_in_which_a_shard_is_missing_or_damaged_does_not_come_back() {
        let lost = [
            ("shard-1/", "shard-1 is missing"),
            ("shard-2/", "shard-2 is missing"),
            ("s", "the log of the first shard is missing"),
            ("shard-2/seg-", "shard-2"),
        ];
        for (lost, why) in lost {
            let home = kept();
            let forget = |manifest: &mut Manifest| {
                assert_eq!(manifest.shards, Some(3));
                manifest.files.retain(|file| !file.name.starts_with(lost));
            };
            let refused = restored(home.path(), forget).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
            assert!(!home.path().join("in/restored").exists());
        }
    }
}
