//! A table that does not fit is found before a message is borrowed, and the error says what to do.

use driftq_connect::config::File;
use driftq_connect::sink::Need;

use crate::bed::{Bed, run_until};

const SINK: &str = r#"mode = "upsert"
dedupe_key = ["id"]
version = "at"
columns = [
  { name = "id", from = "/id", type = "bigint", required = true },
  { name = "at", from = "/at", type = "timestamptz", required = true },
  { name = "note", from = "/note", type = "text" },
]
"#;

async fn needs(bed: &Bed, sink: &str) -> Vec<Need> {
    bed.connectors(sink).sinks()[0].check().await.unwrap().needs
}

#[tokio::test]
async fn what_is_missing_is_told_with_the_sql_that_makes_it() {
    let bed = Bed::new().await;
    let found = needs(&bed, SINK).await;
    assert_eq!(found.len(), 2, "{found:?}");
    for need in &found {
        bed.sql(need.sql.as_deref().unwrap());
    }
    assert_eq!(needs(&bed, SINK).await, []);
    run_until(&bed.connectors(SINK), &bed.client, async {}).await;
}

#[tokio::test]
async fn each_misfit_is_named() {
    let bed = Bed::new().await;
    bed.connectors(SINK).migrate().await.unwrap();
    for (table, what, sql) in [
        ("id bigint UNIQUE, at timestamptz", "has no column \"note\"", Some("ADD COLUMN \"note\" text")),
        (
            "id integer UNIQUE, at timestamptz, note text",
            "\"id\" is integer, and the sink writes bigint",
            None,
        ),
        ("id bigint, at timestamptz, note text", "no unique constraint", Some("ADD UNIQUE (\"id\")")),
        ("id bigint, at timestamptz, note text, UNIQUE (id, at)", "no unique constraint", Some("ADD UNIQUE")),
        ("id bigint UNIQUE DEFERRABLE, at timestamptz, note text", "not deferrable", Some("ADD UNIQUE")),
        ("id bigint UNIQUE, at timestamptz, note text, more int NOT NULL", "\"more\" must not be null", None),
    ] {
        bed.sql(&format!("DROP TABLE orders; CREATE TABLE orders ({table})"));
        let found = needs(&bed, SINK).await;
        assert_eq!(found.len(), 1, "{table}: {found:?}");
        assert!(found[0].what.contains(what), "{table}: {found:?}");
        assert_eq!(sql.is_some(), found[0].sql.is_some());
        assert!(sql.is_none_or(|sql| found[0].sql.as_deref().unwrap().contains(sql)), "{table}: {found:?}");
        let stop = tokio::sync::watch::Sender::new(false);
        let error = bed.connectors(SINK).run(&bed.client, stop.subscribe()).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[tokio::test]
async fn migrating_alters_nothing_that_exists() {
    let bed = Bed::new().await;
    bed.sql("CREATE TABLE orders (id bigint, kept text); INSERT INTO orders VALUES (1, 'x')");
    bed.connectors(SINK).migrate().await.unwrap();
    assert_eq!(bed.sql("SELECT * FROM orders"), "1|x");
    assert_eq!(needs(&bed, SINK).await.len(), 3);
}

#[tokio::test]
async fn names_are_names_whatever_is_in_them() {
    let bed = Bed::new().await;
    bed.sql("CREATE TABLE safe (id int)");
    let odd = r#"x" int); DROP TABLE safe; --"#;
    let sink = format!(
        "mode = \"insert\"\ndedupe_key = ['{odd}']\ncolumns = [{{ name = '{odd}', from = \"/id\", type = \"bigint\", required = true }}]\n"
    );
    let file = bed.file(&sink).replace(".orders\"", ".Or de'rs; DROP TABLE safe\"");
    let connectors = driftq_connect::run::Connectors::new(File::parse(&file).unwrap()).unwrap();
    connectors.migrate().await.unwrap();
    bed.produce_json((0..3).map(|id| serde_json::json!({"id": id}))).await;
    run_until(&connectors, &bed.client, bed.idle()).await;
    assert_eq!(bed.sql("SELECT count(*) FROM \"Or de'rs; DROP TABLE safe\""), "3");
    assert_eq!(bed.sql("SELECT count(*) FROM safe"), "0");
}

#[tokio::test]
async fn a_topic_that_is_not_there_ends_the_sink() {
    let bed = Bed::new().await;
    let file = bed.file(SINK).replace("topic = \"orders\"", "topic = \"nowhere\"");
    let connectors = driftq_connect::run::Connectors::new(File::parse(&file).unwrap()).unwrap();
    connectors.migrate().await.unwrap();
    let stop = tokio::sync::watch::Sender::new(false);
    let error = connectors.run(&bed.client, stop.subscribe()).await.unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn a_file_that_cannot_work_is_refused_by_name() {
    let head =
        "[[sink]]\nname = \"a\"\ntopic = \"t\"\ntable = \"t\"\npostgres = { url = \"postgres://h/d\" }\n";
    let id = "columns = [{ name = \"id\", from = \"/id\", type = \"bigint\", required = true }]\n";
    for (rest, said) in [
        (format!("mode = \"insert\"\n{id}"), "needs a dedupe_key"),
        (format!("mode = \"insert\"\ndedupe_key = [\"x\"]\n{id}"), "`x` is no column"),
        (format!("mode = \"upsert\"\ndedupe_key = [\"id\"]\n{id}"), "needs a version"),
        (format!("mode = \"append\"\nversion = \"id\"\n{id}"), "version is for mode `upsert`"),
        (format!("mode = \"replace\"\n{id}"), "line 6"),
        (format!("mode = \"append\"\nbatch = 5\n{id}"), "unknown field `batch`"),
        (format!("mode = \"append\"\nbatch_rows = 0\n{id}"), "batch_rows"),
        ("mode = \"append\"\ncolumns = []\n".to_owned(), "columns"),
        (format!("mode = \"append\"\n{}", id.replace("/id", "id")), "no JSON pointer"),
        (format!("mode = \"append\"\n{}", id.replace("/id", "$id")), "`$id` is nothing"),
        (format!("mode = \"append\"\n{}", id.replace("/id", "$key")), "$key is text or bytea"),
        (format!("mode = \"append\"\n{}", id.replace("bigint", "money")), "unknown variant `money`"),
        (format!("mode = \"append\"\n{}", id.replace("required", "requird")), "unknown field `requird`"),
        (
            format!("mode = \"append\"\n{}", id.replace("required = true", "default = \"x\"")),
            "default: x is no integer",
        ),
        (
            format!("mode = \"insert\"\ndedupe_key = [\"id\"]\n{}", id.replace(", required = true", "")),
            "`id` must be `required`",
        ),
    ] {
        let error = File::parse(&format!("{head}{rest}")).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    assert!(File::parse("").unwrap_err().to_string().contains("configures nothing"));
    assert!(File::parse("[sinks]").unwrap_err().to_string().contains("unknown field `sinks`"));
}
