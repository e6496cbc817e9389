//! The role that is asked for, checked before anything is sent.

use std::time::Duration;

use driftq_http::{Address, escape};

use crate::error::Error;

/// What the identity provider in AWS calls its client, unless it is told otherwise.
pub const STS_AUDIENCE: &str = "sts.amazonaws.com";
const VERSION: &str = "2011-06-15";
/// What STS takes.
const DURATION_S_MIN: u64 = 900;
const DURATION_S_MAX: u64 = 43_200;
const SESSION_NAME_MIN: usize = 2;
const SESSION_NAME_MAX: usize = 64;
const REGION_BYTES_MAX: usize = 32;

/// Topic, partition, offset and attempt.
pub(super) type Place<'a> = (&'a str, u32, u64, u32);

/// A role of AWS, and how it is asked for.
#[derive(Clone, Debug)]
pub struct AwsRole {
    arn: String,
    audience: String,
    session_name: Option<String>,
    duration: Option<Duration>,
    region: Option<String>,
    endpoint: Option<String>,
}

impl AwsRole {
    /// The role with this ARN.
    pub fn new(arn: impl Into<String>) -> Self {
        let (arn, audience) = (arn.into(), STS_AUDIENCE.to_owned());
        Self { arn, audience, session_name: None, duration: None, region: None, endpoint: None }
    }

    /// What the identity provider in AWS calls its client; `sts.amazonaws.com` if not given.
    #[must_use]
    pub fn audience(self, audience: impl Into<String>) -> Self {
        Self { audience: audience.into(), ..self }
    }

    /// How `CloudTrail` calls the session; topic, partition, offset and attempt if not given.
    #[must_use]
    pub fn session_name(self, name: impl Into<String>) -> Self {
        Self { session_name: Some(name.into()), ..self }
    }

    /// How long the credentials are good for, 15 minutes at least; an hour if not given.
    #[must_use]
    pub fn duration(self, duration: Duration) -> Self {
        Self { duration: Some(duration), ..self }
    }

    /// The region whose STS is asked; `AWS_REGION` or `AWS_DEFAULT_REGION` if not given.
    #[must_use]
    pub fn region(self, region: impl Into<String>) -> Self {
        Self { region: Some(region.into()), ..self }
    }

    /// The URL of STS; `AWS_ENDPOINT_URL_STS` if not given, else that of the region.
    #[must_use]
    pub fn endpoint(self, url: impl Into<String>) -> Self {
        Self { endpoint: Some(url.into()), ..self }
    }

    pub(super) fn question(
        &self,
        place: Place<'_>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Question, Error> {
        let name = self.session_name.clone().unwrap_or_else(|| session_name(place));
        let is_long_enough = (SESSION_NAME_MIN..=SESSION_NAME_MAX).contains(&name.len());
        if !is_long_enough || !name.chars().all(fits_session_name) {
            return Err(Error::Invalid(format!(
                "session_name is {name:?}: it must be 2 to 64 of A-Z, a-z, 0-9 and _+=,.@-"
            )));
        }
        let mut fields = vec![
            ("Action", "AssumeRoleWithWebIdentity".to_owned()),
            ("Version", VERSION.to_owned()),
            ("RoleArn", self.arn.clone()),
            ("RoleSessionName", name),
        ];
        if let Some(duration) = self.duration {
            let seconds = duration.as_secs();
            if !(DURATION_S_MIN..=DURATION_S_MAX).contains(&seconds) {
                return Err(Error::Invalid(format!(
                    "duration is {seconds} s: STS takes {DURATION_S_MIN} to {DURATION_S_MAX} s"
                )));
            }
            fields.push(("DurationSeconds", seconds.to_string()));
        }
        let url = endpoint(self.region.as_deref(), self.endpoint.as_deref(), environment)?;
        Ok(Question { audience: self.audience.clone(), url, fields })
    }
}

/// What STS is asked.
pub(super) struct Question {
    pub(super) audience: String,
    pub(super) url: String,
    fields: Vec<(&'static str, String)>,
}

impl Question {
    pub(super) fn form(&self, credential: &str) -> String {
        let mut form = format!("WebIdentityToken={}", escape(credential));
        for (name, value) in &self.fields {
            form.push_str(&format!("&{name}={}", escape(value)));
        }
        form
    }
}

fn fits_session_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_+=,.@-".contains(character)
}

