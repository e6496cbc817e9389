//! A server with TLS and keys, made with the commands that its operator would use.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use driftq_client::{Client, ClientBuilder};

use super::command::run_with;
use super::support::Server;

/// What a worker and whoever looks after it do, without the right to make keys.
pub(crate) const ALL_BUT_ADMIN: &str = "produce,consume,effects,outputs,read,read_payload,manage";

/// A running server that speaks TLS and asks for keys. Dropping it kills it.
pub(crate) struct Secured {
    pub(crate) server: Server,
    directory: tempfile::TempDir,
}

impl Secured {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        run_with(&[], &["tls", "dev", "--out", &path("tls")]).ok();
        let root = run_with(&[], &["key", "create", "--root", "-o", "json", "--data", &path("data")]).ok();
        let root_file = path("root.key");
        keep(&root_file, root.json()["secret"].as_str().unwrap());
        let arguments = [
            "--ephemeral".to_owned(),
            "--keys=required".to_owned(),
            format!("--root-key-file={root_file}"),
            format!("--tls-cert={}", path("tls/cert.pem")),
            format!("--tls-key={}", path("tls/key.pem")),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let server = Server::start(&directory.path().join("data"), &arguments);
        Self { server, directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file with the authority that signed the server's certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.path("tls/ca.pem")
    }

    pub(crate) fn root_file(&self) -> PathBuf {
        self.path("root.key")
    }

    /// Makes a key; its id, its secret, and a file that holds it.
    pub(crate) fn key(&self, name: &str, actions: &str) -> (String, String, PathBuf) {
        let text = |path: PathBuf| path.display().to_string();
        let (url, authority, root) = (self.server.url(), text(self.authority()), text(self.root_file()));
        let way = ["--server", &url, "--ca-file", &authority, "--key-file", &root];
        let create = ["key", "create", "-o", "json", "--action", actions];
        let made = run_with(&[], &[&way[..], &create].concat()).ok().json();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let (id, secret) = (text(&made["key"]["id"]), text(&made["secret"]));
        let file = self.path(&format!("{name}.key"));
        keep(file.to_str().unwrap(), &secret);
        (id, secret, file)
    }

    /// A client that trusts the server and shows the key.
    pub(crate) fn client(&self, key: &str) -> ClientBuilder {
        Client::builder().url(self.server.url()).ca_file(self.authority()).key(key)
    }

    pub(crate) fn root(&self) -> String {
        fs::read_to_string(self.root_file()).unwrap()
    }
}

/// Writes a secret into a file that nobody else can read.
fn keep(file: &str, secret: &str) {
    fs::write(file, secret).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}
