//! The names of members: texts, and what JSON writers make texts of.

use std::fmt;

use serde::ser::{Error as _, Impossible, Serialize, Serializer};

use super::Flaw;

/// Takes what can be the name of a member.
pub(super) struct Name;

type Never = Impossible<String, Flaw>;

fn refused<T>() -> Result<T, Flaw> {
    Err(Flaw::custom("the name of a member must be a text or a whole number"))
}

fn plain(text: impl fmt::Display) -> Result<String, Flaw> {
    Ok(text.to_string())
}

macro_rules! plain {
    ($($method:ident: $type:ty),*) => {$(
        fn $method(self, value: $type) -> Result<String, Flaw> {
            plain(value)
        }
    )*};
}

impl Serializer for Name {
    type Ok = String;
    type Error = Flaw;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    plain!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128);
    plain!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128);
    plain!(serialize_bool: bool, serialize_char: char, serialize_str: &str);

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<String, Flaw> {
        plain(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<String, Flaw> {
        value.serialize(self)
    }

    fn serialize_f32(self, _: f32) -> Result<String, Flaw> {
        refused()
    }

    fn serialize_f64(self, _: f64) -> Result<String, Flaw> {
        refused()
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<String, Flaw> {
        refused()
    }

    fn serialize_none(self) -> Result<String, Flaw> {
        refused()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String, Flaw> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<String, Flaw> {
        refused()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<String, Flaw> {
        refused()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<String, Flaw> {
        refused()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Never, Flaw> {
        refused()
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, Flaw> {
        refused()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, Flaw> {
        refused()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Flaw> {
        refused()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Never, Flaw> {
        refused()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Never, Flaw> {
        refused()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Flaw> {
        refused()
    }
}
