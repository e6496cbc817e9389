//! What is asked is checked before a store sees it, so that every store may trust it.

use std::time::Duration;

use crate::{
    ATTEMPTS_MAX, AuditFilter, Begin, ERROR_BYTES_MAX, Ending, Filter, HEADER_NAME_BYTES_MAX,
    HEADER_VALUE_BYTES_MAX, HEADERS_MAX, IDENTITY_BYTES_MAX, LEASE_MAX, LedgerError, NOTE_BYTES_MAX,
    PAGE_MAX, Reacquire, Resolve, Response, Settings, TTL_MAX, Terms,
};

type Checked = Result<(), LedgerError>;

fn unless(is_fine: bool, complaint: impl FnOnce() -> String) -> Checked {
    if is_fine { Ok(()) } else { Err(LedgerError::Invalid(complaint())) }
}

pub(crate) fn begin(asked: &Begin) -> Checked {
    terms(&asked.terms)?;
    note("call", asked.call.as_deref())?;
    note("owner", asked.owner.as_deref())
}

pub(crate) fn reacquire(asked: &Reacquire) -> Checked {
    terms(&asked.terms)?;
    note("call", asked.call.as_deref())?;
    note("owner", asked.owner.as_deref())
}

fn terms(terms: &Terms) -> Checked {
    lease_time(terms.lease)?;
    ttl(terms.ttl)?;
    unless(terms.attempts_max.is_none_or(|most| (1..=ATTEMPTS_MAX).contains(&most)), || {
        format!("a cap on attempts is between 1 and {ATTEMPTS_MAX}")
    })
}

/// A lease lasts at least a millisecond: a server counts in milliseconds.
pub(crate) fn lease_time(lasts: Duration) -> Checked {
    unless((Duration::from_millis(1)..=LEASE_MAX).contains(&lasts), || {
        format!("a lease lasts between 1 ms and {} days, not {lasts:?}", LEASE_MAX.as_secs() / 86_400)
    })
}

fn ttl(ttl: Duration) -> Checked {
    unless((Duration::from_millis(1)..=TTL_MAX).contains(&ttl), || {
        format!("an outcome is remembered for 1 ms to {} days, not {ttl:?}", TTL_MAX.as_secs() / 86_400)
    })
}

fn note(what: &str, text: Option<&str>) -> Checked {
    let is_fine =
        |text: &str| (1..=NOTE_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    unless(text.is_none_or(is_fine), || {
        format!("the {what} has 1 to {NOTE_BYTES_MAX} bytes and no control characters")
    })
}

pub(crate) fn ending(ending: &Ending, settings: &Settings) -> Checked {
    response(&ending.response, settings)?;
    unless(!ending.error.contains('\0') && ending.error.len() <= ERROR_BYTES_MAX, || {
        format!("the text of an error has at most {ERROR_BYTES_MAX} bytes, none of them NUL")
    })
}

fn response(response: &Response, settings: &Settings) -> Checked {
    let (bytes, limit) = (response.payload.len(), settings.payload_bytes_max);
    if bytes > limit {
        return Err(LedgerError::TooLarge { bytes, limit });
    }
    unless(response.headers.len() <= HEADERS_MAX, || {
        format!("a response has at most {HEADERS_MAX} headers")
    })?;
    for (name, value) in &response.headers {
        let is_fine = (1..=HEADER_NAME_BYTES_MAX).contains(&name.len())
            && value.len() <= HEADER_VALUE_BYTES_MAX
            && !name.chars().chain(value.chars()).any(char::is_control);
        unless(is_fine, || {
            format!(
                "a header has a name of 1 to {HEADER_NAME_BYTES_MAX} bytes, a value of at most \
                 {HEADER_VALUE_BYTES_MAX}, and no control characters; {name:?} does not"
            )
        })?;
    }
    Ok(())
}

pub(crate) fn resolve(found: &Resolve, settings: &Settings) -> Checked {
    ending(&found.ending, settings)?;
    ttl(found.ttl)?;
    let said = |text: &str| !text.trim().is_empty() && text.len() <= ERROR_BYTES_MAX && !text.contains('\0');
    unless(said(&found.resolver.by) && found.resolver.by.len() <= NOTE_BYTES_MAX, || {
        format!("`by` says who resolves it, in 1 to {NOTE_BYTES_MAX} bytes")
    })?;
    unless(said(&found.resolver.why), || {
        format!("`why` says how that is known, in 1 to {ERROR_BYTES_MAX} bytes")
    })
}

pub(crate) fn filter(filter: &Filter) -> Checked {
    page(filter.limit)?;
    for text in [&filter.principal, &filter.method].into_iter().flatten() {
        unless(text.len() <= IDENTITY_BYTES_MAX && !text.contains('\0'), || {
            format!("a filter has at most {IDENTITY_BYTES_MAX} bytes")
        })?;
    }
    Ok(())
}

pub(crate) fn audit(filter: &AuditFilter) -> Checked {
    page(filter.limit)
}

pub(crate) fn page(limit: u32) -> Checked {
    unless((1..=PAGE_MAX).contains(&limit), || format!("a limit is between 1 and {PAGE_MAX}, not {limit}"))
}
