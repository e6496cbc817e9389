//! Writes anything that serde can serialize in canonical form.
//!
//! Not by way of a JSON value, which would turn what is not a number into `null`.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{self, Error as _, Serialize, Serializer};

use super::name::Name;
use super::number::write_float;
use super::{Flaw, write_text};

impl ser::Error for Flaw {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// The names of the types by which serde_json passes its own texts through.
const PRIVATE_PREFIX: &str = "$serde_json::private::";

pub(super) fn written(document: &(impl Serialize + ?Sized)) -> Result<String, Flaw> {
    let mut out = String::new();
    document.serialize(Writer { out: &mut out })?;
    Ok(out)
}

struct Writer<'a> {
    out: &'a mut String,
}

/// A list that is being written.
struct List<'a> {
    out: &'a mut String,
    is_first: bool,
    end: &'static str,
}

/// An object that is being written: its members must be known before the first one can be.
struct Members<'a> {
    out: &'a mut String,
    members: BTreeMap<String, String>,
    name: Option<String>,
    end: &'static str,
}

impl<'a> Writer<'a> {
    fn plain(self, text: impl fmt::Display) -> Result<(), Flaw> {
        self.out.push_str(&text.to_string());
        Ok(())
    }

    /// Begins an object whose only member is the variant.
    fn variant(self, variant: &str) -> Self {
        self.out.push('{');
        write_text(variant, self.out);
        self.out.push(':');
        self
    }

    fn list(self, end: &'static str) -> List<'a> {
        self.out.push('[');
        List { out: self.out, is_first: true, end }
    }

    fn members(self, end: &'static str) -> Members<'a> {
        Members { out: self.out, members: BTreeMap::new(), name: None, end }
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),*) => {$(
        fn $method(self, number: $type) -> Result<(), Flaw> {
            self.plain(number)
        }
    )*};
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Flaw;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Members<'a>;

    integers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128);
    integers!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128);

    fn serialize_bool(self, flag: bool) -> Result<(), Flaw> {
        self.plain(flag)
    }

    fn serialize_f32(self, float: f32) -> Result<(), Flaw> {
        self.serialize_f64(f64::from(float))
    }

    fn serialize_f64(self, float: f64) -> Result<(), Flaw> {
        if !float.is_finite() {
            return Err(Flaw::custom(format!("{float} is not a number that JSON has")));
        }
        write_float(float, self.out);
        Ok(())
    }

    fn serialize_char(self, character: char) -> Result<(), Flaw> {
        self.serialize_str(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Flaw> {
        write_text(text, self.out);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Flaw> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Flaw> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Flaw> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Flaw> {
        self.plain("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Flaw> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Flaw> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Flaw> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Flaw> {
        let Writer { out } = self.variant(variant);
        value.serialize(Writer { out: &mut *out })?;
        out.push('}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, Flaw> {
        Ok(self.list("]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'a>, Flaw> {
        Ok(self.list("]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'a>, Flaw> {
        Ok(self.list("]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'a>, Flaw> {
        Ok(self.variant(variant).list("]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'a>, Flaw> {
        Ok(self.members("}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Members<'a>, Flaw> {
        if name.starts_with(PRIVATE_PREFIX) {
            return Err(Flaw::custom("a piece of raw JSON is not read here; parse it first"));
        }
        Ok(self.members("}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'a>, Flaw> {
        Ok(self.variant(variant).members("}}"))
    }
}

impl List<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Flaw> {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(',');
        }
        value.serialize(Writer { out: &mut *self.out })
    }

    fn close(self) -> Result<(), Flaw> {
        self.out.push_str(self.end);
        Ok(())
    }
}

impl Members<'_> {
    fn push<T: Serialize + ?Sized>(&mut self, name: String, value: &T) -> Result<(), Flaw> {
        self.members.insert(name, written(value)?);
        Ok(())
    }

    fn close(self) -> Result<(), Flaw> {
        self.out.push('{');
        for (place, (name, value)) in self.members.iter().enumerate() {
            if place > 0 {
                self.out.push(',');
            }
            write_text(name, self.out);
            self.out.push(':');
            self.out.push_str(value);
        }
        self.out.push_str(self.end);
        Ok(())
    }
}

macro_rules! lists {
    ($($trait:ident::$method:ident),*) => {$(
        impl ser::$trait for List<'_> {
            type Ok = ();
            type Error = Flaw;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Flaw> {
                self.push(value)
            }

            fn end(self) -> Result<(), Flaw> {
                self.close()
            }
        }
    )*};
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! structs {
    ($($trait:ident),*) => {$(
        impl ser::$trait for Members<'_> {
            type Ok = ();
            type Error = Flaw;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Flaw> {
                self.push(name.to_owned(), value)
            }

            fn end(self) -> Result<(), Flaw> {
                self.close()
            }
        }
    )*};
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Flaw;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Flaw> {
        self.name = Some(key.serialize(Name)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Flaw> {
        let name = self.name.take().ok_or_else(|| Flaw::custom("a member without a name"))?;
        self.push(name, value)
    }

    fn end(self) -> Result<(), Flaw> {
        self.close()
    }
}
