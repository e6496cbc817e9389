//! The shapes that most knobs have, so that the table has one short entry for each.
//!
//! The macros use names that the file around them has to import: `Knob`, `units`, `fit`, `NONE` and `Duration`.

use driftq_api::units;

/// What something optional is called when it is absent.
pub(super) const NONE: &str = "none";

/// How an amount is written: its name in `--help`, how it is read, how it is shown.
macro_rules! unit {
    (count) => {
        ("COUNT", units::count, |number: u64| number.to_string())
    };
    (bytes) => {
        ("BYTES", units::bytes, units::show_bytes)
    };
    (millis) => {
        ("MS", units::millis, units::show_millis)
    };
}

/// A knob out of its parts.
macro_rules! knob {
    ($name:expr, $flag:expr, $env:expr, $heading:expr, $help:expr, $value:expr, $get:expr, $set:expr) => {
        Knob {
            name: $name,
            flag: $flag,
            env: $env,
            heading: $heading,
            help: $help,
            value: $value,
            get: $get,
            set: $set,
        }
    };
}

/// A whole number in a field of any width, at least `$least`.
macro_rules! amount {
    ($name:literal, $flag:literal, $env:literal, $heading:expr, $unit:ident, $least:expr, $($field:ident).+,
     $help:literal) => {
        knob!(
            $name,
            $flag,
            $env,
            $heading,
            $help,
            unit!($unit).0,
            |config| unit!($unit).2(config.$($field).+ as u64),
            |config, text| {
                config.$($field).+ = fit(unit!($unit).1(text)?, $least)?;
                Ok(())
            }
        )
    };
}

/// An amount that may be absent.
macro_rules! optional {
    ($name:literal, $flag:literal, $env:literal, $heading:expr, $unit:ident, $($field:ident).+, $help:literal) => {
        knob!(
            $name,
            $flag,
            $env,
            $heading,
            $help,
            unit!($unit).0,
            |config| config.$($field).+.map_or_else(|| NONE.to_owned(), unit!($unit).2),
            |config, text| {
                config.$($field).+ = if text == NONE { None } else { Some(fit(unit!($unit).1(text)?, 1)?) };
                Ok(())
            }
        )
    };
}

/// A time that the code keeps as a duration.
macro_rules! duration {
    ($name:literal, $flag:literal, $env:literal, $heading:expr, $($field:ident).+, $help:literal) => {
        knob!(
            $name,
            $flag,
            $env,
            $heading,
            $help,
            "MS",
            |config| units::show_millis(u64::try_from(config.$($field).+.as_millis()).unwrap_or(u64::MAX)),
            |config, text| {
                config.$($field).+ = Duration::from_millis(fit(units::millis(text)?, 1)?);
                Ok(())
            }
        )
    };
}

/// A number that is large enough, in a field of any width.
pub(super) fn fit<T: TryFrom<u64>>(number: u64, least: u64) -> Result<T, String> {
    if number < least {
        return Err(format!("{number} is below the least possible value, {least}"));
    }
    T::try_from(number).map_err(|_| format!("{number} is too large"))
}

/// A size between two bounds, both included.
pub(super) fn size_within<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, String> {
    let number = units::bytes(text)?;
    if number > most {
        return Err(format!(
            "{} is above the largest possible value, {}",
            text.trim(),
            units::show_bytes(most)
        ));
    }
    fit(number, least)
}
