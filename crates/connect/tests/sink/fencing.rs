//! A credential of an attempt, and the database that refuses an older one: the function is that of the page.

use std::time::Duration;

use driftq_client::wire::CredentialRequest;
use driftq_client::{Client, Code};
use serde_json::{Value, json};

use crate::bed::{Bed, TOPIC};

const PAGE: &str = include_str!("../../../../docs/how-to/credentials.md");

fn statements() -> &'static str {
    PAGE.split_once("```sql\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0
}

/// The token of the next delivery.
async fn lease(client: &Client) -> String {
    let body = json!({"owner": "o", "wait_ms": 20_000, "lease_ms": 60_000});
    let leased: Value = client.post(&format!("/v2/topics/{TOPIC}/groups/bank/lease"), &body).await.unwrap();
    leased["messages"][0]["lease"]["token"].as_str().unwrap().to_owned()
}

/// What the bank reads out of a credential, if it is still good.
async fn fence_of(client: &Client, token: &str) -> (String, String) {
    let asked = CredentialRequest { token: token.into(), audience: "bank".into(), ttl_ms: None };
    let credential = client.credential(&asked).await.unwrap().credential.into_owned();
    let told = client.introspect(&credential).await.unwrap();
    (credential, told.fence.unwrap())
}

#[tokio::test]
async fn a_worker_that_was_overtaken_is_refused_by_the_database() {
    let bed = Bed::new().await;
    bed.sql(statements());
    bed.sql("INSERT INTO account (id) VALUES ('a')");
    bed.produce_json([json!(1)]).await;
    let book = |fence: &str| bed.try_sql(&format!("SELECT book('a', 10, '{fence}')"));
    let first = lease(&bed.client).await;
    let (credential, older) = fence_of(&bed.client, &first).await;
    assert_eq!(book(&older).unwrap(), "10");
    bed.client.nack(&first, Some(Duration::ZERO), "frozen").await.unwrap();
    let second = lease(&bed.client).await;
    let (_, newer) = fence_of(&bed.client, &second).await;
    // Before the newer attempt has written, the database cannot know; the server does.
    assert!(!bed.client.introspect(&credential).await.unwrap().active);
    assert_eq!(book(&newer).unwrap(), "20");
    let refused = book(&older).unwrap_err();
    assert!(refused.contains("a newer attempt has written to account a"), "{refused}");
    assert_eq!(bed.sql("SELECT balance FROM account"), "20");
    let late = CredentialRequest { token: (&*first).into(), audience: "bank".into(), ttl_ms: None };
    assert_eq!(bed.client.credential(&late).await.unwrap_err().code(), Some(Code::StaleLease));
}
