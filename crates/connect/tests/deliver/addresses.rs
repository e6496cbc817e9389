//! Which addresses deliveries may go to.

use std::net::IpAddr;

use driftq_connect::deliver::address::{Allowed, Network, is_public};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn what_is_not_on_the_public_internet_is_denied() {
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "168.63.129.16",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.254",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "100::1",
        "fc00::1",
        "fd00:ec2::254",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "4000::1",
    ] {
        assert!(!is_public(address(text)), "{text}");
        assert!(!Allowed::default().permits("receiver.example", address(text)), "{text}");
    }
}

#[test]
fn what_is_beside_it_is_not() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2000::1",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2001:db9::1",
        "2003::1",
        "2606:4700::1111",
        "3ffe::1",
        "3fff:1000::1",
    ] {
        assert!(is_public(address(text)), "{text}");
    }
}

#[test]
fn operators_allow_networks_and_hosts() {
    let networks = ["10.1.0.0/16", "127.0.0.2", "fd00::/8"].map(|text| Network::parse(text).unwrap());
    let hosts = ["hooks.internal".to_owned(), "*.corp.example".to_owned()];
    let allowed = Allowed { networks: networks.into(), hosts: hosts.into() };
    for (host, at, expected) in [
        ("any", "10.1.2.3", true),
        ("any", "10.2.0.0", false),
        ("any", "127.0.0.2", true),
        ("any", "127.0.0.1", false),
        ("any", "fd12::1", true),
        ("any", "fc12::1", false),
        // The same place in another dress is another address.
        ("any", "::ffff:10.1.2.3", false),
        ("hooks.internal", "10.9.9.9", true),
        ("HOOKS.internal", "10.9.9.9", true),
        ("a.hooks.internal", "10.9.9.9", false),
        ("a.corp.example", "10.9.9.9", true),
        ("a.b.CORP.example", "10.9.9.9", true),
        ("corp.example", "10.9.9.9", false),
        (".corp.example", "10.9.9.9", false),
        ("evilcorp.example", "10.9.9.9", false),
        ("any", "8.8.8.8", true),
    ] {
        assert_eq!(allowed.permits(host, address(at)), expected, "{host} {at}");
    }
    assert!(Network::parse("0.0.0.0/0").unwrap().contains(address("10.0.0.1")));
    assert!(Network::parse("::/0").unwrap().contains(address("::1")));
}

#[test]
fn what_is_no_network_is_refused() {
    for text in
        ["", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "hooks/8", "10.0.0.0/8/8"]
    {
        assert!(Network::parse(text).is_err(), "{text}");
    }
}
