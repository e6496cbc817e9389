//! One server, or the servers of a cluster: which of them is asked.
//!
//! In a cluster one server serves, and the others pass on to it what they are asked. A client that knows several of them
//! finds the one that serves, and stays with it; when it is gone, the client asks the next.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use hyper::header::{HeaderName, HeaderValue, LOCATION};
use hyper::{HeaderMap, StatusCode};

use crate::{Address, AddressError};

/// Servers that a client may be told.
pub const SERVERS_MAX: usize = 16;

/// What a client says that would rather be told where the serving server is than have its request passed on.
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");
pub(crate) const REDIRECT: HeaderValue = HeaderValue::from_static("redirect");

/// One server, or several of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers(Vec<Address>);

impl Servers {
    /// Reads the URL of a server, or those of several, separated by commas.
    ///
    /// # Errors
    /// If one of them is not a server's URL, or if there are too many.
    pub fn parse(urls: &str) -> Result<Self, AddressError> {
        if let (true, Some((_, host))) = (urls.contains(','), urls.rsplit_once('@')) {
            // Not taken apart: the comma may be part of a password, which is not repeated.
            let host = host.split([':', '/', ',']).next().unwrap_or_default().to_owned();
            return Err(AddressError::User { host });
        }
        let mut servers: Vec<Address> = Vec::new();
        for url in urls.split(',') {
            let server = Address::parse(url.trim())?;
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        if servers.len() > SERVERS_MAX {
            return Err(AddressError::TooMany);
        }
        Ok(Self(servers))
    }

    pub(crate) fn into_addresses(self) -> Vec<Address> {
        self.0
    }
}

impl From<Address> for Servers {
    fn from(server: Address) -> Self {
        Self(vec![server])
    }
}

/// Which of its servers a client asks.
#[derive(Debug)]
pub(crate) struct Choice {
    urls: Vec<String>,
    /// `urls` with commas in between.
    named: String,
    current: AtomicUsize,
    /// Whether the servers are asked to say where the one is that serves, instead of passing on.
    prefers_redirect: AtomicBool,
}

/// The way of one try of a call from server to server.
#[derive(Debug)]
pub(crate) struct Way {
    /// The place of the server that is asked next.
    place: usize,
    hops: usize,
    /// The places of servers that took no connection.
    unreached: [bool; SERVERS_MAX],
    /// The server that is said to serve takes no connection: the others do not know yet, and would name it again. One
    /// that passes the call on keeps it until another serves.
    is_to_be_passed_on: bool,
}

/// What a server has said about another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing: its answer counts.
    Nothing,
    /// The call goes elsewhere, or is passed on after all: it is to be sent again at once.
    Again,
    /// They point at each other.
    InCircles,
}

impl Way {
    /// The place of the server that is asked next.
    pub(crate) const fn place(&self) -> usize {
        self.place
    }
}

impl Choice {
    pub(crate) fn new(servers: &[Address]) -> Self {
        let urls: Vec<String> = servers.iter().map(|server| server.url().to_owned()).collect();
        Self {
            named: urls.join(","),
            prefers_redirect: AtomicBool::new(urls.len() > 1),
            current: AtomicUsize::new(0),
            urls,
        }
    }

    /// All of them, as [`Servers::parse`] reads them.
    pub(crate) fn named(&self) -> &str {
        &self.named
    }

