//! Sessions: a browser shows a cookie instead of a key.
//!
//! A cookie is random and stands for a key as long as the process lives, and for twelve hours at most. The key was
//! compared when the session began; whether it is still live is asked at every request, so that a revoked key ends its
//! sessions. Only digests of cookies are kept.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use driftq_api::{Code, Fault};
use driftq_engine::key_text::{self, ShownId};
use hyper::header::COOKIE;
use hyper::http::HeaderMap;

/// The cookie.
const NAME: &str = "driftq_session";
/// How long a session lasts.
const AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; the one that would end first makes room.
const SESSIONS_MAX: usize = 1024;

/// The sessions of this process.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<[u8; 32], Session>>,
}

#[derive(Clone, Copy)]
struct Session {
    id: ShownId,
    until: Instant,
}

impl Sessions {
    /// Begins a session; returns the header that sets its cookie.
    pub(crate) fn begin(&self, id: ShownId, is_secure: bool, now: Instant) -> Result<String, Fault> {
        let drawn = key_text::draw()
            .map_err(|_| Fault::new(Code::Unavailable, "the system gives no random numbers now"))?;
        let secret = drawn.text.rsplit('_').next().unwrap_or_default();
        let mut open = self.open();
        open.retain(|_, session| session.until > now);
        if open.len() >= SESSIONS_MAX {
            let first = open.iter().min_by_key(|(_, session)| session.until).map(|(digest, _)| *digest);
            first.and_then(|digest| open.remove(&digest));
        }
        open.insert(key_text::digest(secret), Session { id, until: now + AGE_MAX });
        Ok(cookie(secret, AGE_MAX, is_secure))
    }

    /// The key of the session that a request shows.
    pub(crate) fn find(&self, headers: &HeaderMap, now: Instant) -> Option<ShownId> {
        let digest = key_text::digest(shown(headers)?);
        self.open().get(&digest).filter(|session| session.until > now).map(|session| session.id)
    }

    /// Ends the session that a request shows; returns the header that takes its cookie away.
    pub(crate) fn end(&self, headers: &HeaderMap, is_secure: bool) -> String {
        if let Some(secret) = shown(headers) {
            self.open().remove(&key_text::digest(secret));
        }
        cookie("", Duration::ZERO, is_secure)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cookie(secret: &str, age: Duration, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{NAME}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", age.as_secs())
}

/// The cookie's value in a request.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == NAME).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftq_engine::core::KeyId;
    use hyper::header::HeaderValue;

    fn headers(set: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let pair = format!("theme=dark; {}", set.split(';').next().unwrap());
        headers.insert(COOKIE, HeaderValue::from_str(&pair).unwrap());
        headers
    }

    #[test]
    fn a_session_stands_for_its_key_until_it_ends() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let id = ShownId::Key(KeyId(7));
        let set = sessions.begin(id, false, now).unwrap();
        assert!(set.contains("; HttpOnly; SameSite=Strict;") && !set.contains("Secure"), "{set}");
        assert_eq!(sessions.find(&headers(&set), now), Some(id));
        assert_eq!(sessions.find(&HeaderMap::new(), now), None);
        assert_eq!(sessions.find(&headers("driftq_session=0123"), now), None);
        assert_eq!(sessions.find(&headers(&set), now + AGE_MAX), None, "it lasts twelve hours");
        let gone = sessions.end(&headers(&set), true);
        assert!(gone.contains("Max-Age=0; Secure"), "{gone}");
        assert_eq!(sessions.find(&headers(&set), now), None);
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.begin(ShownId::Root, false, now).unwrap();
        let second = sessions.begin(ShownId::Root, false, now + Duration::from_secs(1)).unwrap();
        for _ in 0..SESSIONS_MAX - 1 {
            sessions.begin(ShownId::Root, false, now + Duration::from_secs(2)).unwrap();
        }
        assert_eq!(sessions.find(&headers(&first), now), None);
        assert_eq!(sessions.find(&headers(&second), now), Some(ShownId::Root));
    }
}
