//! Servers by name, on the real binary: which one a command talks to, and what is said when it is not there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::command::{Ran, run_with};
use crate::support::Server;
use serde_json::json;

const NOBODY: &str = "http://127.0.0.1:9";

/// A home without contexts.
struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("contexts.toml")
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(&[], arguments)
    }

    fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
        let file = self.file();
        let own = [("DRIFTQ_CONTEXTS", file.to_str().unwrap())];
        run_with(&[&own[..], variables].concat(), arguments)
    }

    fn server_in_force(&self, variables: &[(&str, &str)], flags: &[&str]) -> (String, String) {
        let shown =
            self.run_with(variables, &[&["context", "show", "-o", "json"][..], flags].concat()).ok().json();
        (shown["server"].as_str().unwrap().to_owned(), shown["origin"].as_str().unwrap().to_owned())
    }
}

#[track_caller]
fn says(ran: Ran, code: i32, texts: &[&str]) {
    let ran = ran.code(code);
    for text in texts {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    }
}

#[test]
fn contexts_are_added_listed_shown_and_forgotten() {
    let home = Home::new();
    assert!(home.run(&["context", "list"]).ok().stdout.contains("driftq context add"));
    assert_eq!(home.run(&["context", "list", "-o", "json"]).ok().json(), json!([]));
    home.run(&["context", "add", "a", "--server", "http://a:1"]).ok();
    let added =
        home.run(&["context", "add", "b", "--server", "http://b:2", "--use", "-o", "json"]).ok().json();
    assert_eq!(added, json!({"name": "b", "server": "http://b:2", "current": true}));
    assert_eq!(fs::metadata(home.file()).unwrap().permissions().mode() & 0o777, 0o600);
    let expected = "NAME  SERVER      CURRENT\na     http://a:1\nb     http://b:2  yes\n";
    assert_eq!(home.run(&["context", "list"]).ok().stdout, expected);

    home.run(&["context", "add", "a", "--server", "http://a:1"]).ok();
    let taken = home.run(&["context", "add", "a", "--server", "http://c:3"]);
    says(taken, 5, &["`a` is http://a:1 already", "contexts.toml", "--replace"]);
    home.run(&["context", "add", "a", "--server", "http://c:3", "--replace"]).ok();
    assert_eq!(home.run(&["context", "show", "a", "-o", "json"]).ok().json()["server"], "http://c:3");

    let removed = home.run(&["context", "remove", "b"]).ok().stdout;
    assert!(removed.contains("it was the current one"), "{removed}");
    assert_eq!(home.server_in_force(&[], &[]), ("http://127.0.0.1:8080".to_owned(), "default".to_owned()));
    home.run(&["context", "use", "a"]).ok();
    home.run(&["context", "use", "--none"]).ok();
    assert_eq!(home.server_in_force(&[], &[]).1, "default");
}

#[test]
fn what_is_named_closest_is_heard() {
    let home = Home::new();
    for (name, server) in
        [("flag", "http://flag:1"), ("variable", "http://variable:1"), ("current", "http://current:1")]
    {
        home.run(&["context", "add", name, "--server", server]).ok();
    }
    home.run(&["context", "use", "current"]).ok();
    let server = ("DRIFTQ_SERVER", "http://server:1");
    let context = ("DRIFTQ_CONTEXT", "variable");
    for (variables, flags, expected, origin) in [
        (&[][..], &[][..], "http://current:1", "current_context"),
        (&[context], &[], "http://variable:1", "context_variable"),
        (&[context, server], &[], "http://server:1", "server_variable"),
        (&[context, server], &["--context", "flag"], "http://flag:1", "context_flag"),
        (&[context, server], &["--server", "http://typed:1"], "http://typed:1", "server_flag"),
    ] {
        assert_eq!(home.server_in_force(variables, flags), (expected.to_owned(), origin.to_owned()));
    }
    let two = home.run(&["topic", "list", "--server", "http://a:1", "--context", "flag"]);
    says(two, 2, &["name two servers"]);
}

