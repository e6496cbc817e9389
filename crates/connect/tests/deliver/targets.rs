//! URLs that are meant to be read in two ways, and names that lead to two places.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;

use driftq_connect::deliver::address::{Allowed, Network};
use driftq_connect::deliver::target::{
    Resolve, ResolveError, Resolver, Resolving, Scheme, Target, TargetError,
};

/// Answers with one list of addresses after the other, and counts how often it was asked.
struct Fickle(Mutex<Vec<Vec<&'static str>>>);

impl Resolve for Fickle {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        let mut answers = self.0.lock().unwrap();
        let next = if answers.is_empty() { None } else { Some(answers.remove(0)) };
        Box::pin(async move {
            let next = next.ok_or_else(|| io::Error::other("it was asked once too often"))?;
            Ok(next.iter().map(|text| text.parse().unwrap()).collect())
        })
    }
}

pub(crate) fn fickle(answers: &[&[&'static str]]) -> Resolver {
    let answers = answers.iter().map(|answer| answer.to_vec()).collect();
    Resolver::Given(Arc::new(Fickle(Mutex::new(answers))))
}

fn error(url: &str) -> TargetError {
    Target::http(url).expect_err(url)
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let long = format!("http://a/{}", "x".repeat(2048));
    let (label, host) = ("x".repeat(64), format!("{}com", "a.".repeat(126)));
    let (label, host) = (format!("http://{label}.example/"), format!("http://{host}/"));
    for (url, expected) in [
        ("", TargetError::Scheme("http:// or https://")),
        ("receiver.example", TargetError::Scheme("http:// or https://")),
        ("//receiver.example/", TargetError::Scheme("http:// or https://")),
        ("ftp://receiver.example/", TargetError::Scheme("http:// or https://")),
        ("file:///etc/passwd", TargetError::Scheme("http:// or https://")),
        ("gopher://127.0.0.1:6379/_", TargetError::Scheme("http:// or https://")),
        ("http:/receiver.example/", TargetError::Scheme("http:// or https://")),
        ("http:receiver.example", TargetError::Scheme("http:// or https://")),
        ("javascript:alert(1)", TargetError::Scheme("http:// or https://")),
        (" http://receiver.example/", TargetError::Characters),
        ("http://receiver.example/a b", TargetError::Characters),
        ("http://receiver.example\\@127.0.0.1/", TargetError::Characters),
        ("http:\\\\127.0.0.1/", TargetError::Characters),
        ("http://receiver.example/\r\nX-Evil: 1", TargetError::Characters),
        ("http://receiver.example\t.evil/", TargetError::Characters),
        ("http://127。0。0。1/", TargetError::Characters),
        ("http://①②⑦.⓪.⓪.①/", TargetError::Characters),
        ("http://münchen.example/", TargetError::Characters),
        ("http://receiver.example/#@127.0.0.1", TargetError::Fragment),
        ("http://receiver.example#@127.0.0.1/", TargetError::Fragment),
        ("http://user@receiver.example/", TargetError::User),
        ("http://user:password@receiver.example/", TargetError::User),
        ("http://receiver.example@127.0.0.1/", TargetError::User),
        ("http://127.0.0.1:80@receiver.example/", TargetError::User),
        ("http://", TargetError::Host),
        ("http:///path", TargetError::Host),
        ("http://?query", TargetError::Host),
        ("http://:80/", TargetError::Host),
        ("http://./", TargetError::Host),
        ("http://../", TargetError::Host),
        ("http://receiver.example./", TargetError::Host),
        ("http://receiver..example/", TargetError::Host),
        ("http://.receiver.example/", TargetError::Host),
        ("http://127.0.0.1./", TargetError::Host),
        ("http://127.1/", TargetError::Host),
        ("http://127.0.1/", TargetError::Host),
        ("http://2130706433/", TargetError::Host),
        ("http://0/", TargetError::Host),
        ("http://0x7f.1/", TargetError::Host),
        ("http://0x7f000001/", TargetError::Host),
        ("http://0X7F000001/", TargetError::Host),
        ("http://127.0.0.0x1/", TargetError::Host),
        ("http://0x/", TargetError::Host),
        ("http://017700000001/", TargetError::Host),
        ("http://0177.0.0.1/", TargetError::Host),
        ("http://127.0.0.01/", TargetError::Host),
        ("http://127.0.0.256/", TargetError::Host),
        ("http://1.127.0.0.1/", TargetError::Host),
        ("http://receiver.1/", TargetError::Host),
        ("http://127.0.0.1%2f.example/", TargetError::Host),
        ("http://127%2e0%2e0%2e1/", TargetError::Host),
        ("http://%6cocalhost/", TargetError::Host),
        ("http://[::1/", TargetError::Host),
        ("http://[fe80::1%25eth0]/", TargetError::Host),
        ("http://[fe80::1%eth0]/", TargetError::Host),
        ("http://[127.0.0.1]/", TargetError::Host),
        ("http://[receiver.example]/", TargetError::Host),
        ("http://[v1.x]/", TargetError::Host),
        ("http://receiver.example,127.0.0.1/", TargetError::Host),
        ("http://receiver.example;a/", TargetError::Host),
        ("http://-receiver.example/", TargetError::Host),
        ("http://receiver$.example/", TargetError::Host),
        ("http://receiver.example:0/", TargetError::Port),
        ("http://receiver.example:/", TargetError::Port),
        ("http://receiver.example:65536/", TargetError::Port),
        ("http://receiver.example:-1/", TargetError::Port),
        ("http://receiver.example:+80/", TargetError::Port),
        ("http://receiver.example:80:80/", TargetError::Port),
        ("http://receiver.example:0x50/", TargetError::Port),
        ("http://[2606::1]80/", TargetError::Port),
        (&long, TargetError::TooLong),
        (&label, TargetError::Host),
        (&host, TargetError::Host),
    ] {
        assert_eq!(error(url), expected, "{url}");
    }
}

#[test]
fn plain_urls_are_taken_apart() {
    for (url, authority, path) in [
        ("http://receiver.example", "receiver.example", "/"),
        ("HTTPS://Receiver.Example/Path?q=1", "receiver.example", "/Path?q=1"),
        ("https://receiver.example:443/", "receiver.example", "/"),
        ("https://receiver.example:8443?q", "receiver.example:8443", "/?q"),
        ("http://xn--mnchen-3ya.example/a%20b", "xn--mnchen-3ya.example", "/a%20b"),
        ("http://1.1.1.1/", "1.1.1.1", "/"),
        ("http://[2606:4700::1111]:8080/", "[2606:4700::1111]:8080", "/"),
        ("http://0xg.example/", "0xg.example", "/"),
        ("http://a_b.example/x@y", "a_b.example", "/x@y"),
    ] {
        let target = Target::http(url).unwrap();
        assert_eq!((&*target.authority(), &*target.path), (authority, path), "{url}");
    }
}

#[test]
fn mail_servers_may_name_a_user_but_no_password() {
    let target = Target::smtp("smtp://robot%40shop.example@mail.example").unwrap();
    assert_eq!((target.scheme, target.port), (Scheme::Smtp, 587));
    assert_eq!(target.user.as_deref(), Some("robot@shop.example"));
    assert_eq!(Target::smtp("smtps://mail.example/").unwrap().port, 465);
    for url in
        ["smtp://a:b@mail.example", "smtp://@mail.example", "smtp://a%0d%0aRCPT@mail.example", "smtp://%zz@m"]
    {
        assert_eq!(Target::smtp(url), Err(TargetError::User), "{url}");
    }
    assert_eq!(Target::smtp("smtp://mail.example/path"), Err(TargetError::Host));
    assert!(Target::smtp("http://mail.example").is_err());
}

async fn resolve(url: &str, resolver: &Resolver, allowed: &Allowed) -> Result<Vec<IpAddr>, ResolveError> {
    let found = Target::http(url).unwrap().resolve(resolver, allowed).await?;
    Ok(found.iter().map(std::net::SocketAddr::ip).collect())
}

#[tokio::test]
async fn one_bad_address_refuses_the_whole_name() {
    let allowed = Allowed::default();
    for answer in [
        &["127.0.0.1"][..],
        &["8.8.8.8", "10.0.0.1"],
        &["2606::1", "::1"],
        &["8.8.8.8", "1.1.1.1", "::ffff:127.0.0.1"],
    ] {
        let outcome = resolve("http://receiver.example/", &fickle(&[answer]), &allowed).await;
        assert!(matches!(outcome, Err(ResolveError::Denied { .. })), "{answer:?}: {outcome:?}");
    }
    let both = fickle(&[&["8.8.8.8", "2606::1"]]);
    assert_eq!(resolve("http://receiver.example/", &both, &allowed).await.unwrap().len(), 2);
    let none = resolve("http://receiver.example/", &fickle(&[&[]]), &allowed).await;
    assert!(matches!(none, Err(ResolveError::Unresolved { .. })), "{none:?}");
}

#[tokio::test]
async fn addresses_in_urls_are_judged_without_being_resolved() {
    let never = fickle(&[]);
    for url in [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00:ec2::254]/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
    ] {
        let outcome = resolve(url, &never, &Allowed::default()).await;
        assert!(matches!(outcome, Err(ResolveError::Denied { .. })), "{url}: {outcome:?}");
    }
    let allowed = Allowed { networks: vec![Network::parse("127.0.0.0/8").unwrap()], hosts: Vec::new() };
    assert!(resolve("http://127.0.0.1/", &never, &allowed).await.is_ok());
}

#[tokio::test]
async fn the_system_s_names_for_this_machine_are_denied() {
    let outcome = resolve("http://localhost/", &Resolver::System, &Allowed::default()).await;
    assert!(matches!(outcome, Err(ResolveError::Denied { .. })), "{outcome:?}");
}
