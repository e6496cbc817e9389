//! What `driftq ledger` says when it is not let, not understood, or not answered.

use crate::command::{run, run_with};
use crate::schema::{DATABASE, Schema, one_of_each, says, shows};

#[tokio::test]
async fn a_database_that_does_not_let_us_is_told_apart() {
    let schema = Schema::migrated("denied");
    one_of_each(&schema.ledger()).await;
    let read_only = schema.url_with("driftq", "-c%20default_transaction_read_only%3Don");
    assert_eq!(schema.run_at(&read_only, &["list", "-o", "ndjson"]).ok().lines().len(), 6);
    let resolve = ["resolve", "ann", "pay", "unclear", "--status", "succeeded", "--why", "w"];
    says(schema.run_at(&read_only, &resolve), 1, &["takes no writes", "primary"]);
    says(schema.run_at(&read_only, &["sweep"]), 1, &["takes no writes", "primary"]);

    let role = format!("cli_nobody_{}", std::process::id());
    DATABASE.psql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).unwrap();
    let nobody = schema.url_with(&format!("{role}:secret"), "");
    let refused = schema.run_at(&nobody, &["list"]).code(4);
    shows(&refused.stderr, &["the store refuses", "permission denied", "SELECT, INSERT"]);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);

    schema.psql("UPDATE {table} SET status = 'DONE' WHERE idempotency_key = 'done'");
    let listed = schema.run(&["list", "-o", "ndjson"]).ok();
    assert_eq!(listed.lines().len(), 5, "one row that cannot be read is in the way of no other");
    shows(&listed.stderr, &["warning: 1 record(s) cannot be read"]);
    says(schema.run(&["show", "ann", "pay", "done"]), 10, &["DONE", "does not understand"]);
    shows(&schema.run(&["stats"]).ok().stderr, &["warning: 1 record(s) cannot be read"]);
    shows(&schema.run(&["show", "ann", "pay", "later"]).ok().stdout, &["failed_retryable"]);
}

#[test]
fn no_password_is_repeated_whatever_goes_wrong() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = DATABASE.url().rsplit_once('@').unwrap().1.split('/').next().unwrap();
    for (url, code) in [
        (format!("postgres://me:secret@{free}/pay"), 3),
        (format!("postgres://driftq:secret@{place}/no_such_database"), 4),
        (format!("postgres://no_such_role:secret@{place}/postgres"), 4),
        (format!("postgres://driftq:secret@{place}/postgres?secret=1"), 2),
        (format!("postgres://driftq:secret@{place}:secret/postgres"), 2),
        (format!("http://me:secret@{free}"), 2),
        ("https://me:secret@broker.example".to_owned(), 2),
        ("secret".to_owned(), 2),
        (format!("postgres://driftq@{place}/postgres?password=secret&connect_timeout=secret"), 2),
    ] {
        for how in [&["list"][..], &["migrate"], &["stats", "-o", "json"], &["sweep", "--dry-run"]] {
            for ran in [
                run_with(&[("DRIFTQ_LEDGER_STORE", &url)], &[&["ledger"][..], how].concat()),
                run(&[&["ledger", "--store", &url][..], how].concat()),
            ] {
                let ran = ran.code(code);
                assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("secret"), "{url}: {}", ran.stderr);
                let has_help = [" help: ", "\"help\":"].iter().any(|help| ran.stderr.contains(help));
                assert!(has_help, "{url}: {}", ran.stderr);
            }
        }
    }
    let help =
        run_with(&[("DRIFTQ_LEDGER_STORE", "postgres://me:secret@db/pay")], &["ledger", "list", "--help"]);
    assert!(!help.ok().stdout.contains("secret"));
}

#[test]
fn what_is_no_name_is_refused_at_once() {
    for (arguments, words) in [
        (&["show", "unknown", "pay", "k"][..], "answer each other's requests"),
        (&["show", "", "pay", "k"], "the principal is empty"),
        (&["show", "ann", "pay"], "<KEY>"),
        (&["list", "--status", "finished"], "in-progress"),
        (
            &["list", "--table", "keys; drop table users", "--store", "postgres://db"],
            "--table: the table is named",
        ),
        (&["resolve", "ann", "pay", "k", "--status", "succeeded"], "--why"),
    ] {
        says(run_with(&[("USER", "ann")], &[&["ledger"][..], arguments].concat()), 2, &[words]);
    }
    shows(
        &run(&["ledger", "--help"]).ok().stdout,
        &["Examples:", "driftq ledger sweep --dry-run", "--store"],
    );
    for command in ["migrate", "list", "show", "resolve", "sweep"] {
        shows(&run(&["ledger", command, "--help"]).ok().stdout, &["Examples:"]);
    }
}
