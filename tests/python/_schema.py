"""The part of JSON Schema that the served document uses: values checked against it, and values made from it.

A keyword that is not known here is an error, so that nothing passes because it was not looked at.
"""

import re
import string

WORDS = {
    "$ref", "type", "description", "format", "examples", "minimum", "maximum", "minLength", "maxLength", "pattern",
    "enum", "properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties",
    "items", "minItems", "maxItems", "oneOf", "anyOf", "allOf",
    "discriminator",  # says which of oneOf to look at first; what fits is the same
}
TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
MOMENTS = ["2025-12-21T12:00:00Z", "2031-02-28T23:59:59.999999999+05:30", "1970-01-01T00:00:00Z"]
BASE64 = ["YQ==", "AAAA", "/+8="]


class Schemas:
    def __init__(self, document):
        self.document = document

    def resolve(self, schema):
        while "$ref" in schema:
            target = self.document
            for step in schema["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            schema = target
        return schema

    def errors(self, schema, value, path="$"):
        """Everything about a value that does not fit."""
        schema = self.resolve(schema)
        if unknown := set(schema) - WORDS:
            raise ValueError(f"{path}: the document uses {unknown}, which this reader does not know")
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(TYPES[name](value) for name in types):
            return [f"{path}: {value!r} is not {' or '.join(types)}"]
        found = []
        if "enum" in schema and not any(value is word or value == word for word in schema["enum"]):
            found.append(f"{path}: {value!r} is none of {schema['enum']}")
        if TYPES["number"](value):
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                found.append(f"{path}: {value} is out of bounds")
        if isinstance(value, str):
            length = len(value)
            if not schema.get("minLength", 0) <= length <= schema.get("maxLength", length):
                found.append(f"{path}: a text of {length} characters")
            if "pattern" in schema and not re.search(schema["pattern"], value):
                found.append(f"{path}: {value!r} does not match {schema['pattern']}")
        if isinstance(value, list):
            if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
                found.append(f"{path}: {len(value)} items")
            for index, item in enumerate(value):
                found += self.errors(schema.get("items", {}), item, f"{path}[{index}]")
        if isinstance(value, dict):
            found += self.object_errors(schema, value, path)
        for part in schema.get("allOf", []):
            found += self.errors(part, value, path)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                tries = [self.errors(part, value, path) for part in schema[word]]
                fitting = sum(not errors for errors in tries)
                if fitting == 0 or (word == "oneOf" and fitting > 1):
                    found.append(f"{path}: fits {fitting} of {word}: {min(tries, key=len)[:3]}")
        return found

    def object_errors(self, schema, value, path):
        found = [f"{path}: {name} is missing" for name in schema.get("required", []) if name not in value]
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
            found.append(f"{path}: {len(value)} properties")
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in properties:
                found += self.errors(properties[name], item, f"{path}.{name}")
            elif others is False:
                found.append(f"{path}.{name}: not described")
            elif isinstance(others, dict):
                found += self.errors(others, item, f"{path}.{name}")
            if "propertyNames" in schema:
                found += self.errors(schema["propertyNames"], name, f"{path}.{name} (name)")
        return found

    def sample(self, schema, rng, depth=0):
        """A value that probably fits; whoever must know asks `errors`."""
        schema = self.resolve(schema)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "oneOf" in schema and "properties" not in schema:
            return self.sample(rng.choice(schema["oneOf"]), rng, depth)
        if "allOf" in schema:
            return self.sample(schema["allOf"][0], rng, depth)
        kind = schema.get("type", "object")
        if not isinstance(kind, str):
            kind = rng.choice([name for name in kind if name != "null"] * 4 + ["null"])
        return getattr(self, f"sample_{kind}")(schema, rng, depth)

    def sample_null(self, *_):
        return None

    def sample_boolean(self, _, rng, __):
        return rng.random() < 0.5

    def sample_integer(self, schema, rng, _):
        low, high = schema.get("minimum", 0), schema.get("maximum", 2**63 - 1)
        near = rng.randint(low, min(high, low + 100))
        return rng.choice([low, high, min(high, low + 1), near, rng.randint(low, high)])

    def sample_string(self, schema, rng, _):
        pattern = schema.get("pattern", "")
        if "[Tt]" in pattern:
            return rng.choice(MOMENTS)
        if "A-Za-z0-9+/" in pattern:
            return rng.choice(BASE64)
        if "0-9a-f" in pattern:
            return "".join(rng.choice("0123456789abcdef") for _ in range(24))
        low, high = schema.get("minLength", 0), schema.get("maxLength", 300)
        length = rng.choice([low, high, rng.randint(low, min(high, low + 12))])
        return "".join(rng.choice(string.ascii_letters + string.digits + "-._:") for _ in range(length))

    def sample_array(self, schema, rng, depth):
        low = schema.get("minItems", 0)
        count = rng.randint(low, min(schema.get("maxItems", low + 3), low + 3))
        return [self.sample(schema.get("items", {}), rng, depth + 1) for _ in range(count)]

    def sample_object(self, schema, rng, depth):
        required, made = schema.get("required", []), {}
        for name, part in schema.get("properties", {}).items():
            if name in required or rng.random() < 0.5 / (1 + depth):
                made[name] = self.sample(part, rng, depth + 1)
        if isinstance(schema.get("additionalProperties"), dict):
            for index in range(rng.randint(0, 3)):
                made[f"name{index}"] = self.sample(schema["additionalProperties"], rng, depth + 1)
        return made


STRANGE = [
    None, True, False, 0, -1, 1.5, 1e308, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40, "", "x", "\u0000", "é" * 300,
    "\ud83d\ude00", "a" * 5000, [], [[]], {}, {"": None}, [1, "2"], "null", "2025-13-45T99:99:99Z", "=", "%00",
]


def mutated(value, rng):
    """A copy of a JSON value with one thing changed."""
    if isinstance(value, dict) and value and rng.random() < 0.7:
        name = rng.choice(sorted(value))
        if rng.random() < 0.15:
            return {other: item for other, item in value.items() if other != name}
        return {**value, name: mutated(value[name], rng)}
    if isinstance(value, dict) and rng.random() < 0.6:
        return {**value, rng.choice(["extra", "", "__proto__", "Value", "key "]): rng.choice(STRANGE)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        index = rng.randrange(len(value))
        return value[:index] + [mutated(value[index], rng)] + value[index + 1 :]
    return rng.choice(STRANGE)
