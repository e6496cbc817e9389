//! The handler of a scenario as a shell script: what a user of `driftq work --exec` would write.

use serde_json::{Map, Value};

/// What went wrong in a script, for the runner to find.
pub(crate) const COMPLAINTS: &str = "complaints";
/// The attempts that the handler was called with.
pub(crate) const ATTEMPTS: &str = "attempts";

const HEAD: &str = r#"
echo "$DRIFTQ_ATTEMPT" >> attempts
wrong() { echo "$1" >> complaints; exit 65; }
"#;

/// The script for all attempts.
pub(crate) fn handler(scenario: &Value) -> String {
    let lease_ms = scenario["worker"]["lease_ms"].as_u64().unwrap_or_default();
    let is_called_again =
        scenario["needs"].as_array().is_some_and(|needs| needs.iter().any(|need| need == "second_call"));
    let mut script = HEAD.to_owned();
    if is_called_again {
        // The same attempt may be handed out again; its list is for the first time.
        script.push_str("[ \"$(wc -l < attempts)\" -gt 1 ] && exit 0\n");
    }
    script.push_str("case \"$DRIFTQ_ATTEMPT\" in\n");
    let lists = scenario["handler"].as_object().expect("a handler");
    let numbered = lists.iter().filter(|(attempt, _)| *attempt != "*");
    for (attempt, actions) in numbered.chain(lists.get_key_value("*")) {
        script.push_str(&format!("{attempt})\n"));
        let actions = actions.as_array().expect("a list of actions");
        for (place, action) in actions.iter().enumerate() {
            script.push_str(&line(action, &actions[..place], lease_ms));
        }
        script.push_str(";;\n");
    }
    script + "esac\nexit 0\n"
}

fn line(action: &Value, before: &[Value], lease_ms: u64) -> String {
    let (name, what) = action.as_object().and_then(|action| action.iter().next()).expect("an action");
    match name.as_str() {
        "effect" => effect(what.as_object().expect("an effect"), lease_ms),
        "leave" => leave(what) + "\n",
        "retry" => {
            let after = what["after_ms"].as_u64().expect("after_ms");
            format!("echo {after}ms > \"$DRIFTQ_DELAY\"; {}", end(&what["reason"], 75))
        }
        "snooze" => format!("echo {}ms > \"$DRIFTQ_DELAY\"; exit 79\n", what["for_ms"]),
        "dead" => end(what, 65),
        "raise" => end(what, 1),
        "send" => format!("echo {} >> \"$DRIFTQ_FOLLOW_UPS\"\n", quoted(&follow_up(what).to_string())),
        "output" => format!("echo {} >> \"$DRIFTQ_OUTPUTS\"\n", quoted(&what.to_string())),
        "commit" => commit(what, before),
        "outlive" => outlive(what, lease_ms) + "\n",
        "cancel_message" => {
            "\"$DQ\" message cancel \"$DRIFTQ_TOPIC\" \"$DRIFTQ_PARTITION\" \"$DRIFTQ_OFFSET\" > /dev/null || wrong cancel\n"
                .to_owned()
        }
        // A command learns of it by SIGTERM; why, the worker says in its line.
        "await_signal" => "trap 'exit 143' TERM\nwhile :; do sleep 0.02; done\n".to_owned(),
        other => panic!("no such action: {other}"),
    }
}

/// The last words of a handler.
fn end(reason: &Value, code: u8) -> String {
    format!("echo {} >&2; exit {code}\n", quoted(reason.as_str().expect("a reason")))
}

fn outlive(what: &Value, lease_ms: u64) -> String {
    let leases = what["leases"].as_u64().expect("leases");
    format!("sleep {}", (leases * lease_ms) as f64 / 1000.0)
}

/// Somebody else begins the effect, and is not heard of again.
fn leave(what: &Value) -> String {
    let name = |member: &str| quoted(what[member].as_str().expect("a name"));
    let effect = format!("{} {}", name("scope"), name("key"));
    let lease = what["lease_ms"].as_u64();
    let begin =
        format!("\"$DQ\" effect begin {effect} --lease {}ms --reacquire > /dev/null", lease.unwrap_or(1));
    let begin = format!("{begin} || echo \"somebody else: exit $?\" >> {COMPLAINTS}");
    if lease.is_some() {
        return begin;
    }
    let is_unknown = format!("\"$DQ\" effect get {effect} -o json | grep -q '\"state\": *\"unknown\"'");
    format!("{begin}; until {is_unknown}; do sleep 0.02; done")
}

