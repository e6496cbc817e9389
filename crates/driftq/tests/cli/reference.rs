//! The pages of the documentation that the binary writes itself.

use std::path::Path;

use crate::command::run;

const WRITE: &str = "DRIFTQ_WRITE_REFERENCE";

/// Every page, and the command that prints it.
const PAGES: [(&str, &[&str]); 4] = [
    ("docs/reference/cli.md", &["reference", "cli"]),
    ("docs/reference/errors.md", &["reference", "errors"]),
    ("docs/reference/api.md", &["reference", "api"]),
    ("docs/errors.json", &["reference", "errors", "-o", "json"]),
];

#[test]
fn committed_pages_are_what_the_binary_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut stale = Vec::new();
    for (page, arguments) in PAGES {
        let printed = run(arguments).ok().stdout;
        let path = root.join(page);
        if std::env::var_os(WRITE).is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &printed).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        if printed != committed {
            let first = printed.lines().zip(committed.lines()).position(|(new, old)| new != old);
            stale.push(format!("{page}, from line {}", first.map_or(1, |line| line + 1)));
        }
    }
    assert!(
        stale.is_empty(),
        "not what the binary says: {stale:?}; write them anew with `{WRITE}=1 cargo test -p driftq --test cli reference`"
    );
}

#[test]
fn the_reference_does_not_depend_on_who_prints_it() {
    let plain = run(&["reference", "cli"]).ok().stdout;
    let settings =
        [("COLUMNS", "40"), ("DRIFTQ_LISTEN", "10.9.8.7:1"), ("DRIFTQ_SERVER", "http://10.9.8.7:1")];
    let other = crate::command::run_with(&settings, &["reference", "cli"]).ok().stdout;
    assert!(plain == other && !other.contains("10.9.8.7"));
}

#[test]
fn the_data_is_the_openapi_document_itself() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = std::fs::read_to_string(root.join("docs/openapi.json")).unwrap();
    assert_eq!(run(&["reference", "api", "-o", "json"]).ok().stdout, committed);
}
