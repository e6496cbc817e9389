//! Each format says the same, in the same bytes each time, in parts of the size that was asked for.

use std::collections::BTreeMap;

use bytes::Bytes;
use driftq_connect::export::{Export, ExportError, Format, PartBounds, Selection};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use tempfile::TempDir;

use crate::support::{filled, into, lines, parts, run, served, whole};

const ALL: [Format; 3] = [Format::Ndjson, Format::Csv, Format::Parquet];

#[tokio::test]
async fn all_formats_have_the_same_rows() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 100).await;
    let mut exported = Vec::new();
    for format in ALL {
        let export = into(folder.path(), format.name(), whole("orders"), format);
        exported.push(run(&export, &client).await.unwrap());
    }
    let lines = lines(folder.path(), &exported[0]);
    let places: Vec<_> =
        lines.iter().map(|line| (line["partition"].as_i64(), line["offset"].as_i64())).collect();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!((sorted.len(), &sorted), (100, &places), "each message once, by partition and offset");
    assert!(lines.iter().any(|line| line["value_b64"] == "//4=" && line.get("value").is_none()));
    assert!(lines.iter().any(|line| line["labels"] == serde_json::json!({"colour": "blue"})));

    let text = parts(folder.path(), &exported[1]).concat();
    let mut reader = csv::Reader::from_reader(&*text);
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        for (name, field) in header.iter().zip(row) {
            let expected = match &line[name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(field, expected, "{name}");
        }
    }

    let file = Bytes::from(parts(folder.path(), &exported[2]).concat());
    let reader = SerializedFileReader::new(file).unwrap();
    let created_by = reader.metadata().file_metadata().created_by();
    assert_eq!(created_by, Some("driftq"));
    for (row, line) in reader.get_row_iter(None).unwrap().zip(&lines) {
        for (name, field) in row.unwrap().get_column_iter() {
            match field {
                Field::Null => assert_eq!(line.get(name), None, "{name}"),
                Field::Str(text) => match &line[name] {
                    serde_json::Value::String(expected) => assert_eq!(text, expected),
                    other => assert_eq!(*text, other.to_string()),
                },
                Field::Long(number) => assert_eq!(line[name].as_i64(), Some(*number)),
                Field::TimestampMicros(micros) => {
                    let moment = driftq_client::Moment::parse(line[name].as_str().unwrap()).unwrap();
                    let (seconds, nanos) = moment.parts();
                    assert_eq!(seconds * 1_000_000 + i64::from(nanos) / 1_000, *micros);
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    assert_eq!(reader.metadata().file_metadata().num_rows(), 100);
}

#[tokio::test]
async fn the_same_selection_is_the_same_bytes() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 300).await;
    for format in ALL {
        let bounds = PartBounds { rows: 70, ..PartBounds::default() };
        let one = |id: &str| Export { parts: bounds, ..into(folder.path(), id, whole("orders"), format) };
        let (first, second) = (one(&format!("{}-1", format.name())), one(&format!("{}-2", format.name())));
        let (first, second) = (run(&first, &client).await.unwrap(), run(&second, &client).await.unwrap());
        assert_eq!(first.manifest.parts, second.manifest.parts);
        assert_eq!(parts(folder.path(), &first), parts(folder.path(), &second));
        let rows: Vec<u64> = first.manifest.parts.iter().map(|part| part.rows).collect();
        assert_eq!(rows, [70, 70, 70, 70, 20], "{format:?}");
    }
}

#[tokio::test]
async fn parts_end_by_bytes_and_their_digests_are_true() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 300).await;
    let bounds = PartBounds { bytes: 10_000, ..PartBounds::default() };
    let export = Export { parts: bounds, ..into(folder.path(), "small", whole("orders"), Format::Ndjson) };
    let done = run(&export, &client).await.unwrap();
    let found = parts(folder.path(), &done);
    assert!(found.len() > 3, "{} parts", found.len());
    let mut sizes = BTreeMap::new();
    for (part, bytes) in done.manifest.parts.iter().zip(&found) {
        assert_eq!(part.bytes, bytes.len() as u64);
        let text = std::str::from_utf8(bytes).unwrap();
        assert_eq!(part.digest, format!("sha256:{}", driftq_client::sha256_hex(text)));
        assert!(part.name.contains(part.digest.trim_start_matches("sha256:")), "{}", part.name);
        sizes.insert(part.name.clone(), bytes.len());
    }
    assert!(sizes.values().all(|size| *size < 11_000), "{sizes:?}");
    assert_eq!(lines(folder.path(), &done).len(), 300);
}

#[tokio::test]
async fn bounds_that_make_no_sense_are_refused() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 1).await;
    let export = into(folder.path(), "bounds", whole("orders"), Format::Ndjson);
    for parts in [PartBounds { rows: 0, bytes: 1 }, PartBounds { rows: 1, bytes: 0 }] {
        let refused = run(&Export { parts, ..export.clone() }, &client).await.unwrap_err();
        assert!(matches!(refused, ExportError::Invalid(_)), "{refused}");
    }
    let backwards =
        Selection::Topic { topic: "orders".to_owned(), partition: None, from: Some(2), to: Some(1) };
    let refused = run(&into(folder.path(), "bounds", backwards, Format::Ndjson), &client).await.unwrap_err();
    assert!(matches!(refused, ExportError::Invalid(_)), "{refused}");
}

#[tokio::test]
async fn more_parts_than_a_manifest_holds_are_refused() {
    let (_server, client) = served().await;
    let folder = TempDir::new().unwrap();
    filled(&client, "orders", 1_100).await;
    let bounds = PartBounds { rows: 1, ..PartBounds::default() };
    let export = Export { parts: bounds, ..into(folder.path(), "many", whole("orders"), Format::Ndjson) };
    let refused = run(&export, &client).await.unwrap_err();
    assert!(matches!(refused, ExportError::TooManyParts), "{refused}");
    let range = Selection::Topic { topic: "orders".to_owned(), partition: None, from: None, to: Some(1_000) };
    let most = Export { parts: bounds, ..into(folder.path(), "most", range, Format::Ndjson) };
    assert_eq!(
        run(&most, &client).await.unwrap().manifest.parts.len(),
        1_000,
        "its manifest fits an outcome"
    );
}