#[test]
fn commands_reach_the_server_of_their_context() {
    let home = Home::new();
    let server = Server::start(&home.directory.path().join("data"), &["--ephemeral"]);
    home.run(&["context", "add", "here", "--server", &server.url(), "--use"]).ok();
    home.run(&["context", "add", "gone", "--server", NOBODY]).ok();
    home.run(&["topic", "create", "orders"]).ok();
    assert_eq!(home.run(&["topic", "list"]).ok().stdout, "orders\n");
    // The ledger without a store is the server's.
    home.run(&["ledger", "stats"]).ok();

    let file = home.file();
    let file = file.to_str().unwrap();
    let gone = home.run(&["topic", "list", "--context", "gone"]);
    says(
        gone,
        3,
        &[
            "no server answers at http://127.0.0.1:9",
            "context `gone`, named by --context",
            file,
            "driftq context list",
        ],
    );
    let ledger = home.run(&["ledger", "stats", "--context", "gone"]);
    says(ledger, 3, &["context `gone`, named by --context"]);
    let gone = home.run_with(&[("DRIFTQ_CONTEXT", "gone")], &["topic", "list"]);
    says(gone, 3, &["named by DRIFTQ_CONTEXT"]);
    home.run(&["context", "use", "gone"]).ok();
    says(home.run(&["topic", "list"]), 3, &["context `gone`, the current one"]);
    let plain = home.run(&["topic", "list", "--server", NOBODY]).code(3);
    assert!(!plain.stderr.contains("context"), "{}", plain.stderr);
    let note = home.run_with(&[("DRIFTQ_SERVER", NOBODY)], &["context", "use", "here"]).ok().stderr;
    assert!(note.contains("DRIFTQ_SERVER is set"), "{note}");
}

#[test]
fn mistakes_are_told_with_the_file_and_the_next_step() {
    let home = Home::new();
    home.run(&["context", "add", "staging", "--server", "http://a:1"]).ok();
    let file = home.file();
    let typo = ["there is no context `stagng`", file.to_str().unwrap(), "did you mean `staging`?"];
    says(home.run(&["topic", "list", "--context", "stagng"]), 9, &typo);
    says(home.run(&["context", "use", "stagng"]), 9, &typo);
    says(home.run(&["context", "remove", "stagng"]), 9, &typo);
    says(home.run(&["context", "show", "other"]), 9, &["driftq context add other --server URL"]);
    says(home.run(&["context", "add", "x"]), 2, &["which server?"]);
    says(home.run(&["context", "add", "x", "--server", "ftp://a"]), 2, &["http:// or https://"]);
    says(home.run(&["context", "add", "no name", "--server", "http://a"]), 2, &["is no name"]);
}

#[test]
fn a_broken_file_is_an_error_and_stays_as_it_is() {
    let home = Home::new();
    for (content, texts) in [
        (&b"current = \n"[..], &["contexts.toml: line 1"][..]),
        (b"[contexts.a]\nsrver = \"http://a:1\"\n", &["unknown field `srver`"]),
        (b"\xff\xfe", &["not UTF-8"]),
    ] {
        fs::write(home.file(), content).unwrap();
        for arguments in [
            &["topic", "list"][..],
            &["context", "list"],
            &["context", "use", "a"],
            &["context", "add", "b", "--server", "http://b:1"],
            &["report"],
        ] {
            says(home.run(arguments), 9, texts);
        }
        assert_eq!(fs::read(home.file()).unwrap(), content, "nothing is written over it");
        // Whoever names a server does not need the file.
        says(home.run(&["topic", "list", "--server", NOBODY]), 3, &["no server answers"]);
    }
    fs::write(home.file(), "current = \"gone\"\n").unwrap();
    says(home.run(&["topic", "list"]), 9, &["there is no context `gone`"]);
    fs::remove_file(home.file()).unwrap();
    fs::create_dir(home.file()).unwrap();
    says(home.run(&["topic", "list"]), 9, &["contexts.toml"]);
    fs::remove_dir(home.file()).unwrap();
    let large = fs::File::create(home.file()).unwrap();
    large.set_len(2 << 20).unwrap();
    says(home.run(&["topic", "list"]), 9, &["larger than 1 MiB"]);
}

#[test]
fn the_file_is_where_the_system_keeps_settings() {
    let home = tempfile::tempdir().unwrap();
    let run = |variables: &[(&str, &Path)], arguments: &[&str]| {
        let mut command = crate::support::driftq();
        command.env_remove("DRIFTQ_CONTEXTS").env_remove("XDG_CONFIG_HOME").env("HOME", home.path());
        Ran::from(command.envs(variables.iter().copied()).args(arguments).output().unwrap())
    };
    run(&[], &["context", "add", "a", "--server", "http://a:1"]).ok();
    assert!(home.path().join(".config/driftq/contexts.toml").is_file());
    let xdg = home.path().join("xdg");
    run(&[("XDG_CONFIG_HOME", &xdg)], &["context", "add", "a", "--server", "http://a:1"]).ok();
    assert!(xdg.join("driftq/contexts.toml").is_file());
    let nowhere = Path::new("");
    run(&[("HOME", nowhere)], &["context", "show"]).ok();
    says(run(&[("HOME", nowhere)], &["context", "list"]), 9, &["HOME is not set", "DRIFTQ_CONTEXTS"]);
}

#[test]
fn many_at_once_lose_nothing() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let home = &home;
            scope.spawn(move || {
                home.run(&["context", "add", &format!("c{number}"), "--server", "http://a:1"]).ok();
            });
        }
    });
    assert_eq!(home.run(&["context", "list", "-o", "ndjson"]).ok().lines().len(), 8);
}
