//! Every call of the native API, from the OpenAPI document.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::markdown::{cell, head, links_here, row};

/// The parameter that every call has; it is told once.
const OF_EVERY_CALL: &str = "X-Request-Id";

const ABOUT: &str = "# The native API\n\nMade by `cargo xtask docs` from the OpenAPI document, which a server has at \
`/v2/openapi.json` and the repository as [openapi.json](../openapi.json).\n\n";

pub(crate) fn page(document: &Value) -> String {
    let mut page = format!("{ABOUT}{}\n\n", text(&document["info"]["description"]));
    page.push_str(
        "Every call takes the header `X-Request-Id`, which names the request in the answer and in the server's log. \
         Refusals are [Problem](#problem) documents; [errors.md](errors.md) lists their codes.\n",
    );
    for (tag, operations) in by_tag(document) {
        // Not the bare tag: a type of that name would have the same anchor.
        page.push_str(&format!("\n## Calls: {tag}\n"));
        for (method, path, operation) in operations {
            page.push_str(&format!("\n### {} {path}\n\n", method.to_uppercase()));
            page.push_str(&call(document, operation));
        }
    }
    page.push_str("\n## Types\n");
    for (name, schema) in entries(&document["components"]["schemas"]) {
        page.push_str(&format!("\n### {name}\n\n{}", kind(schema)));
    }
    links_here(&page)
}

type Operation<'a> = (&'a str, &'a str, &'a Value);

fn by_tag(document: &Value) -> BTreeMap<String, Vec<Operation<'_>>> {
    let mut tags: BTreeMap<String, Vec<Operation<'_>>> = BTreeMap::new();
    for (path, methods) in entries(&document["paths"]) {
        for (method, operation) in entries(methods) {
            let tag = text(&operation["tags"][0]).to_owned();
            tags.entry(tag).or_default().push((method, path, operation));
        }
    }
    tags
}

fn call(document: &Value, operation: &Value) -> String {
    let mut page = sentence(text(&operation["summary"]));
    let description = text(&operation["description"]);
    if !description.is_empty() {
        page.push_str(&format!(" {description}"));
    }
    page.push('\n');
    let parameters: Vec<&Value> = items(&operation["parameters"])
        .iter()
        .filter(|parameter| parameter["name"] != OF_EVERY_CALL)
        .collect();
    if !parameters.is_empty() {
        page.push_str(&format!("\n{}", head(&["parameter", "in", "type", "meaning"])));
        for parameter in parameters {
            let needed = if parameter["required"] == true { ", required" } else { "" };
            let (name, place) =
                (format!("`{}`", text(&parameter["name"])), format!("{}{needed}", text(&parameter["in"])));
            page.push_str(&row([
                &*name,
                &place,
                &shape(&parameter["schema"]),
                &cell(text(&parameter["description"])),
            ]));
        }
    }
    let bodies = entries(&operation["requestBody"]["content"]);
    for (media, body) in bodies {
        page.push_str(&format!("\nBody ({media}): {}", shape(&body["schema"])));
        if let Some(example) = body.get("example") {
            page.push_str(&format!(", for example\n\n{}", example_block(example)));
        } else {
            page.push('\n');
        }
    }
    page.push_str(&format!("\n{}", answers(document, &operation["responses"])));
    page
}

fn answers(document: &Value, responses: &Value) -> String {
    let mut page = head(&["answer", "body", "meaning"]);
    for (status, answer) in entries(responses) {
        // Refusals are shared between calls.
        let shared =
            answer["$ref"].as_str().and_then(|reference| document.pointer(reference.trim_start_matches('#')));
        let answer = shared.unwrap_or(answer);
        let shapes: Vec<String> =
            entries(&answer["content"]).map(|(_, body)| shape(&body["schema"])).collect();
        let body = if shapes.is_empty() { "none".to_owned() } else { shapes.join(" or ") };
        page.push_str(&row([status, &*body, &cell(text(&answer["description"]))]));
    }
    page
}

