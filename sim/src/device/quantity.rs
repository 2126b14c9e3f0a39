//! A value in a device profile, with its source.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value of a device profile: a bare number, whose source is its table's, or
/// `{ value, source, ci95 }`. The unit is part of the key (`launch_us`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written", into = "Written")]
#[schemars(with = "Written")]
pub struct Quantity {
    /// The value, in the unit that its key names.
    pub value: f64,
    /// Source of the value, if it differs from its table's.
    pub source: Option<String>,
    /// 95 % confidence interval of a fitted value.
    pub ci95: Option<[f64; 2]>,
}

impl Quantity {
    /// The value of an optional parameter; 0 if absent.
    pub fn or_zero(optional: Option<&Self>) -> f64 {
        optional.map_or(0.0, |quantity| quantity.value)
    }

    /// A value whose source is its table's.
    pub const fn plain(value: f64) -> Self {
        Self { value, source: None, ci95: None }
    }

    /// A value with its own source.
    pub fn of(value: f64, source: impl Into<String>) -> Self {
        Self { source: Some(source.into()), ..Self::plain(value) }
    }
}

/// The two notations of a [`Quantity`] in a file.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number or { value, source, ci95 }")]
enum Written {
    Plain(f64),
    Sourced(Sourced),
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sourced {
    value: f64,
    source: String,
    ci95: Option<[f64; 2]>,
}

impl From<Written> for Quantity {
    fn from(written: Written) -> Self {
        match written {
            Written::Plain(value) => Self::plain(value),
            Written::Sourced(Sourced { value, source, ci95 }) => Self { value, source: Some(source), ci95 },
        }
    }
}

impl From<Quantity> for Written {
    fn from(quantity: Quantity) -> Self {
        match quantity {
            Quantity { value, source: Some(source), ci95 } => Self::Sourced(Sourced { value, source, ci95 }),
            Quantity { value, .. } => Self::Plain(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Table {
        launch_us: Quantity,
    }

    #[test]
    fn a_number_may_carry_its_own_source() {
        let plain: Table = crate::input::from_toml("launch_us = 6.5").unwrap();
        assert_eq!(plain.launch_us, Quantity::plain(6.5));
        let sourced: Table =
            crate::input::from_toml(r#"launch_us = { value = 6.5, source = "fit", ci95 = [6.0, 7.0] }"#)
                .unwrap();
        assert_eq!(sourced.launch_us.ci95, Some([6.0, 7.0]));
        assert_eq!(sourced.launch_us.source.as_deref(), Some("fit"));
    }

    #[test]
    fn a_word_is_not_a_number() {
        assert!(crate::input::from_toml::<Table>(r#"launch_us = "fast""#).is_err());
    }
}
