//! Several copies of one export, and other exports under the same id.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use driftq_connect::export::{Export, ExportError, Format, Silent, Step, Watch};
use tempfile::TempDir;

use crate::support::{fill, filled, into, pointer, run, served, tree, whole};

/// Stops behind a step, says so, and goes on when it is told.
struct Halting {
    behind: Step,
    arrived: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

impl Halting {
    fn new(behind: Step) -> (Self, Receiver<()>, Sender<()>) {
        let ((arrived, is_there), (go, may_go)) = (channel(), channel());
        (Self { behind, arrived: Mutex::new(arrived), go: Mutex::new(may_go) }, is_there, go)
    }
}

impl Watch for Halting {
    fn step(&self, step: Step) {
        if step == self.behind {
            self.arrived.lock().unwrap().send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_copies_runs_and_the_other_says_so_or_waits() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 50).await;
    let export = into(folder.path(), "twice", whole("orders"), Format::Csv);
    let (halting, is_there, go) = Halting::new(Step::Planned);
    let first = tokio::spawn({
        let (export, client) = (export.clone(), client.clone());
        async move { export.run(&client, &halting, std::future::pending()).await }
    });
    tokio::task::spawn_blocking(move || is_there.recv().unwrap()).await.unwrap();
    let busy = run(&export, &client).await.unwrap_err();
    assert!(matches!(&busy, ExportError::Busy { id, .. } if id == "twice"), "{busy}");
    let patient = tokio::spawn({
        let (export, client) = (Export { wait: Duration::from_secs(30), ..export }, client.clone());
        async move { run(&export, &client).await }
    });
    go.send(()).unwrap();
    let (first, second) = (first.await.unwrap().unwrap(), patient.await.unwrap().unwrap());
    assert_eq!((first.is_replay, second.is_replay), (false, true));
    assert_eq!(first.manifest, second.manifest);
    assert_eq!(first.location, second.location);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_overtaken_cannot_commit() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 50).await;
    let mut export = into(folder.path(), "overtaken", whole("orders"), Format::Ndjson);
    export.lease = Duration::from_millis(200);
    let (halting, is_there, go) = Halting::new(Step::Described);
    let frozen = tokio::spawn({
        let (export, client) = (export.clone(), client.clone());
        async move { export.run(&client, &halting, std::future::pending()).await }
    });
    tokio::task::spawn_blocking(move || is_there.recv().unwrap()).await.unwrap();
    // The first one is frozen just before its commit: it renews nothing, and another takes over.
    export.wait = Duration::from_secs(30);
    let second = run(&export, &client).await.unwrap();
    assert!(!second.is_replay);
    go.send(()).unwrap();
    let late = frozen.await.unwrap().unwrap_err();
    assert!(matches!(late, ExportError::Overtaken { .. }), "{late}");
    assert_eq!(pointer(&client, "overtaken").await, Some((second.location, second.digest)));
}

#[tokio::test]
async fn the_same_again_writes_nothing_and_another_under_the_id_is_refused() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 50).await;
    let export = into(folder.path(), "once", whole("orders"), Format::Parquet);
    let first = run(&export, &client).await.unwrap();
    let files = tree(folder.path());
    fill(&client, "orders", 50..60).await;
    let again = run(&export, &client).await.unwrap();
    assert_eq!((again.is_replay, &again.manifest), (true, &first.manifest));
    assert_eq!((&again.location, &again.digest), (&first.location, &first.digest));
    assert_eq!(tree(folder.path()), files, "a replay writes nothing");
    let other = TempDir::new().unwrap();
    for different in [
        into(folder.path(), "once", whole("letters"), Format::Parquet),
        into(folder.path(), "once", whole("orders"), Format::Csv),
        into(other.path(), "once", whole("orders"), Format::Parquet),
        Export { version: "v2".to_owned(), ..export.clone() },
    ] {
        let refused = run(&different, &client).await.unwrap_err();
        assert!(matches!(&refused, ExportError::Reused { id } if id == "once"), "{refused}");
    }
    assert_eq!(tree(folder.path()), files);
    // A slip of the pen does not use an id up.
    let slip = run(&into(folder.path(), "slip", whole("order"), Format::Csv), &client).await.unwrap_err();
    assert!(matches!(slip, ExportError::Server(_)), "{slip}");
    assert_eq!(
        run(&into(folder.path(), "slip", whole("orders"), Format::Csv), &client).await.unwrap().manifest.rows,
        60
    );
    for id in ["", ".hidden", "a/b", "..", "a b", &"x".repeat(129)] {
        let refused = run(&into(folder.path(), id, whole("orders"), Format::Csv), &client).await.unwrap_err();
        assert!(matches!(refused, ExportError::Invalid(_)), "{id}: {refused}");
    }
}

