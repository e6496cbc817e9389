//! The document against the repository's copy, against its own examples, and against the code that reads requests.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::operation::{Content, descriptions};
use super::{openapi, openapi_json};

const WRITE: &str = "DRIFTQ_WRITE_OPENAPI";

#[test]
fn openapi_document_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let generated = openapi_json();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let first = generated.lines().zip(committed.lines()).position(|(new, old)| new != old);
    assert!(
        generated == committed,
        "docs/openapi.json is not what the types say (first difference in line {:?}); write it anew with \
         `{WRITE}=1 cargo test -p driftq-api openapi`",
        first.map(|line| line + 1)
    );
}

#[test]
fn openapi_examples_are_read_by_the_code() {
    for description in descriptions() {
        if let Some(body) = &description.body {
            assert_eq!((body.words.read)(body.words.example.as_bytes()), Ok(()), "{}", description.id);
        }
        for answer in description.answers {
            if let Content::Json(words, _) | Content::Lines(words) | Content::Events(words) = &answer.content
            {
                assert_eq!((words.read)(words.example.as_bytes()), Ok(()), "{}", description.id);
            }
        }
    }
}

/// The whole document as JSON, with a way to follow references.
struct Document(Value);

impl Document {
    fn new() -> Self {
        Self(serde_json::to_value(openapi()).unwrap())
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                self.resolve(self.0.pointer(&reference[1..]).expect("references lead somewhere"))
            }
            None => schema,
        }
    }

    /// Objects among the alternatives and parts of a schema, without rules that only relate fields.
    fn objects<'a>(&'a self, schema: &'a Value) -> Vec<&'a Map<String, Value>> {
        let schema = self.resolve(schema);
        let mut found = Vec::new();
        for combination in ["allOf", "oneOf", "anyOf"] {
            for part in schema.get(combination).and_then(Value::as_array).into_iter().flatten() {
                found.extend(self.objects(part));
            }
        }
        if schema.get("additionalProperties") == Some(&json!(false)) {
            found.extend(schema.as_object());
        }
        found
    }
}

/// The plain schema of a field: out of the alternatives, the one that is not `null`.
fn plain<'a>(document: &'a Document, schema: &'a Value) -> &'a Value {
    let schema = document.resolve(schema);
    let parts = schema.get("oneOf").and_then(Value::as_array);
    let part = parts.and_then(|parts| parts.iter().find(|part| part.get("type") != Some(&json!("null"))));
    part.map_or(schema, |part| document.resolve(part))
}

fn allows_null(document: &Document, schema: &Value) -> bool {
    let schema = document.resolve(schema);
    let is_null =
        |kind: &Value| kind == "null" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("null")));
    let is_in = |part: &Value| part.get("type").is_some_and(is_null);
    let alternatives = schema.get("oneOf").and_then(Value::as_array);
    let listed = schema.get("enum").and_then(Value::as_array);
    is_in(schema)
        || alternatives.is_some_and(|parts| parts.iter().any(is_in))
        || listed.is_some_and(|values| values.contains(&Value::Null))
}

/// Values at and beyond the bounds of a schema: those that it allows, and those that it does not.
fn probes(schema: &Value) -> (Vec<Value>, Vec<Value>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    if let Some(min) = schema.get("minimum").and_then(Value::as_i64) {
        good.push(json!(min));
        bad.push(json!(min - 1));
    }
    if let Some(max) = bound("maximum") {
        good.push(json!(max));
        bad.push(json!(max + 1));
    }
    if schema.get("pattern").is_none() {
        if let Some(min) = bound("minLength").filter(|min| *min > 0) {
            good.push(json!("x".repeat(usize::try_from(min).unwrap())));
            bad.push(json!("x".repeat(usize::try_from(min).unwrap() - 1)));
        }
        if let Some(max) = bound("maxLength") {
            good.push(json!("x".repeat(usize::try_from(max).unwrap())));
            bad.push(json!("x".repeat(usize::try_from(max).unwrap() + 1)));
        }
    }
    for value in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
        good.push(value.clone());
        bad.push(json!("no such word"));
    }
    (good, bad)
}

/// Every value of `field` in every object of `body` that has such a field is replaced, one body per value.
fn with_field(body: &Value, path: &[String], field: &str, value: &Value) -> Value {
    let mut body = body.clone();
    let object = path.iter().fold(&mut body, |at, step| match at {
        Value::Array(items) => &mut items[0],
        other => other.as_object_mut().unwrap().entry(step.clone()).or_insert_with(|| json!({})),
    });
    object.as_object_mut().expect("a path leads to an object").insert(field.to_owned(), value.clone());
    body
}

