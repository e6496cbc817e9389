//! Whole numbers with bounds.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Beyond this a floating point number no longer names one whole number.
const FLOAT_WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A number that must be given.
pub(in crate::v2) fn required<'de, D, N, const MIN: u64, const MAX: u64>(from: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    from.deserialize_u64(NumberVisitor::<N, MIN, MAX>(PhantomData))
}

/// A number that may be left out or `null`.
pub(in crate::v2) fn optional<'de, D, N, const MIN: u64, const MAX: u64>(
    from: D,
) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    from.deserialize_option(OptionVisitor::<N, MIN, MAX>(PhantomData))
}

/// A number that is `DEFAULT` when it is `null`; the field's `default` says the same for one that is left out.
pub(in crate::v2) fn or<'de, D, N, const MIN: u64, const MAX: u64, const DEFAULT: u64>(
    from: D,
) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    match optional::<D, N, MIN, MAX>(from)? {
        Some(number) => Ok(number),
        None => N::try_from(DEFAULT).map_err(|_| NumberVisitor::<N, MIN, MAX>::outside()),
    }
}

/// A number of a patch, where `null` is not the same as left out.
pub(in crate::v2) fn patched<'de, D, N, const MIN: u64, const MAX: u64>(
    from: D,
) -> Result<Option<Option<N>>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    optional::<D, N, MIN, MAX>(from).map(Some)
}

/// A number of 32 bits that may be negative, and may be left out or `null`.
pub(in crate::v2) fn optional_signed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i32>, D::Error> {
    from.deserialize_option(SignedVisitor)
}

struct SignedVisitor;

impl SignedVisitor {
    fn outside<E: Error>() -> E {
        E::custom(format_args!("must be between {} and {}", i32::MIN, i32::MAX))
    }
}

impl<'de> Visitor<'de> for SignedVisitor {
    type Value = Option<i32>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a whole number between {} and {}", i32::MIN, i32::MAX)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_i64(self)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        i32::try_from(number).map(Some).map_err(|_| Self::outside())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        i32::try_from(number).map(Some).map_err(|_| Self::outside())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        if number.fract() != 0.0 {
            return Err(E::invalid_type(Unexpected::Float(number), &self));
        }
        if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
            return Err(Self::outside());
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
        Ok(Some(number as i32))
    }
}

struct NumberVisitor<N, const MIN: u64, const MAX: u64>(PhantomData<N>);

impl<N: TryFrom<u64>, const MIN: u64, const MAX: u64> NumberVisitor<N, MIN, MAX> {
    fn outside<E: Error>() -> E {
        E::custom(format_args!("must be between {MIN} and {MAX}"))
    }
}

impl<N: TryFrom<u64>, const MIN: u64, const MAX: u64> Visitor<'_> for NumberVisitor<N, MIN, MAX> {
    type Value = N;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a whole number between {MIN} and {MAX}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<N, E> {
        if !(MIN..=MAX).contains(&number) {
            return Err(Self::outside());
        }
        N::try_from(number).map_err(|_| Self::outside())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<N, E> {
        u64::try_from(number).map_err(|_| Self::outside()).and_then(|number| self.visit_u64(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<N, E> {
        if number.fract() != 0.0 {
            return Err(E::invalid_type(Unexpected::Float(number), &self));
        }
        if !(0.0..=FLOAT_WHOLE_MAX).contains(&number) {
            return Err(Self::outside());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just above")]
        self.visit_u64(number as u64)
    }
}

struct OptionVisitor<N, const MIN: u64, const MAX: u64>(PhantomData<N>);

impl<'de, N: TryFrom<u64>, const MIN: u64, const MAX: u64> Visitor<'de> for OptionVisitor<N, MIN, MAX> {
    type Value = Option<N>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a whole number between {MIN} and {MAX}")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        required::<D, N, MIN, MAX>(from).map(Some)
    }
}