#[tokio::test]
async fn one_that_is_stopped_leaves_it_to_the_next_at_once() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 50).await;
    let export = into(folder.path(), "stopped", whole("orders"), Format::Ndjson);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    /// Asks to stop at a step, as a signal does.
    struct Stopping(Mutex<Option<tokio::sync::oneshot::Sender<()>>>);
    impl Watch for Stopping {
        fn step(&self, step: Step) {
            if step == Step::Planned {
                self.0.lock().unwrap().take().unwrap().send(()).unwrap();
            }
        }
    }
    let watch = Stopping(Mutex::new(Some(stop)));
    let ended = export.run(&client, &watch, async { stopped.await.unwrap() }).await.unwrap_err();
    assert!(matches!(ended, ExportError::Stopped), "{ended}");
    assert_eq!(pointer(&client, "stopped").await, None);
    // Without any wait: the lease was given up.
    let done = run(&export, &client).await.unwrap();
    assert_eq!((done.is_replay, done.manifest.rows), (false, 50));
}

#[tokio::test]
async fn a_newer_attempt_of_the_message_fences_an_export_off() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 50).await;
    client.create_topic("tasks", &Default::default()).await.unwrap();
    client.produce("tasks", driftq_client::raw("export")).await.unwrap();
    let mut export = into(folder.path(), "task-1", whole("orders"), Format::Ndjson);
    let lease = async |wait_ms: u64| {
        let request = serde_json::json!({"owner": "worker", "lease_ms": 300, "wait_ms": wait_ms});
        let leased: driftq_client::wire::Leased<'static> =
            client.post("/v2/topics/tasks/groups/exporters/lease", &request).await.unwrap();
        leased.messages[0].lease.as_ref().unwrap().token.to_string()
    };
    export.lease_token = Some(lease(0).await);
    let newer = lease(10_000).await;
    let late = export.run(&client, &Silent, std::future::pending()).await.unwrap_err();
    assert!(matches!(late, ExportError::Server(_) | ExportError::Overtaken { .. }), "{late}");
    assert_eq!(pointer(&client, "task-1").await, None);
    export.lease_token = Some(newer);
    assert_eq!(run(&export, &client).await.unwrap().manifest.rows, 50);
    assert!(pointer(&client, "task-1").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_may_choose_the_same_id_at_the_same_place() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 50).await;
    filled(&client, "mails", 20).await;
    let of = |tenant: &str, topic: &str| Export {
        tenant_id: tenant.to_owned(),
        ..into(folder.path(), "same", whole(topic), Format::Csv)
    };
    let (halting, is_there, go) = Halting::new(Step::Staged(0));
    let first = tokio::spawn({
        let (export, client) = (of("acme", "orders"), client.clone());
        async move { export.run(&client, &halting, std::future::pending()).await }
    });
    tokio::task::spawn_blocking(move || is_there.recv().unwrap()).await.unwrap();
    let second = run(&of("zenith", "mails"), &client).await.unwrap();
    go.send(()).unwrap();
    let first = first.await.unwrap().unwrap();
    assert_eq!((first.manifest.rows, second.manifest.rows), (50, 20));
    for exported in [first, second] {
        let manifest = exported.location.strip_prefix("file://").unwrap();
        let beside = std::path::Path::new(manifest).parent().unwrap();
        for part in exported.manifest.parts {
            assert!(beside.join(&part.name).is_file(), "{} of {manifest} is gone", part.name);
        }
    }
}
