//! `driftq tls dev`: certificates to try TLS with, for this machine.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use driftq_api::shown::word;
use driftq_cli::{
    exit::{Exit, Fault},
    output,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SanType,
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
const CLIENT_CERTIFICATE: &str = "client.pem";
const CLIENT_KEY: &str = "client-key.pem";

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make an authority and a certificate for this machine, to try TLS with
    #[command(
        after_help = "The certificate is for localhost, 127.0.0.1 and ::1, and for the names that are given. The \
authority signs what is made here and nothing else: its own key is not kept.

With --client it also makes client.pem and client-key.pem, for a client that shows a certificate in the place of a key \
(`driftq serve --tls-client-ca`).

Examples:
  driftq tls dev --out ./tls
  driftq tls dev --out ./tls --name broker.lan --name 192.0.2.7
  driftq tls dev --out ./tls --client billing"
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
    /// Also make a certificate for a client: a DNS name, or a URI such as spiffe://shop/billing
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
}

pub(super) fn run(command: &Command) -> Result<()> {
    let Command::Dev(args) = command;
    let names = OWN_NAMES.iter().map(ToString::to_string).chain(args.names.iter().cloned());
    let files = make(names.collect(), args.client.as_deref())?;
    write(&args.out, &files)?;
    let path = |name: &str| word(&args.out.join(name).display().to_string());
    let (out, authority, certificate, key) =
        (args.out.display(), path(AUTHORITY), path(CERTIFICATE), path(KEY));
    let mut text = format!(
        "wrote {AUTHORITY}, {CERTIFICATE} and {KEY} to {out}\n\n\
         the server:\n  driftq serve --tls-cert {certificate} --tls-key {key}\n\
         a client:\n  driftq --server https://localhost:8080 --ca-file {authority} topic list\n",
    );
    if let Some(name) = &args.client {
        let (name, shown, its_key) = (word(name), path(CLIENT_CERTIFICATE), path(CLIENT_KEY));
        text += &format!(
            "\nwrote {CLIENT_CERTIFICATE} and {CLIENT_KEY} as well\n\n\
             the server:\n  driftq serve --keys required --tls-cert {certificate} --tls-key {key} \
             --tls-client-ca {authority} --tls-client {name}=KEY_ID\n\
             a client:\n  curl --cacert {authority} --cert {shown} --key {its_key} https://localhost:8080/v2/topics\n",
        );
    }
    output::write(&text)
}

/// The texts of the files, by name.
type Files = Vec<(&'static str, String)>;

fn make(names: Vec<String>, client: Option<&str>) -> Result<Files> {
    let params = CertificateParams::new(names).map_err(|error| {
        Fault::new(Exit::Usage, format!("--name: {error}")).help("name hosts and addresses")
    })?;
    let mut authority = CertificateParams::default();
    authority.distinguished_name = common_name("DriftQ development authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(dated(authority), KeyPair::generate()?)?;
    let mut params = params;
    params.distinguished_name = common_name("DriftQ development server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let (certificate, key) = signed(params, &authority)?;
    let mut files = vec![(AUTHORITY, authority.pem()), (CERTIFICATE, certificate), (KEY, key)];
    if let Some(name) = client {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name("DriftQ development client");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![client_name(name)?];
        let (certificate, key) = signed(params, &authority)?;
        files.extend([(CLIENT_CERTIFICATE, certificate), (CLIENT_KEY, key)]);
    }
    Ok(files)
}

/// A certificate and its key.
fn signed(params: CertificateParams, authority: &CertifiedIssuer<'_, KeyPair>) -> Result<(String, String)> {
    let mut params = dated(params);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, authority)?.pem(), key.serialize_pem()))
}

/// What the server knows a client by. A URI has a colon, and a DNS name has none.
fn client_name(name: &str) -> Result<SanType> {
    let is_dns_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let is_uri = name.contains(':') && name.bytes().all(|byte| byte.is_ascii_graphic());
    let unfit = || {
        Fault::new(Exit::Usage, format!("--client: `{name}` is no name of a client"))
            .help("write a DNS name such as billing.example.com, or a URI such as spiffe://shop/billing")
    };
    match name.try_into() {
        Ok(text) if is_uri => Ok(SanType::URI(text)),
        Ok(text) if is_dns_name(name) => Ok(SanType::DnsName(text)),
        _ => Err(unfit().into()),
    }
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

fn write(out: &Path, files: &[(&str, String)]) -> Result<()> {
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
        let mode = if [KEY, CLIENT_KEY].contains(name) { 0o600 } else { 0o644 };
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(taken(&path).into()),
            opened => opened.with_context(|| format!("creating {}", path.display()))?,
        };
        file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
