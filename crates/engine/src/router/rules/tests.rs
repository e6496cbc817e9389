//! What rules match, what they say, and how a bad file is refused.

use driftq_core::Envelope;

use super::*;

fn message(key: &str, value: &str) -> Message<'static> {
    let envelope = Envelope {
        tenant_id: "acme".into(),
        labels: vec![("model".into(), "small".into())],
        ..Envelope::default()
    };
    let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    Message { key: key.into(), value: value.into(), envelope: Some(Box::new(envelope)), ..Message::default() }
}

const VALUE: &str = r#"{"kind":"refund","amount":100,"note":null,"who":{"mail":"ann@x.org"},"tags":["a/b"]}"#;

/// Whether a rule with this under `when` matches.
fn matches(when: &str, topic: &str, message: &Message<'_>) -> bool {
    let text = format!("[[rule]]\nthen.label = \"x\"\n{when}\n");
    let rules = RulesRouter::parse(&text).unwrap_or_else(|error| panic!("{when}: {error}"));
    rules.decide(topic, message).is_some()
}

#[test]
fn conditions_on_the_outside_of_a_message() {
    for (when, expected) in [
        ("", true),
        ("when.topic = 'orders.eu'", true),
        ("when.topic = 'orders.*'", true),
        ("when.topic = 'orders'", false),
        ("when.key = 'user:1'", true),
        ("when.key = 'user:'", false),
        ("when.key_prefix = 'user:'", true),
        ("when.key_prefix = 'ser'", false),
        ("when.key_regex = '^user:[0-9]$'", true),
        ("when.key_regex = 'ser'", true),
        ("when.key_regex = '^ser'", false),
        ("when.tenant = 'acme'", true),
        ("when.tenant = 'other'", false),
        ("when.labels = { model = 'small' }", true),
        ("when.labels = { model = 'large' }", false),
        ("when.labels = { model = 'small', more = 'x' }", false),
        ("when.value_regex = '\"amount\":1[0-9]+'", true),
        ("when.value_regex = 'chargeback'", false),
        ("when.key = 'user:1'\nwhen.tenant = 'other'", false),
    ] {
        assert_eq!(matches(when, "orders.eu", &message("user:1", VALUE)), expected, "{when}");
    }
}

#[test]
fn conditions_on_places_in_the_value() {
    for (test, expected) in [
        ("pointer = '/kind', equals = 'refund'", true),
        ("pointer = '/kind', equals = 'sale'", false),
        ("pointer = '/amount', equals = 100", true),
        ("pointer = '/amount', equals = 100.0", true),
        ("pointer = '/amount', equals = '100'", false),
        ("pointer = '/who/mail', regex = '@x\\.org$'", true),
        ("pointer = '/amount', regex = '100'", false),
        ("pointer = '/tags/0', equals = 'a/b'", true),
        ("pointer = '/tags', equals = ['a/b']", true),
        ("pointer = '/note', exists = true", true),
        ("pointer = '/none', exists = true", false),
        ("pointer = '/none', exists = false", true),
        ("pointer = '/none', equals = 1", false),
        ("pointer = '/amount', above = 99.5", true),
        ("pointer = '/amount', above = 100", false),
        ("pointer = '/amount', at_least = 100", true),
        ("pointer = '/amount', below = 100", false),
        ("pointer = '/amount', at_most = 100", true),
        ("pointer = '/amount', at_least = 50, below = 100", false),
        ("pointer = '/kind', above = 1", false),
        ("pointer = '', exists = true", true),
    ] {
        let when = format!("when.json = [{{ {test} }}]");
        assert_eq!(matches(&when, "t", &message("k", VALUE)), expected, "{test}");
    }
}

#[test]
fn a_value_that_is_no_json_has_no_places() {
    for value in ["", "not json", "{\"kind\":\"refund\"", &"[".repeat(10_000)] {
        assert!(!matches("when.json = [{ pointer = '/kind', exists = true }]", "t", &message("k", value)));
    }
}

#[test]
fn nothing_is_known_of_a_value_that_is_too_large() {
    let fits = format!("{{\"kind\":\"{}\"}}", "x".repeat(VALUE_BYTES_MAX - 11));
    assert_eq!(fits.len(), VALUE_BYTES_MAX);
    let large = format!("{fits} ");
    for when in [
        "when.json = [{ pointer = '/kind', exists = true }]",
        "when.json = [{ pointer = '/none', exists = false }]",
        "when.value_regex = 'kind'",
    ] {
        assert!(matches(when, "t", &message("k", &fits)), "{when}");
        assert!(!matches(when, "t", &message("k", &large)), "{when}");
    }
}

#[test]
fn the_first_match_wins_and_may_have_no_opinion() {
    let rules = RulesRouter::parse(
        "[[rule]]\nwhen.key = 'a'\nthen.pass = true\n\
         [[rule]]\nwhen.key_prefix = 'b'\nthen.label = 'first'\n\
         [[rule]]\nthen.label = 'rest'\n",
    )
    .unwrap();
    let label = |key| rules.decide("t", &message(key, "v")).map(|decision| decision.label);
    assert_eq!(label("a"), None);
    assert_eq!(label("bc").as_deref(), Some("first"));
    assert_eq!(label("c").as_deref(), Some("rest"));
}