fn example_block(example: &Value) -> String {
    match example {
        Value::String(lines) => format!("```text\n{}\n```\n", lines.trim_end()),
        other => format!("```json\n{}\n```\n", serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}

/// A named schema: what it is, and its fields.
fn kind(schema: &Value) -> String {
    let mut page = String::new();
    let description = text(&schema["description"]);
    if !description.is_empty() {
        page.push_str(&format!("{description}\n\n"));
    }
    let objects = objects(schema);
    let fields: Vec<_> = objects.iter().flat_map(|object| fields_of(object)).collect();
    if fields.is_empty() {
        return page + &format!("It is {}.\n", shape(&without_description(schema)));
    }
    page.push_str(&head(&["field", "type", "meaning"]));
    for (name, field, is_required) in fields {
        let name = if is_required { format!("`{name}`, required") } else { format!("`{name}`") };
        page.push_str(&row([&*name, &shape(field), &cell(&meaning(field))]));
    }
    page
}

/// The schema's own fields, or those of its parts where it is put together. Rules about which fields go together are
/// told by the descriptions.
fn objects(schema: &Value) -> Vec<&Map<String, Value>> {
    let own = schema.as_object().filter(|object| object.contains_key("properties"));
    let parts = items(&schema["allOf"]).iter().filter_map(Value::as_object);
    own.into_iter().chain(parts.filter(|part| part.contains_key("properties"))).collect()
}

fn fields_of(object: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value, bool)> {
    let required: Vec<&str> =
        object.get("required").map(items).unwrap_or_default().iter().filter_map(Value::as_str).collect();
    let fields = object.get("properties").map(entries).into_iter().flatten();
    fields.map(move |(name, field)| (name, field, required.contains(&name)))
}

/// The description of a field, which may stand in the part that is not null.
fn meaning(field: &Value) -> String {
    let own = text(&field["description"]);
    if !own.is_empty() {
        return own.to_owned();
    }
    items(&field["oneOf"])
        .iter()
        .map(|part| text(&part["description"]))
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .to_owned()
}

fn without_description(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
    }
    schema
}

/// What a value looks like, in a few words.
fn shape(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for (key, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " with ")] {
        let parts = items(&schema[key]).iter().filter(|part| part["type"] != "null").map(shape);
        let mut parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        parts.dedup();
        if !parts.is_empty() {
            return parts.join(between);
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter(|word| !word.is_null());
        return words.map(|word| format!("`{}`", plain(word))).collect::<Vec<_>>().join(", ");
    }
    let types = match &schema["type"] {
        Value::Array(types) => {
            types.iter().map(text).filter(|name| *name != "null").collect::<Vec<_>>().join(" or ")
        }
        other => text(other).to_owned(),
    };
    match &*types {
        "array" => format!("list of {}", shape(&schema["items"])),
        "object" => object_shape(schema),
        _ => format!("{types}{}", bounds(schema)),
    }
}

fn object_shape(schema: &Value) -> String {
    let names: Vec<_> = entries(&schema["properties"]).map(|(name, _)| format!("`{name}`")).collect();
    match (names.is_empty(), schema["additionalProperties"].is_object()) {
        (false, _) => format!("object with {}", names.join(", ")),
        (true, true) => format!("object of {}", shape(&schema["additionalProperties"])),
        (true, false) => "object".to_owned(),
    }
}

fn bounds(schema: &Value) -> String {
    let number = |name: &str| {
        schema[name].as_i64().or_else(|| schema[name].as_u64().and_then(|n| i64::try_from(n).ok()))
    };
    match (number("minimum"), number("maximum"), number("minLength"), number("maxLength")) {
        (Some(least), Some(most), ..) => format!(", {least} to {most}"),
        (Some(least), None, ..) if least > 0 => format!(", at least {least}"),
        (_, _, _, Some(most)) => format!(", at most {most} bytes"),
        _ => String::new(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (&**name, value))
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}
