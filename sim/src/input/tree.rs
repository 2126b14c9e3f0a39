//! Deserialises parsed TOML documents.
//!
//! Responsible for: deserialising each value, and the place of one that does not fit its type.
//! Not for: syntax, which the `toml` crate parses. Its own deserialiser would work, but is instantiated three
//! times per type: for tables, for datetimes and for spanned values. With as many types as a profile has, that
//! would be a large part of this crate's compile time.
//! Invariant: an error has the span of the innermost value, or of the key, that it is about.

use std::fmt::Display;
use std::ops::Range;

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A syntax error, or a value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Misfit {
    /// What is wrong.
    pub message: String,
    /// Byte range in the text.
    pub span: Option<Range<usize>>,
}

impl Misfit {
    fn at(self, span: Range<usize>) -> Self {
        Self { span: self.span.or(Some(span)), ..self }
    }
}

impl From<toml::de::Error> for Misfit {
    fn from(error: toml::de::Error) -> Self {
        Self { message: error.message().to_owned(), span: error.span() }
    }
}

impl serde::de::Error for Misfit {
    fn custom<T: Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

/// Deserialises a whole document.
///
/// # Errors
/// Its syntax is wrong, or a value does not fit `T`.
pub fn from_toml<T: DeserializeOwned>(content: &str) -> Result<T, Misfit> {
    let document = DeTable::parse(content)?;
    T::deserialize(MapAccessDeserializer::new(entries(document.get_ref())))
        .map_err(|misfit| misfit.at(document.span()))
}

/// Deserialises a single value.
///
/// # Errors
/// Its syntax is wrong, or it does not fit `T`.
pub fn from_toml_value<T: DeserializeOwned>(content: &str) -> Result<T, Misfit> {
    T::deserialize(Node(&DeValue::parse(content)?))
}

/// A value of the document.
struct Node<'a>(&'a Spanned<DeValue<'a>>);

impl<'a> Node<'a> {
    /// Deserialises it with `seed`. Errors without a span get that of this value.
    fn read<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Misfit> {
        let span = self.0.span();
        seed.deserialize(self).map_err(|misfit| misfit.at(span))
    }
}

/// The unread entries of a table, and the value whose key was read last.
struct Entries<'a, I> {
    left: I,
    value: Option<Node<'a>>,
}

fn entries<'a>(table: &'a DeTable<'a>) -> impl MapAccess<'a, Error = Misfit> {
    Entries { left: table.iter(), value: None }
}

impl<'de, I> MapAccess<'de> for Entries<'de, I>
where
    I: Iterator<Item = (&'de Spanned<DeString<'de>>, &'de Spanned<DeValue<'de>>)>,
{
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(Node(value));
        seed.deserialize(BorrowedStrDeserializer::new(key.get_ref()))
            .map(Some)
            .map_err(|misfit: Misfit| misfit.at(key.span()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let value =
            self.value.take().ok_or_else(|| Misfit::custom("a value was requested before its key"))?;
        value.read(seed)
    }
}

/// The unread elements of an array.
struct Elements<'a>(std::slice::Iter<'a, Spanned<DeValue<'a>>>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        self.0.next().map(|value| Node(value).read(seed)).transpose()
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_borrowed_str(text),
            DeValue::Integer(digits) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => match u64::from_str_radix(digits.as_str(), digits.radix()) {
                    Ok(number) => visitor.visit_u64(number),
                    Err(_) => Err(Misfit::custom("integer number overflowed")),
                },
            },
            DeValue::Float(digits) => match digits.as_str().parse::<f64>() {
                Ok(number) if !number.is_infinite() || digits.as_str().contains("inf") => {
                    visitor.visit_f64(number)
                }
                Ok(_) | Err(_) => Err(Misfit::custom("floating-point number overflowed")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            // No type of ours is a datetime; as a string its text appears in the error.
            DeValue::Datetime(time) => visitor.visit_string(time.to_string()),
            DeValue::Array(values) => visitor.visit_seq(Elements(values.iter())),
            DeValue::Table(table) => visitor.visit_map(entries(table)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0.get_ref() {
            DeValue::String(name) => visitor.visit_enum(BorrowedStrDeserializer::new(name)),
            DeValue::Table(table) if table.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(entries(table)))
            }
            DeValue::Table(table) => {
                Err(Misfit::custom(format!("wanted exactly 1 element, found {} elements", table.len())))
            }
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => Err(Misfit::custom("wanted string or table")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