fn effect(effect: &Map<String, Value>, lease_ms: u64) -> String {
    let text = |name: &str| effect.get(name).and_then(Value::as_str);
    let scope = text("scope").expect("a scope");
    let mut flags = vec!["--scope".to_owned(), quoted(scope)];
    let mut flag = |name: &str, value: Option<String>| {
        flags.extend(value.map(|value| format!("--{name} {}", quoted(&value))));
    };
    flag("key", text("key").map(str::to_owned));
    flag("args", effect.get("args").map(Value::to_string));
    flag("on-lapse", text("on_lapse").map(str::to_owned));
    flag("max-attempts", effect.get("max_attempts").map(Value::to_string));
    flag("wait", effect.get("wait_ms").map(|millis| format!("{millis}ms")));
    flag("reconcile", effect.get("reconcile").map(|answer| reconciler(scope, answer, effect)));
    let function = function(scope, effect, lease_ms);
    let run =
        format!("out=$(\"$DQ\" effect run {} -- sh -c {}); code=$?\n", flags.join(" "), quoted(&function));
    let check = match text("raises") {
        Some(raised) => {
            let code = code_of(raised);
            let leave = if effect.get("caught") == Some(&Value::Bool(true)) { "" } else { "exit $code\n" };
            format!("[ $code = {code} ] || wrong \"exit $code, not {code} ({raised})\"\n{leave}")
        }
        None => {
            let value = effect.get("value").map(Value::to_string).unwrap_or_default();
            let value = quoted(&value);
            format!("[ $code = 0 ] && [ \"$out\" = {value} ] || wrong \"exit $code, $out\"\n")
        }
    };
    run + &check
}

/// What the effect does.
fn function(scope: &str, effect: &Map<String, Value>, lease_ms: u64) -> String {
    let slow = effect.get("outlives").map(|what| outlive(what, lease_ms) + "; ").unwrap_or_default();
    let count = format!("echo x >> executions.{scope}; {slow}");
    let error = effect.get("error").and_then(Value::as_str).unwrap_or_default();
    let failed = |code: u8| format!("echo {} >&2; exit {code}", quoted(error));
    count
        + &match effect.get("fail").and_then(Value::as_str) {
            Some("not_done") => failed(75),
            Some("final") => failed(65),
            Some(_) => failed(1),
            None => {
                let result = effect.get("result").map(Value::to_string).unwrap_or_default();
                format!("printf %s {}", quoted(&result))
            }
        }
}

fn reconciler(scope: &str, answer: &Value, effect: &Map<String, Value>) -> String {
    let count = format!("echo x >> reconciled.{scope}; ");
    count
        + &match answer {
            Value::String(word) if word == "not_done" => "exit 75".to_owned(),
            Value::String(word) if word == "taken" => {
                let name = |member: &str| quoted(effect[member].as_str().expect("a name"));
                let say = "--status failed-retryable --by somebody --why scenario > /dev/null";
                let left = leave(&Value::Object(effect.clone()));
                format!("\"$DQ\" effect resolve {} {} {say}; {left}; exit 75", name("scope"), name("key"))
            }
            Value::String(_) => "exit 1".to_owned(),
            answer => match (answer.get("succeeded"), answer.get("failed")) {
                (Some(value), _) => format!("printf %s {}", quoted(&value.to_string())),
                (None, Some(why)) => {
                    format!("echo {} >&2; exit 65", quoted(why.as_str().unwrap_or_default()))
                }
                (None, None) => panic!("no such answer: {answer}"),
            },
        }
}

/// What a command sees of the error of that name.
fn code_of(error: &str) -> i32 {
    match error {
        "Error" => 1,
        "NotDone" => 75,
        "EffectFailed" | "KeyReused" => 65,
        "EffectBusy" => 13,
        "EffectExhausted" => 14,
        "EffectUncertain" => 15,
        "LeaseLost" => 5,
        other => panic!("no exit code for {other}"),
    }
}

/// A commit in the middle is a command of its own, with everything that was collected.
fn commit(what: &Value, before: &[Value]) -> String {
    let sends = before.iter().filter_map(|action| action.get("send"));
    let produce: String = sends
        .map(|send| {
            let topic = send["topic"].as_str().expect("a topic");
            format!(" --produce {}", quoted(&format!("{topic}={}", send["payload"])))
        })
        .collect();
    let code = what.get("raises").map_or(0, |name| code_of(name.as_str().expect("a name")));
    let leave = if code == 0 { "" } else { "exit $code\n" };
    format!(
        "\"$DQ\" commit --ack \"$DRIFTQ_LEASE_TOKEN\"{produce} > /dev/null; code=$?\n\
         [ $code = {code} ] || wrong \"commit: exit $code\"\nrm -f \"$DRIFTQ_FOLLOW_UPS\"\n{leave}"
    )
}

fn follow_up(send: &Value) -> Value {
    let mut message = serde_json::json!({"value": send["payload"].to_string()});
    if let Some(step) = send.get("step_id") {
        message["envelope"] = serde_json::json!({"step_id": step});
    }
    serde_json::json!({"topic": send["topic"], "message": message})
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
