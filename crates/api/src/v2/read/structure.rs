//! Objects within objects, lists with bounds, and flags.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::object::Object;

/// Room that is made for a list before its items are seen.
const RESERVED_MAX: usize = 64;

/// An object that must be given.
pub(in crate::v2) fn required<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Object::deserialize(from).map(|Object(value)| value)
}

/// An object that may be left out or `null`.
pub(in crate::v2) fn optional<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Object<T>>::deserialize(from)?.map(|Object(value)| value))
}

/// An object of a patch, where `null` is not the same as left out.
pub(in crate::v2) fn patched<'de, D, T>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    optional(from).map(Some)
}

/// Anything else of a patch.
pub(in crate::v2) fn patched_value<'de, D, T>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(from).map(Some)
}

/// A flag that counts as `false` when it is left out or `null`.
pub(in crate::v2) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(false))
}

/// A list of 1 to `MAX` objects.
pub(in crate::v2) fn list<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(ListVisitor::<T, MAX>(PhantomData))
}

/// A list of 1 to `MAX` objects that may be left out or `null`.
pub(in crate::v2) fn optional_list<'de, D, T, const MAX: usize>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<List<T, MAX>>::deserialize(from)?.map(|List(items)| items))
}

struct List<T, const MAX: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        list::<D, T, MAX>(from).map(Self)
    }
}

struct ListVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListVisitor<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of 1 to {MAX} objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or(0).min(RESERVED_MAX));
        while let Some(Object(item)) = items.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::custom(format_args!("must have 1 to {MAX} items, has more")));
            }
            list.push(item);
        }
        if list.is_empty() {
            return Err(A::Error::custom(format_args!("must have 1 to {MAX} items, has none")));
        }
        Ok(list)
    }
}

/// Up to `MAX` objects, none if they are left out or `null`.
pub(in crate::v2) fn objects<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = values::<D, Object<T>, MAX>(from)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

/// Up to `MAX` values, none if they are left out or `null`.
pub(in crate::v2) fn values<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_option(ValuesVisitor::<T, MAX>(PhantomData))
}

struct ValuesVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ValuesVisitor<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAX} items")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or(0).min(RESERVED_MAX));
        while let Some(item) = items.next_element()? {
            // Most have one item, and items are large: no room for others before there are any.
            if list.is_empty() {
                list.reserve_exact(1);
            }
            if list.len() == MAX {
                return Err(A::Error::custom(format_args!("must have at most {MAX} items, has more")));
            }
            list.push(item);
        }
        Ok(list)
    }
}
