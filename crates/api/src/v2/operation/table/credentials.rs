//! Credentials of attempts, and who can check them.

use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Description, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Credential, CredentialRequest, Introspect, Introspected, JsonWebKeys, OpenIdConfiguration};

const TAG: &str = "credentials";

const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":"685-0f6d1c7e","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

const DISCOVERY: &str = r#"{"issuer":"https://driftq.example","jwks_uri":"https://driftq.example/.well-known/jwks.json","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"],"claims_supported":["sub","aud","exp"]}"#;

const fn open(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    answers: &'static [Answer],
) -> Description {
    Description {
        operation,
        method: Method::Get,
        path,
        id,
        tag: TAG,
        summary,
        detail,
        query: &[],
        is_keyed: false,
        body: None,
        answers,
        problems: &[],
    }
}

pub(super) static LINES: [Description; 4] = [
    Description {
        operation: Operation::MintCredential,
        method: Method::Post,
        path: "/v2/leases/credential",
        id: "mint_credential",
        tag: TAG,
        summary: "A credential for a delivery on loan",
        detail: "A JSON Web Token that says which message, which attempt of it and for whom, and that ends with the lease \
                 at the latest. Safe to repeat: each call gives a credential for the same attempt.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<CredentialRequest<'_>>(
            |body| told(CredentialRequest::from_json(body)),
            r#"{"token":"1.2a","audience":"sts.amazonaws.com","ttl_ms":300000}"#,
        )),
        answers: &[Answer::json(
            200,
            "The credential.",
            Words::answer::<Credential<'static>>(
                r#"{"credential":"eyJhbGciOiJFUzI1NiJ9.e30.c2ln","expires_at":"2025-12-21T12:05:00Z"}"#,
            ),
        )],
        problems: &[Code::StaleLease, Code::LeaseUnknown],
    },
    Description {
        operation: Operation::Introspect,
        method: Method::Post,
        path: "/v2/introspect",
        id: "introspect",
        tag: TAG,
        summary: "Whether a credential is still good",
        detail: "It is as long as its delivery is the newest of its message and the lease is live: from the moment at \
                 which another attempt begins it is not, whatever its own time says.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<Introspect<'_>>(
            |body| told(Introspect::from_json(body)),
            r#"{"token":"eyJhbGciOiJFUzI1NiJ9.e30.c2ln"}"#,
        )),
        answers: &[Answer::json(
            200,
            "Whether it is, and what it says if so.",
            Words::answer::<Introspected>(r#"{"active":false}"#),
        )],
        problems: &[],
    },
    open(
        Operation::GetOpenIdConfiguration,
        "/.well-known/openid-configuration",
        "get_openid_configuration",
        ["Who signs credentials", "For services that federate by OpenID Connect. Open to all."],
        &[Answer::json(200, "Who, and where the keys are.", Words::answer::<OpenIdConfiguration>(DISCOVERY))],
    ),
    open(
        Operation::GetJsonWebKeys,
        "/.well-known/jwks.json",
        "get_json_web_keys",
        [
            "The keys that credentials are signed with",
            "The present one, the one before and the next. Open to all.",
        ],
        &[Answer::json(200, "Public keys.", Words::answer::<JsonWebKeys>(KEYS))],
    ),
];