#[test]
fn what_a_rule_says_is_filled_in() {
    let rules = RulesRouter::parse(
        "[[rule]]\nthen.label = 'kind:${json:/kind}'\nthen.target_topic = 'tasks.${tenant}'\nthen.partition = 2\n\
         [rule.then.meta]\nfrom = '${topic}/${key}'\nmodel = '${label:model}'\nnone = '${label:x}${json:/x}'\n\
         amount = '${json:/amount}'\nprice = '$5'\n",
    )
    .unwrap();
    let decision = rules.decide("orders", &message("k", VALUE)).unwrap();
    assert_eq!(decision.label, "kind:refund");
    assert_eq!(decision.target_topic.as_deref(), Some("tasks.acme"));
    assert_eq!(decision.partition_override, Some(2));
    let meta: Vec<_> = decision.meta.iter().map(|(name, value)| (&**name, &**value)).collect();
    let expected =
        [("amount", "100"), ("from", "orders/k"), ("model", "small"), ("none", ""), ("price", "$5")];
    assert_eq!(meta, expected);
}

#[test]
fn what_a_producer_chose_is_cut_and_never_nonsense() {
    let rules = RulesRouter::parse(
        "[[rule]]\nthen.label = '${key}'\nthen.target_topic = '${json:/to}'\nthen.meta = { a = 'x${key}' }\n",
    )
    .unwrap();
    let decision = rules.decide("t", &message(&"é".repeat(5_000), "{}")).unwrap();
    assert_eq!(decision.label.len(), 256);
    assert_eq!(decision.meta[0].1.len(), 1023, "a character is never cut in two");
    assert_eq!(decision.target_topic, None);
    let target = format!("{{\"to\":\"{}\"}}", "t".repeat(500));
    assert_eq!(rules.decide("t", &message("k", &target)).unwrap().target_topic.unwrap().len(), 255);
    let odd = Message { key: vec![0xff, 0xfe].into(), value: b"v"[..].into(), ..Message::default() };
    assert_eq!(rules.decide("t", &odd).unwrap().label, "");
}

#[test]
fn a_bad_file_is_refused_with_the_rule_and_the_field() {
    let good = "[[rule]]\nthen.label = 'x'\n";
    for (text, expected) in [
        ("", &["no rule"][..]),
        ("[[rules]]\n", &["rules"]),
        ("rule = 5\n", &["rule"]),
        ("[[rule]]\nname = 'n'\n", &["rule 2 `n`", "then"]),
        ("[[rule]]\nname = 'n'\nthen.lable = 'x'\n", &["rule 2 `n`", "lable"]),
        ("[[rule]]\nwhen.topics = 'x'\nthen.label = 'x'\n", &["rule 2", "topics"]),
        ("[[rule]]\nwhen.topic = 'a*b'\nthen.label = 'x'\n", &["rule 2", "when.topic", "star"]),
        ("[[rule]]\nwhen.key_regex = '('\nthen.label = 'x'\n", &["rule 2", "when.key_regex"]),
        (
            "[[rule]]\nwhen.value_regex = '\\w{900}'\nthen.label = 'x'\n",
            &["rule 2", "when.value_regex", "size"],
        ),
        (
            "[[rule]]\nwhen.json = [{ pointer = 'a', exists = true }]\nthen.label = 'x'\n",
            &["when.json.pointer"],
        ),
        ("[[rule]]\nwhen.json = [{ pointer = '/a' }]\nthen.label = 'x'\n", &["when.json", "exists"]),
        ("[[rule]]\nwhen.json = [{ pointer = '/a', equal = 1 }]\nthen.label = 'x'\n", &["rule 2", "equal"]),
        ("[[rule]]\nthen.partition = -1\nthen.label = 'x'\n", &["rule 2", "partition"]),
        ("[[rule]]\nthen.target_topic = 'x'\n", &["rule 2", "then.label"]),
        ("[[rule]]\nthen.target_topic = ''\nthen.label = 'x'\n", &["rule 2", "then.target_topic"]),
        ("[[rule]]\nthen.pass = true\nthen.label = 'x'\n", &["rule 2", "then.pass"]),
        ("[[rule]]\nthen.label = '${keys}'\n", &["rule 2", "then.label", "keys"]),
        ("[[rule]]\nthen.label = '${key'\n", &["rule 2", "then.label", "brace"]),
        ("[[rule]]\nthen.label = 5\n", &["rule 2", "label"]),
    ] {
        let text = if expected[0].starts_with("no rule") || !text.starts_with("[[rule]]") {
            text.to_owned()
        } else {
            format!("{good}{text}")
        };
        let error = RulesRouter::parse(&text).expect_err(&text).to_string();
        for part in expected {
            assert!(error.contains(part), "{text}\nsaid: {error}\nwithout: {part}");
        }
    }
}

#[test]
fn there_is_a_bound_on_rules() {
    let rule = "[[rule]]\nthen.label = 'x'\n";
    assert_eq!(RulesRouter::parse(&rule.repeat(RULES_MAX)).unwrap().rules(), RULES_MAX);
    assert!(RulesRouter::parse(&rule.repeat(RULES_MAX + 1)).is_err());
}