/// Checks what the schema of the object at `path` says about each of its fields against `read`.
fn check_object(
    document: &Document,
    object: &Map<String, Value>,
    path: &[String],
    example: &Value,
    read: fn(&[u8]) -> Result<(), String>,
    checks: &mut usize,
) {
    let mut check = |field: &str, value: &Value, is_good: bool| {
        let body = with_field(example, path, field, value);
        let result = read(&serde_json::to_vec(&body).unwrap());
        assert_eq!(result.is_ok(), is_good, "{path:?}.{field} = {value:.80}: {result:?}");
        if let Err(message) = result {
            assert!(message.contains(field), "the refusal does not name {field}: {message}");
        }
        *checks += 1;
    };
    check("no_such_field", &json!(1), false);
    let fields = object.get("properties").and_then(Value::as_object).expect("closed objects have fields");
    for (field, schema) in fields {
        let inner = plain(document, schema);
        let is_required =
            object.get("required").and_then(Value::as_array).is_some_and(|all| all.contains(&json!(field)));
        assert!(!is_required || !allows_null(document, schema), "{field} is required and may be null");
        // Fields that exclude each other are not at will.
        if EXCLUSIVE.contains(&field.as_str()) {
            continue;
        }
        check(field, &Value::Null, !is_required && allows_null(document, schema));
        check(field, &json!([[]]), false);
        let (good, bad) = probes(inner);
        good.iter().filter(|value| !value.is_null()).for_each(|value| check(field, value, true));
        bad.iter().for_each(|value| check(field, value, false));
    }
    for (field, schema) in fields {
        let inner = plain(document, schema);
        let is_there = path
            .iter()
            .try_fold(example, |at, step| at.get(step).or_else(|| at.get(0)))
            .and_then(|at| at.get(field));
        let (steps, inner) = match inner.get("items") {
            Some(items) if is_there.is_some() => (vec![field.clone(), "0".to_owned()], items),
            Some(_) => continue,
            None => (vec![field.clone()], inner),
        };
        let path: Vec<String> = path.iter().cloned().chain(steps).collect();
        // An alternative of a rule is checked by its own tests.
        if EXCLUSIVE.contains(&field.as_str()) && is_there.is_none() || field == "to" {
            continue;
        }
        for object in document.objects(inner) {
            check_object(document, object, &path, example, read, checks);
        }
    }
}

const EXCLUSIVE: [&str; 12] = [
    "value",
    "value_b64",
    "deliver_at",
    "delay_ms",
    "letters",
    "filter",
    "all",
    "message",
    "body",
    "body_b64",
    "mode",
    "dedupe_key",
];

#[test]
fn openapi_bounds_are_those_of_the_code() {
    let (document, mut checks) = (Document::new(), 0);
    for description in descriptions() {
        let Some(body) = &description.body else { continue };
        let example: Value = serde_json::from_str(body.words.example).unwrap();
        let schema = (body.words.schema)(&mut Default::default());
        let schema = serde_json::to_value(schema).unwrap();
        let objects = document.objects(&schema);
        assert!(!objects.is_empty(), "{}: the body is not closed", description.id);
        for object in objects {
            check_object(&document, object, &[], &example, body.words.read, &mut checks);
        }
    }
    assert!(checks > 300, "only {checks} checks were made");
}

#[test]
fn openapi_references_lead_somewhere_and_requests_are_closed() {
    fn walk(document: &Document, value: &Value) {
        match value {
            Value::Object(fields) => {
                document.resolve(value);
                fields.values().for_each(|value| walk(document, value));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(document, item)),
            _ => {}
        }
    }
    let document = Document::new();
    walk(&document, &document.0);
    assert_eq!(document.0["openapi"], "3.1.0");
    let produce = &document.0["paths"]["/v2/topics/{topic}/messages"]["post"];
    assert_eq!(produce["operationId"], "produce");
    let header = produce["parameters"].as_array().unwrap().iter().any(|one| one["name"] == "Idempotency-Key");
    assert!(header, "creating calls honour the header");
    for status in ["201", "200", "400", "404", "409", "413", "415", "422", "429", "503", "default"] {
        assert!(produce["responses"].get(status).is_some(), "{status}");
    }
}
