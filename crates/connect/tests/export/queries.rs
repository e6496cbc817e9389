//! The rows of a query on a real PostgreSQL.

use std::path::Path;
use std::sync::LazyLock;

use driftq_connect::database::Database;
use driftq_connect::export::{Export, ExportError, Format, PartBounds, Selection, Step, Watch};
use driftq_testbed::Postgres;
use serde_json::json;

use crate::support::{into, lines, parts, run, served, tree};

static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::shared().expect("a database"));

fn asked(folder: &Path, id: &str, statement: &str, parameters: &[&str]) -> Export {
    let selection = Selection::Query {
        database: "shop".to_owned(),
        statement: statement.to_owned(),
        parameters: parameters.iter().map(|text| (*text).to_owned()).collect(),
    };
    let database = Some(Database::from_url(DATABASE.url().to_owned()));
    Export { database, ..into(folder, id, selection, Format::Ndjson) }
}

#[tokio::test]
async fn every_type_becomes_what_a_reader_expects() {
    let ((_server, client), folder) = (served().await, tempfile::tempdir().unwrap());
    let statement = "SELECT 7::int2 AS small, 9007199254740993::int8 AS large, 'ü\"'::text AS text, \
        0.10::numeric AS amount, true AS paid, '{\"a\":[1]}'::jsonb AS document, NULL::text AS nothing, \
        '2030-01-02 03:04:05.678901+02'::timestamptz AS at, DATE '2030-01-02' AS day, ARRAY[1,2] AS list, \
        '\\x00ff'::bytea AS bytes -- and a comment at the end;";
    let export = asked(folder.path(), "types", statement, &[]);
    let exported = run(&export, &client).await.unwrap();
    let row = &lines(folder.path(), &exported)[0];
    // As text, because a float would hide what a large or a long number has become.
    let text = String::from_utf8(parts(folder.path(), &exported).concat()).unwrap();
    assert!(text.contains(r#""large":9007199254740993"#) && text.contains(r#""amount":0.10"#), "{text}");
    assert_eq!(row["at"], "2030-01-02T01:04:05.678901Z");
    assert_eq!(
        (&row["day"], &row["list"], &row["bytes"]),
        (&json!("2030-01-02"), &json!([1, 2]), &json!("\\x00ff"))
    );
    assert_eq!(
        (&row["paid"], &row["document"], row.get("nothing")),
        (&json!(true), &json!({"a": [1]}), None)
    );
}

#[tokio::test]
async fn rows_come_by_strides_in_their_order_and_a_repeat_is_a_replay() {
    let ((_server, client), folder) = (served().await, tempfile::tempdir().unwrap());
    let statement = "SELECT n, 'row ' || n AS text FROM generate_series(1, $1::int) AS n ORDER BY n DESC;";
    let export = asked(folder.path(), "many", statement, &["1234"]);
    let exported = run(&export, &client).await.unwrap();
    let rows = lines(folder.path(), &exported);
    assert_eq!((rows.len(), &rows[0]["n"], &rows[1233]["n"]), (1234, &json!(1234), &json!(1)));
    let before = tree(folder.path());
    assert!(run(&export, &client).await.unwrap().is_replay);
    assert_eq!(tree(folder.path()), before, "a replay writes nothing");
    let other = asked(folder.path(), "many", statement, &["5"]);
    assert!(
        matches!(run(&other, &client).await, Err(ExportError::Reused { .. })),
        "another parameter is another export"
    );
}

#[tokio::test]
async fn a_query_cannot_write() {
    let ((_server, client), folder) = (served().await, tempfile::tempdir().unwrap());
    let sequence = format!("export_{}", std::process::id());
    DATABASE.psql(&format!("CREATE SEQUENCE {sequence}")).unwrap();
    let draw = format!("SELECT nextval('{sequence}') AS n");
    let refused = run(&asked(folder.path(), "draw", &draw, &[]), &client).await.unwrap_err();
    assert!(matches!(refused, ExportError::Query(_)) && refused.is_final(), "{refused}");
    let drawn = DATABASE.psql(&format!("SELECT is_called FROM {sequence}")).unwrap();
    assert_eq!(drawn.trim(), "f");
}

#[tokio::test]
async fn a_query_that_cannot_be_is_refused_with_words_and_its_id_stays_free() {
    let ((_server, client), folder) = (served().await, tempfile::tempdir().unwrap());
    for (statement, parameters, why) in [
        ("SELEC 1", &[][..], "syntax"),
        ("SELECT 1; SELECT 2", &[], "multiple commands"),
        ("SELECT * FROM nowhere", &[], "nowhere"),
        ("SELECT 1 AS a, 2 AS a", &[], "name them apart"),
        ("SELECT $1::int AS n", &[], "parameters"),
        ("SELECT $1::int AS n", &["one"], "invalid input syntax"),
    ] {
        let refused = run(&asked(folder.path(), "same", statement, parameters), &client).await.unwrap_err();
        assert!(refused.is_final() && refused.to_string().contains(why), "{statement}: {refused}");
    }
    let good = asked(folder.path(), "same", "SELECT 1 AS n", &[]);
    assert_eq!(run(&good, &client).await.unwrap().manifest.rows, 1, "the id is free");
    let away = Database::from_url("postgres://nobody@127.0.0.1:1/nothing".to_owned());
    let away = Export { database: Some(away), ..asked(folder.path(), "away", "SELECT 1 AS n", &[]) };
    let refused = run(&away, &client).await.unwrap_err();
    assert!(matches!(refused, ExportError::Database(_)) && !refused.is_final(), "{refused}");
}

/// Says when the first part is in its place.
struct Placed(tokio::sync::Notify);

impl Watch for Placed {
    fn step(&self, step: Step) {
        if step == Step::Placed(0) {
            self.0.notify_one();
        }
    }
}

#[tokio::test]
async fn parts_of_an_attempt_that_did_not_end_are_gone_when_another_has() {
    let ((_server, client), folder) = (served().await, tempfile::tempdir().unwrap());
    let parts = PartBounds { rows: 1, ..PartBounds::default() };
    let statement = "SELECT gen_random_uuid() AS id FROM generate_series(1, 50)";
    let export = Export { parts, ..asked(folder.path(), "random", statement, &[]) };
    let placed = Placed(tokio::sync::Notify::new());
    let stopped = export.run(&client, &placed, placed.0.notified()).await.unwrap_err();
    assert!(matches!(stopped, ExportError::Stopped), "{stopped}");
    let left = tree(folder.path()).into_keys().filter(|name| name.starts_with("random/")).count();
    assert!((1..50).contains(&left), "{left} parts are left");
    let exported = run(&export, &client).await.unwrap();
    let names = exported.manifest.parts.iter().map(|part| format!("random/{}", part.name));
    let mut expected: Vec<String> = names.collect();
    expected.extend(exported.location.rsplit_once('/').map(|(_, name)| format!("random/{name}")));
    expected.sort();
    assert_eq!(tree(folder.path()).into_keys().collect::<Vec<_>>(), expected);
}