    /// The place of the one that is asked now.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Relaxed)
    }

    /// A new try, which begins at the current server.
    pub(crate) fn way(&self) -> Way {
        let unreached = [false; SERVERS_MAX];
        Way { place: self.current(), hops: 0, unreached, is_to_be_passed_on: false }
    }

    /// Whether the next server is asked to say where the one is that serves.
    pub(crate) fn prefers_redirect(&self, way: &Way) -> bool {
        self.prefers_redirect.load(Relaxed) && !way.is_to_be_passed_on
    }

    /// The server at that place is of no use now: the next one is asked from now on. Of many calls that find out at the
    /// same time, one counts.
    pub(crate) fn leave(&self, place: usize) {
        self.go(place, (place + 1) % self.urls.len());
    }

    fn go(&self, from: usize, to: usize) {
        // If another call has gone on meanwhile, it knows more.
        let _ = self.current.compare_exchange(from, to, Relaxed, Relaxed);
    }

    /// The server took no connection, and nothing was sent. True if there is another one to try.
    pub(crate) fn try_next(&self, way: &mut Way) -> bool {
        self.leave(way.place);
        way.unreached[way.place] = true;
        way.is_to_be_passed_on = way.hops > 0;
        let count = self.urls.len();
        let mut others = (0..count).map(|further| (way.place + further) % count);
        let next = others.find(|place| !way.unreached[*place]);
        next.inspect(|next| way.place = *next).is_some()
    }

    /// Follows a server to the one that serves, if the user has named that one as well: a key must not go to a host of which
    /// the user knows nothing. If not, requests are passed on, as those of a client with one server.
    pub(crate) fn follow(
        &self,
        (status, headers): (StatusCode, &HeaderMap),
        was_preferred: bool,
        way: &mut Way,
    ) -> Told {
        if !was_preferred || status != StatusCode::TEMPORARY_REDIRECT {
            return Told::Nothing;
        }
        let location = headers.get(LOCATION).and_then(|location| location.to_str().ok()).unwrap_or_default();
        let server = Address::parse_with_path(location).ok();
        let named = server.and_then(|server| self.urls.iter().position(|url| url == server.url()));
        match named {
            None => {
                self.prefers_redirect.store(false, Relaxed);
                Told::Again
            }
            Some(other) if other != way.place && way.hops < self.urls.len() => {
                way.hops += 1;
                self.go(way.place, other);
                way.place = other;
                Told::Again
            }
            Some(_) => {
                self.leave(way.place);
                Told::InCircles
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(urls: &str) -> Choice {
        Choice::new(&Servers::parse(urls).unwrap().into_addresses())
    }

    fn told_of(choice: &Choice, location: &'static str, way: &mut Way) -> Told {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(location))]);
        let was_preferred = choice.prefers_redirect(way);
        choice.follow((StatusCode::TEMPORARY_REDIRECT, &headers), was_preferred, way)
    }

    #[test]
    fn several_servers_are_named_by_urls_with_commas_in_between() {
        let named = |urls| choice(urls).named().to_owned();
        assert_eq!(named("http://a"), "http://a:80");
        assert_eq!(named("http://a:1, http://b:2/ ,http://a:1"), "http://a:1,http://b:2");
        for wrong in ["", "http://a,", ",http://a", "http://a,b", "http://a/x,http://b"] {
            assert!(Servers::parse(wrong).is_err(), "{wrong:?}");
        }
        let with_user = Servers::parse("http://me:se,cret@broker:8080,http://b");
        assert_eq!(with_user, Err(AddressError::User { host: "broker".to_owned() }));
        let many: Vec<String> = (0..=SERVERS_MAX).map(|number| format!("http://a:{}", number + 1)).collect();
        assert_eq!(Servers::parse(&many.join(",")), Err(AddressError::TooMany));
        assert!(Servers::parse(&many[1..].join(",")).is_ok());
    }

    #[test]
    fn one_server_is_asked_to_pass_on() {
        let prefers = |urls| {
            let choice = choice(urls);
            choice.prefers_redirect(&choice.way())
        };
        assert!(!prefers("http://a") && prefers("http://a,http://b"));
    }

    #[test]
    fn the_server_that_serves_is_asked_from_then_on() {
        let choice = choice("http://a,http://b,http://c");
        let mut way = choice.way();
        assert_eq!(told_of(&choice, "http://c:80/v2/topics?x=1", &mut way), Told::Again);
        assert_eq!(choice.current(), 2);
        let (created, none) = (StatusCode::CREATED, HeaderMap::new());
        assert_eq!(choice.follow((created, &none), true, &mut way), Told::Nothing);
    }

    #[test]
    fn servers_that_point_at_each_other_are_not_followed_for_ever() {
        let choice = choice("http://a,http://b");
        let mut way = choice.way();
        let locations = ["http://b/", "http://a/", "http://b/"];
        let told = locations.map(|location| told_of(&choice, location, &mut way));
        assert_eq!(told, [Told::Again, Told::Again, Told::InCircles]);
        let itself = ["http://a/", "http://b/"][choice.current()];
        assert_eq!(told_of(&choice, itself, &mut choice.way()), Told::InCircles, "it names itself");
    }

    #[test]
    fn a_server_that_was_not_named_is_not_followed() {
        for location in ["http://evil/v2", "https://b/", "http://b:81/", "nonsense", ""] {
            let choice = choice("http://a,http://b");
            assert_eq!(told_of(&choice, location, &mut choice.way()), Told::Again, "{location}");
            assert_eq!(choice.current(), 0, "{location}");
            assert!(!choice.prefers_redirect(&choice.way()), "{location}");
            assert_eq!(told_of(&choice, "http://b/", &mut choice.way()), Told::Nothing, "it did not ask");
        }
    }

    #[test]
    fn of_many_calls_that_fail_at_once_one_goes_on() {
        let choice = choice("http://a,http://b,http://c");
        for _ in 0..5 {
            choice.leave(0);
        }
        assert_eq!(choice.current(), 1);
        let mut way = choice.way();
        let tries = [(); 3].map(|()| (choice.try_next(&mut way), way.place));
        assert_eq!(tries, [(true, 2), (true, 0), (false, 0)], "each is tried once");
        assert!(choice.prefers_redirect(&way), "they may still know which of them serves");
    }

    #[test]
    fn while_the_server_that_serves_is_gone_another_one_keeps_the_call() {
        let choice = choice("http://a,http://b");
        let mut way = choice.way();
        assert!(choice.try_next(&mut way));
        assert_eq!(told_of(&choice, "http://a/", &mut way), Told::Again, "the other one does not know yet");
        assert!(choice.try_next(&mut way));
        assert_eq!((way.place, choice.prefers_redirect(&way)), (1, false));
        assert!(choice.prefers_redirect(&choice.way()), "the next call asks again");
    }
}
