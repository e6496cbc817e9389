//! Names whose server means harm: they lead somewhere else every time, to several places at once, or by another name.

use std::time::Duration;

use driftq_connect::deliver::address::{Allowed, Network};
use driftq_connect::deliver::attempt::Ending;
use driftq_connect::deliver::connect::Connections;
use driftq_connect::deliver::send::Sent;

use crate::dns::Record::{Address, Alias};
use crate::dns::{Dns, Record, Script};
use crate::receiver::{Receiver, status};
use crate::sending::to;

/// Longer than anything that is waited for here.
const PATIENT: Duration = Duration::from_secs(20);
/// Stands for the public Internet: deliveries may go there.
const OUTER: Record = Address("127.0.0.2");
/// What only this machine reaches.
const INNER: Record = Address("127.0.0.1");

/// Two receivers on one port: the one that may be reached, and the one that may not.
struct Town {
    outer: Receiver,
    inner: Receiver,
    dns: Dns,
    connections: Connections,
}

impl Town {
    async fn new(script: Script) -> Self {
        Self::with_hosts(script, Vec::new()).await
    }

    async fn with_hosts(script: Script, hosts: Vec<String>) -> Self {
        let inner = Receiver::start(|_, _| status(200)).await;
        let port = inner.address.port();
        let outer = Receiver::start_at(&format!("127.0.0.2:{port}"), |_, _| status(200)).await;
        let dns = Dns::start(script).await;
        let allowed = Allowed { networks: vec![Network::parse("127.0.0.2").unwrap()], hosts };
        let connections = Connections::new(allowed, dns.resolver(), None).unwrap();
        Self { outer, inner, dns, connections }
    }

    async fn send(&self, host: &str) -> Sent {
        to(&format!("http://{host}:{}/", self.inner.address.port()), &self.connections, PATIENT).await
    }

    /// Sends, and expects that nothing arrives because of this address.
    async fn is_refused(&self, host: &str, address: &str) {
        let before = self.arrived();
        let sent = self.send(host).await;
        assert_eq!((sent.ending, sent.status), (Ending::Failed, None), "{host}: {sent:?}");
        assert!(sent.error.contains(address), "{host}: {sent:?}");
        assert_eq!(self.arrived(), before, "{host}");
    }

    /// What has arrived inside and outside.
    fn arrived(&self) -> (usize, usize) {
        (self.inner.received().len(), self.outer.received().len())
    }
}

/// A name that leads to a permitted address when it is judged and elsewhere a moment later is resolved once, and what
/// was judged is connected to; at the next send it is judged again.
#[tokio::test]
async fn a_name_that_changes_its_mind_leads_nowhere_else() {
    let answers = vec![vec![OUTER], vec![INNER], vec![OUTER], vec![INNER]];
    let town = Town::new(Script::from([("rebinding.example", answers)])).await;
    for round in 1..=2 {
        assert_eq!(town.send("rebinding.example").await.ending, Ending::Delivered);
        assert_eq!((town.arrived(), town.dns.asked()), ((0, round), (2 * round - 1, 2 * round - 1)));
        town.is_refused("rebinding.example", "127.0.0.1").await;
        assert_eq!(town.dns.asked(), (2 * round, 2 * round), "each send asks once");
    }
    let host = format!("rebinding.example:{}", town.outer.address.port());
    assert_eq!(town.outer.received()[0].header("host"), host, "the receiver is told the name that it has");
}

#[tokio::test]
async fn one_bad_address_among_good_ones_refuses_all() {
    let town = Town::new(Script::from([
        ("inner-last.example", vec![vec![OUTER, INNER]]),
        ("inner-first.example", vec![vec![INNER, OUTER]]),
        ("other-kind.example", vec![vec![OUTER, Address("::1")]]),
        ("good.example", vec![vec![OUTER, Address("2606:4700::1111")]]),
    ]))
    .await;
    town.is_refused("inner-last.example", "127.0.0.1").await;
    town.is_refused("inner-first.example", "127.0.0.1").await;
    town.is_refused("other-kind.example", "::1").await;
    assert_eq!(town.send("good.example").await.ending, Ending::Delivered, "two good ones are good");
}

/// What counts is the address in the end, and the name that the endpoint has.
#[tokio::test]
async fn another_name_for_an_inner_place_is_no_way_in() {
    let town = Town::with_hosts(
        Script::from([
            ("far.example", vec![vec![Alias("farther.example")]]),
            ("farther.example", vec![vec![Alias("hooks.internal")]]),
            ("hooks.internal", vec![vec![INNER]]),
            ("shop.example", vec![vec![Alias("cdn.example")]]),
            ("cdn.example", vec![vec![OUTER]]),
        ]),
        vec!["hooks.internal".to_owned()],
    )
    .await;
    town.is_refused("far.example", "127.0.0.1").await;
    assert_eq!(town.send("shop.example").await.ending, Ending::Delivered);
    assert_eq!(town.send("hooks.internal").await.ending, Ending::Delivered, "its own name is allowed");
    assert_eq!(town.arrived(), (1, 1));
}

/// Each of these leads to an address of IPv4 on some networks, also to one that is permitted by itself.
#[tokio::test]
async fn addresses_in_the_dress_of_others_are_refused() {
    const DRESSES: [(&str, &str); 8] = [
        ("mapped.example", "::ffff:127.0.0.2"),
        ("mapped-public.example", "::ffff:8.8.8.8"),
        ("compatible.example", "::7f00:2"),
        ("translated.example", "64:ff9b::7f00:2"),
        ("translated-public.example", "64:ff9b::808:808"),
        ("translated-here.example", "64:ff9b:1::7f00:2"),
        ("six-to-four.example", "2002:7f00:2::1"),
        ("teredo.example", "2001:0:7f00:2::1"),
    ];
    let town = Town::new(DRESSES.map(|(host, text)| (host, vec![vec![Address(text)]])).into()).await;
    for (host, text) in DRESSES {
        town.is_refused(host, text).await;
    }
    assert_eq!(town.arrived(), (0, 0));
}

#[tokio::test]
async fn a_name_without_addresses_is_nowhere() {
    let town = Town::new(Script::from([("empty.example", vec![vec![]])])).await;
    for host in ["empty.example", "absent.example"] {
        town.is_refused(host, host).await;
    }
}