/// `driftq-orders-0-17-1`: what a person needs to find the attempt. A long topic is cut.
fn session_name((topic, partition, offset, attempt): Place<'_>) -> String {
    let tail = format!("-{partition}-{offset}-{attempt}");
    let head = "driftq-".chars().chain(topic.chars());
    let head = head.map(|character| if fits_session_name(character) { character } else { '-' });
    head.take(SESSION_NAME_MAX - tail.len()).chain(tail.chars()).collect()
}

fn endpoint(
    region: Option<&str>,
    endpoint: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<String, Error> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    if let Some(url) = endpoint.map(str::to_owned).or_else(|| set("AWS_ENDPOINT_URL_STS")) {
        // The URL is not repeated: what is in front of an @, or in a query, may be a secret.
        return match Address::parse_with_path(&url) {
            Ok(address) if !address.path().contains('?') && !url.contains('#') => {
                Ok(format!("{}{}", address.url(), address.path()))
            }
            Ok(_) => {
                Err(Error::Invalid("the endpoint of STS cannot be used: it must have no query".to_owned()))
            }
            Err(why) => Err(Error::Invalid(format!(
                "the endpoint of STS cannot be used: {why}; write it as https://sts.eu-central-1.amazonaws.com"
            ))),
        };
    }
    let named = region.map(str::to_owned).or_else(|| set("AWS_REGION")).or_else(|| set("AWS_DEFAULT_REGION"));
    let Some(region) = named else { return Ok("https://sts.amazonaws.com/".to_owned()) };
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if region.is_empty() || region.len() > REGION_BYTES_MAX || !region.bytes().all(fits) {
        return Err(Error::Invalid(format!(
            "{region:?} is not a region of AWS: it must look like eu-central-1"
        )));
    }
    let china = if region.starts_with("cn-") { ".cn" } else { "" };
    Ok(format!("https://sts.{region}.amazonaws.com{china}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sts.json"));
    const PLACE: Place<'_> = ("orders", 0, 17, 1);

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn sessions_are_named_as_in_every_sdk() {
        let examples: serde_json::Value = serde_json::from_str(EXAMPLES).unwrap();
        for example in examples["session_names"].as_array().unwrap() {
            let number = |name: &str| example[name].as_u64().unwrap();
            let small = |name: &str| u32::try_from(number(name)).unwrap();
            let topic = example["topic"].as_str().unwrap();
            let name = session_name((topic, small("partition"), number("offset"), small("attempt")));
            assert_eq!(name, example["name"].as_str().unwrap());
        }
    }

    #[test]
    fn the_form_has_what_was_asked_for() {
        let role = AwsRole::new("arn:a/b").duration(Duration::from_secs(900));
        let form = role.question(PLACE, nothing).unwrap().form("a.b.c");
        assert_eq!(
            form,
            "WebIdentityToken=a.b.c&Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aa%2Fb\
             &RoleSessionName=driftq-orders-0-17-1&DurationSeconds=900"
        );
    }

    #[test]
    fn what_cannot_be_asked_is_said_before_anything_is_sent() {
        let role = AwsRole::new("arn");
        for (role, said) in [
            (role.clone().session_name("a b"), "session_name"),
            (role.clone().session_name("x".repeat(65)), "session_name"),
            (role.clone().duration(Duration::from_secs(899)), "900"),
            (role.clone().duration(Duration::from_secs(43_201)), "43200"),
            (role.clone().region("evil.example/"), "region"),
            (role.clone().endpoint("https://me:hunter2@sts.example"), "endpoint"),
            (role.clone().endpoint("https://sts.example/?hunter2"), "endpoint"),
            (role.endpoint("ftp://sts.example"), "endpoint"),
        ] {
            let error = role.question(PLACE, nothing).map(|question| question.url).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn where_sts_is() {
        let only = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        assert_eq!(endpoint(None, None, nothing).unwrap(), "https://sts.amazonaws.com/");
        for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
            let url = endpoint(None, None, only(name, "eu-west-1")).unwrap();
            assert_eq!(url, "https://sts.eu-west-1.amazonaws.com/");
        }
        let china = endpoint(Some("cn-north-1"), None, nothing).unwrap();
        assert_eq!(china, "https://sts.cn-north-1.amazonaws.com.cn/");
        let named = only("AWS_ENDPOINT_URL_STS", "http://localhost:4566");
        assert_eq!(endpoint(Some("cn-north-1"), None, named).unwrap(), "http://localhost:4566/");
        let given = endpoint(None, Some("https://vpce-1.example/sts"), named).unwrap();
        assert_eq!(given, "https://vpce-1.example:443/sts");
    }
}
