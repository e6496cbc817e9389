//! Rules between fields, as schemas: what the derived ones cannot say.

use std::borrow::Cow;

use utoipa::ToSchema;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, AnyOfBuilder, ArrayBuilder, ArrayItems, Discriminator, ObjectBuilder,
    OneOfBuilder, RefBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};

/// A schema or a reference to one.
pub(super) type Described = RefOr<Schema>;

/// `base`, and every rule on top.
pub(super) fn all_of(base: RefOr<Schema>, rules: impl IntoIterator<Item = Schema>) -> RefOr<Schema> {
    rules.into_iter().fold(AllOfBuilder::new().item(base), |all, rule| all.item(rule)).into()
}

/// One of `rules`, or several.
pub(super) fn any_of(rules: impl IntoIterator<Item = Schema>) -> Schema {
    Schema::AnyOf(rules.into_iter().fold(AnyOfBuilder::new(), |any, rule| any.item(rule)).build())
}

/// Exactly one of `rules`.
pub(super) fn one_of(rules: impl IntoIterator<Item = ObjectBuilder>, description: &str) -> Described {
    let one = rules.into_iter().fold(OneOfBuilder::new(), |one, rule| one.item(rule));
    one.description(Some(description)).into()
}

/// The named schema of a type.
pub(super) fn reference<T: ToSchema>(description: &str) -> Described {
    RefOr::Ref(
        RefBuilder::new().ref_location_from_schema_name(T::name()).description(Some(description)).build(),
    )
}

/// One out of a few words.
pub(super) fn words(words: &[&str]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied()))
}

/// A field that is left out or `null`.
pub(super) fn absent(name: &str) -> Schema {
    let null = ObjectBuilder::new().schema_type(Type::Null);
    Schema::Object(ObjectBuilder::new().schema_type(SchemaType::AnyValue).property(name, null).build())
}

/// A field that is given: there, not `null`, and not an object without content.
fn given(name: &str) -> ObjectBuilder {
    let something = [Type::String, Type::Number, Type::Boolean, Type::Object, Type::Array];
    let something =
        ObjectBuilder::new().schema_type(SchemaType::from_iter(something)).min_properties(Some(1));
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).required(name).property(name, something)
}

/// A field with an object that gives at least one of the names.
pub(super) fn not_empty(name: &str, names: &[&str]) -> Schema {
    let inner = any_of(names.iter().map(|name| Schema::Object(given(name).build())));
    Schema::Object(ObjectBuilder::new().schema_type(SchemaType::AnyValue).property(name, inner).build())
}

/// A list that has an item.
pub(super) fn filled(name: &str) -> Schema {
    let list = ArrayBuilder::new().items(ArrayItems::RefOrSchema(anything())).min_items(Some(1));
    let field = ObjectBuilder::new().schema_type(SchemaType::AnyValue).required(name).property(name, list);
    Schema::Object(field.build())
}

/// A list that has none: left out, `null` or empty.
pub(super) fn unfilled(name: &str) -> Schema {
    let null = ObjectBuilder::new().schema_type(Type::Null);
    let list = ArrayBuilder::new().items(ArrayItems::RefOrSchema(anything())).max_items(Some(0));
    let none = OneOfBuilder::new().item(null).item(list);
    Schema::Object(ObjectBuilder::new().schema_type(SchemaType::AnyValue).property(name, none).build())
}

fn anything() -> Box<Described> {
    Box::new(ObjectBuilder::new().schema_type(SchemaType::AnyValue).into())
}

/// One field is this word, and another one is given.
pub(super) fn word_with(name: &str, word: &str, other: &str) -> Schema {
    Schema::Object(given(other).required(name).property(name, words(&[word])).build())
}

/// One field is this word, and another one is left out or `null`.
pub(super) fn word_without(name: &str, word: &str, other: &str) -> Schema {
    let null = ObjectBuilder::new().schema_type(Type::Null);
    let rule = ObjectBuilder::new().schema_type(SchemaType::AnyValue).property(other, null);
    Schema::Object(rule.required(name).property(name, words(&[word])).build())
}

/// Anything but an empty text.
pub(super) fn any_value(description: &str) -> Described {
    let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue).min_length(Some(1));
    any.description(Some(description)).into()
}

/// A field is there, `null` or not, or another one is given and the field is left out or `null`.
pub(super) fn value_or(name: &str, other: &str) -> Schema {
    let null = || ObjectBuilder::new().schema_type(Type::Null);
    let there = ObjectBuilder::new().schema_type(SchemaType::AnyValue).required(name).property(other, null());
    Schema::OneOf(OneOfBuilder::new().item(there).item(given(other).property(name, null())).build())
}

/// Exactly one of the fields is given, and the others are left out or `null`.
pub(super) fn exactly_one(names: &[&str]) -> Schema {
    let null = || ObjectBuilder::new().schema_type(Type::Null);
    let rules = names.iter().map(|name| {
        let others = names.iter().filter(|other| *other != name);
        others.fold(given(name), |rule, other| rule.property(*other, null())).build()
    });
    Schema::OneOf(rules.fold(OneOfBuilder::new(), |one, rule| one.item(rule)).build())
}

/// One out of a few values.
pub(super) fn one_of_values(
    values: impl IntoIterator<Item = serde_json::Value>,
    description: &str,
) -> Schema {
    let schema = ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(description));
    Schema::Object(schema.enum_values(Some(values)).build())
}

/// A whole number with bounds.
pub(super) fn number(min: u64, max: u64) -> ObjectBuilder {
    let bound = |bound: u64| Some(usize::try_from(bound).unwrap_or(usize::MAX));
    ObjectBuilder::new().schema_type(Type::Integer).minimum(bound(min)).maximum(bound(max))
}

/// A text with bounds.
pub(super) fn text(min: usize, max: usize) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).min_length(Some(min)).max_length(Some(max))
}

/// A list of up to `count` texts that may be left out or `null`.
pub(super) fn texts(min: usize, max: usize, count: usize, description: &str) -> Schema {
    let list = ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .items(text(min, max))
        .max_items(Some(count))
        .description(Some(description));
    Schema::Array(list.build())
}

/// One of several objects that a field with a word tells apart: the schemas of all, by the name of the schema and
/// the word.
pub(super) fn told_apart(by: &str, objects: &[(&str, &str)], description: &str) -> Described {
    let location = |name: &str| format!("#/components/schemas/{name}");
    let mapping = objects.iter().map(|(name, word)| ((*word).to_owned(), location(name)));
    let one = objects.iter().fold(OneOfBuilder::new(), |one, (name, _)| one.item(Ref::new(location(name))));
    one.discriminator(Some(Discriminator::with_mapping(by, mapping))).description(Some(description)).into()
}

/// One of several objects, by the names of their schemas.
pub(super) fn either(names: &[Cow<'static, str>], description: &str) -> Described {
    let one = names.iter().fold(OneOfBuilder::new(), |one, name| one.item(Ref::from_schema_name(&**name)));
    one.description(Some(description)).into()
}

/// Adds the schema of a type, and everything under it.
pub(super) fn add<T: ToSchema>(schemas: &mut Vec<(String, Described)>) {
    T::schemas(schemas);
    schemas.push((T::name().into_owned(), T::schema()));
}

/// An object with exactly one field.
pub(super) fn closed(name: &str, field: impl Into<RefOr<Schema>>) -> ObjectBuilder {
    let nothing_else = Some(AdditionalProperties::<Schema>::FreeForm(false));
    ObjectBuilder::new().property(name, field).required(name).additional_properties(nothing_else)
}
