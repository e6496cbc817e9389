//! Credentials of attempts.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftq_api::Fault;
use driftq_api::v2::{
    Claims, Credential, CredentialRequest, Introspect, Introspected, JsonWebKey, JsonWebKeys,
    OpenIdConfiguration,
};
use driftq_api::{Code, Moment};
use driftq_engine::core::Time;
use driftq_engine::{Failure, LeasedMessage, PublicKey, named_receipt, receipt_named};
use hyper::StatusCode;

use super::words::moment;
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::v1::Handled;

/// How long a credential is good for if its asker does not say, unless the lease ends before: an hour.
const TTL_MS: u64 = 3_600_000;
const ALGORITHM: &str = "ES256";

pub(super) async fn mint(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = CredentialRequest::from_json(request.json()?)?;
    let broker = &request.app.broker;
    let receipt = broker
        .receipt(&asked.token)
        .ok_or_else(|| Fault::new(Code::LeaseUnknown, "no lease has that token"))?;
    let leased = broker.leased_message(receipt).await.map_err(|failure| fault(&failure))?;
    let now = broker.now();
    let until = now.after_ms(asked.ttl_ms.unwrap_or(TTL_MS)).min(leased.lease.expires);
    let claims = claims(&request.app.options.issuer, &leased, &asked.audience, now, until);
    let bytes = serde_json::to_vec(&claims)
        .map_err(|_| Fault::new(Code::Internal, "the claims cannot be written"))?;
    let credential = broker.sign_credential(&bytes, now);
    let expires_at: Moment = moment(Time(claims.exp * 1000));
    Ok(json(StatusCode::OK, &Credential { credential: Cow::Owned(credential), expires_at }))
}

fn claims(issuer: &str, leased: &LeasedMessage, audience: &str, now: Time, until: Time) -> Claims {
    let (topic, incarnation, partition, offset) = &leased.origin;
    let message = format!("{topic}/{incarnation}/{partition}/{offset}");
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let token = leased.receipt.token;
    let attempt = leased.lease.attempt;
    Claims {
        iss: issuer.to_owned(),
        sub: format!(
            "tenant:{}:topic:{}:group:{}:message:{message}:attempt:{attempt}",
            leased.tenant, leased.topic, leased.group
        ),
        aud: audience.to_owned(),
        // In whole seconds, and never after the lease.
        exp: until.0 / 1000,
        iat: now.0 / 1000,
        nbf: now.0 / 1000,
        jti: named_receipt(&leased.receipt),
        tenant: given(&leased.tenant),
        topic: leased.topic.clone(),
        group: leased.group.clone(),
        run: given(&leased.run),
        step: given(&leased.step),
        message,
        attempt,
        epoch: token.epoch,
        fence: format!("{:010}-{:020}", token.epoch, token.n),
    }
}

pub(super) async fn introspect(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = Introspect::from_json(request.json()?)?;
    let claims = active(request, &asked.token).await?;
    Ok(json(StatusCode::OK, &claims.map(Introspected::from).unwrap_or_default()))
}

/// What a credential says, if it is one of ours, its time is not over, and its delivery is still the newest.
async fn active(request: &Request<'_>, token: &str) -> Result<Option<Claims>, Fault> {
    let broker = &request.app.broker;
    let now = broker.now();
    let Some(bytes) = broker.verified_claims(token, now) else { return Ok(None) };
    let Ok(claims) = serde_json::from_slice::<Claims>(&bytes) else { return Ok(None) };
    let is_theirs = request.caller.acts_as(claims.tenant.as_deref().unwrap_or(""));
    let Some(receipt) = receipt_named(&claims.jti) else { return Ok(None) };
    if !is_theirs || claims.iss != request.app.options.issuer || claims.exp * 1000 <= now.0 {
        return Ok(None);
    }
    match broker.live_lease(receipt).await {
        Ok(_) => Ok(Some(claims)),
        Err(Failure::Reject(_)) => Ok(None),
        Err(failure) => Err(fault(&failure)),
    }
}

pub(super) fn configuration(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let issuer = request.app.options.issuer.clone();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let configuration = OpenIdConfiguration {
        jwks_uri: format!("{issuer}/.well-known/jwks.json"),
        issuer,
        response_types_supported: words(&["id_token"]),
        subject_types_supported: words(&["public"]),
        id_token_signing_alg_values_supported: words(&[ALGORITHM]),
        claims_supported: words(&[
            "iss", "sub", "aud", "exp", "iat", "nbf", "jti", "tenant", "topic", "group", "run", "step",
            "message", "attempt", "epoch", "fence",
        ]),
    };
    Ok(json(StatusCode::OK, &configuration))
}

pub(super) fn keys(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let broker = &request.app.broker;
    let key = |PublicKey { id, x, y }: PublicKey| JsonWebKey {
        kty: "EC".to_owned(),
        crv: "P-256".to_owned(),
        usage: "sig".to_owned(),
        alg: ALGORITHM.to_owned(),
        kid: id,
        x: URL_SAFE_NO_PAD.encode(x),
        y: URL_SAFE_NO_PAD.encode(y),
    };
    let keys = broker.credential_keys(broker.now()).into_iter().map(key).collect();
    Ok(json(StatusCode::OK, &JsonWebKeys { keys }))
}
