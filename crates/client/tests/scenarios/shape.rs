//! Whether an answer looks as it should.

use serde_json::Value;

/// Where and how `found` differs from the shape; `None` if it matches.
pub(crate) fn differs(found: &Value, shape: &Value, path: &str) -> Option<String> {
    match shape {
        Value::Object(members) if members.contains_key("$any") => None,
        Value::Object(members) if members.contains_key("$starts") => {
            let start = members["$starts"].as_str().unwrap_or_default();
            let matches = found.as_str().is_some_and(|text| text.starts_with(start));
            (!matches).then(|| format!("{path}: {found} does not start with {start:?}"))
        }
        Value::Object(members) => members.iter().find_map(|(name, shape)| {
            let path = format!("{path}.{name}");
            match found.get(name) {
                Some(found) => differs(found, shape, &path),
                None => Some(format!("{path}: not there in {found}")),
            }
        }),
        Value::Array(shapes) => {
            let items = found.as_array().map(Vec::as_slice).unwrap_or_default();
            if items.len() != shapes.len() {
                return Some(format!("{path}: {} items, not {}: {found}", items.len(), shapes.len()));
            }
            let mut places = items.iter().zip(shapes).enumerate();
            places.find_map(|(place, (found, shape))| differs(found, shape, &format!("{path}[{place}]")))
        }
        _ => (found != shape).then(|| format!("{path}: {found}, not {shape}")),
    }
}

#[test]
fn shapes_match_what_they_say_and_nothing_else() {
    use serde_json::json;

    let found = json!({"a": [{"b": "text", "c": 1}], "d": null});
    for shape in
        [json!({}), json!({"a": [{"$any": true}]}), json!({"a": [{"b": {"$starts": "te"}}], "d": null})]
    {
        assert_eq!(differs(&found, &shape, ""), None, "{shape}");
    }
    for shape in [
        json!({"e": {"$any": true}}),
        json!({"a": []}),
        json!({"a": [{"b": {"$starts": "x"}}]}),
        json!({"d": 0}),
    ] {
        assert!(differs(&found, &shape, "").is_some(), "{shape}");
    }
}
