//! `driftq tls dev`: certificates to try TLS with, for this machine.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use driftq_cli::{
    exit::{Exit, Fault},
    output,
    shell::word,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};

/// Names that a certificate is for in any case.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// For so long the certificates are good.
const VALID_FOR: Duration = Duration::from_secs(365 * DAY_SECONDS);
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// Clocks of others may be behind.
const VALID_BEFORE: Duration = Duration::from_secs(DAY_SECONDS);

const AUTHORITY: &str = "ca.pem";
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make an authority and a certificate for this machine, to try TLS with
    #[command(
        after_help = "The certificate is for localhost, 127.0.0.1 and ::1, and for the names that are given. The \
authority signs this one certificate: its own key is not kept, so whoever trusts it trusts nothing else.

Examples:
  driftq tls dev --out ./tls
  driftq tls dev --out ./tls --name broker.lan --name 192.0.2.7"
    )]
    Dev(Args),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory for ca.pem, cert.pem and key.pem; created if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// One more host name or address that the certificate is for; may be repeated
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(command: &Command) -> Result<()> {
    let Command::Dev(args) = command;
    let names = OWN_NAMES.iter().map(ToString::to_string).chain(args.names.iter().cloned());
    let files = make(names.collect())?;
    write(&args.out, &files)?;
    let path = |name: &str| word(&args.out.join(name).display().to_string());
    output::write(&format!(
        "wrote {AUTHORITY}, {CERTIFICATE} and {KEY} to {}\n\n\
         the server:\n  driftq serve --tls-cert {} --tls-key {}\n\
         a client:\n  driftq --server https://localhost:8080 --ca-file {} topic list\n",
        args.out.display(),
        path(CERTIFICATE),
        path(KEY),
        path(AUTHORITY),
    ))
}

/// The texts of the files, by name.
type Files = [(&'static str, String); 3];

fn make(names: Vec<String>) -> Result<Files> {
    let params = CertificateParams::new(names).map_err(|error| {
        Fault::new(Exit::Usage, format!("--name: {error}")).help("name hosts and addresses")
    })?;
    let mut authority = CertificateParams::default();
    authority.distinguished_name = common_name("DriftQ development authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(dated(authority), KeyPair::generate()?)?;
    let mut params = dated(params);
    params.distinguished_name = common_name("DriftQ development server");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    Ok([(AUTHORITY, authority.pem()), (CERTIFICATE, certificate.pem()), (KEY, key.serialize_pem())])
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn dated(mut params: CertificateParams) -> CertificateParams {
    let now = SystemTime::now();
    params.not_before = (now - VALID_BEFORE).into();
    params.not_after = (now + VALID_FOR).into();
    params
}

fn write(out: &Path, files: &Files) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let taken = |path: &Path| {
        Fault::new(Exit::Usage, format!("{} is there already, and is not overwritten", path.display()))
            .help("name another directory with --out, or remove the old files")
    };
    // All of them first, so that nothing is half written.
    if let Some((name, _)) = files.iter().find(|(name, _)| out.join(name).symlink_metadata().is_ok()) {
        return Err(taken(&out.join(name)).into());
    }
    for (name, text) in files {
        let path = out.join(name);
        let mode = if *name == KEY { 0o600 } else { 0o644 };
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(taken(&path).into()),
            opened => opened.with_context(|| format!("creating {}", path.display()))?,
        };
        file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
