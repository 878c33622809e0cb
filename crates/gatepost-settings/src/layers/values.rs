//! Reads settings from TOML values, and remembers the key of the value that was refused.
//!
//! Serde compiles the code of every type once for each deserializer. TOML's own inside a wrapper
//! that records the path had 1.4 MB of code for all settings, so this one does both.

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

/// A value that a type refused.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refusal {
    /// The keys, names of variants and indexes that lead to the value, the innermost first.
    steps: Vec<String>,
    message: String,
}

impl Refusal {
    /// The path to the value, the outermost key first, and serde's message.
    pub(super) fn into_parts(mut self) -> (Vec<String>, String) {
        self.steps.reverse();
        (self.steps, self.message)
    }

    fn below(mut self, step: String) -> Self {
        self.steps.push(step);
        self
    }
}

impl serde::de::Error for Refusal {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self {
            steps: Vec::new(),
            message: message.to_string(),
        }
    }
}

/// Deserializes one value of a configuration.
pub(super) struct ValueReader(pub(super) Value);

impl<'de> Deserializer<'de> for ValueReader {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Boolean(flag) => visitor.visit_bool(flag),
            Value::Array(items) => visitor.visit_seq(ItemReader {
                items: items.into_iter(),
                index: 0,
            }),
            Value::Table(table) => visitor.visit_map(TableReader::new(table)),
            // No setting is a date. It was a table to serde too, in the reader of TOML.
            Value::Datetime(_) => Err(Refusal::invalid_type(Unexpected::Map, &visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.into_deserializer()),
            Value::Table(table) => {
                let mut entries = table.into_iter();
                match (entries.next(), entries.next()) {
                    (Some((name, value)), None) => {
                        visitor.visit_enum(VariantReader { name, value })
                    }
                    (None, _) => Err(Refusal::custom(
                        "wanted exactly 1 element, found 0 elements",
                    )),
                    _ => Err(Refusal::custom(
                        "wanted exactly 1 element, more than 1 element",
                    )),
                }
            }
            _ => Err(Refusal::invalid_type(
                Unexpected::UnitVariant,
                &"string only",
            )),
        }
    }

    /// An option that is absent has no key.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The elements of an array.
struct ItemReader {
    items: std::vec::IntoIter<Value>,
    index: usize,
}

impl<'de> SeqAccess<'de> for ItemReader {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refusal> {
        let Some(item) = self.items.next() else {
            return Ok(None);
        };
        let index = self.index;
        self.index += 1;
        let item = seed.deserialize(ValueReader(item));
        item.map(Some)
            .map_err(|refusal| refusal.below(index.to_string()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The keys of a table, each before its value.
struct TableReader {
    entries: <Table as IntoIterator>::IntoIter,
    entry: Option<(String, Value)>,
}

impl TableReader {
    fn new(table: Table) -> Self {
        Self {
            entries: table.into_iter(),
            entry: None,
        }
    }
}

impl<'de> MapAccess<'de> for TableReader {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refusal> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.entry = Some((key.clone(), value));
        let name = StringDeserializer::<Refusal>::new(key);
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refusal> {
        let Some((key, value)) = self.entry.take() else {
            return Err(Refusal::custom("a value was read before its key"));
        };
        seed.deserialize(ValueReader(value))
            .map_err(|refusal| refusal.below(key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A variant with its content: `{ name = content }`.
struct VariantReader {
    name: String,
    value: Value,
}

impl<'de> EnumAccess<'de> for VariantReader {
    type Error = Refusal;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Refusal> {
        let name = StringDeserializer::<Refusal>::new(self.name.clone());
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for VariantReader {
    type Error = Refusal;

    /// A table or array without elements stands for a variant without content.
    fn unit_variant(self) -> Result<(), Refusal> {
        match self.value {
            Value::Table(table) if table.is_empty() => Ok(()),
            Value::Array(items) if items.is_empty() => Ok(()),
            _ => Err(Refusal::custom("expected no content").below(self.name)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refusal> {
        seed.deserialize(ValueReader(self.value))
            .map_err(|refusal| refusal.below(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refusal> {
        ValueReader(self.value)
            .deserialize_any(visitor)
            .map_err(|refusal| refusal.below(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        ValueReader(self.value)
            .deserialize_any(visitor)
            .map_err(|refusal| refusal.below(self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only whether it is read matters")]
    enum Shape {
        Plain,
        Pair(u8, u8),
        Named { count: u16 },
        Inner(BTreeMap<String, Vec<u8>>),
    }

    #[test]
    fn a_refused_value_is_named_by_its_path() {
        for (text, expected) in [
            ("'plain'", None),
            ("{ plain = {} }", None),
            ("{ pair = [1, 2] }", None),
            ("{ named = { count = 3 } }", None),
            ("{ inner = { a = [1], b = [] } }", None),
            ("{ plain = 1 }", Some("plain")),
            ("{ pair = [1, 256] }", Some("pair.1")),
            ("{ named = { count = 'x' } }", Some("named.count")),
            ("{ named = {} }", Some("named")),
            ("{ inner = { a = [1], b = [1, -1] } }", Some("inner.b.1")),
            ("{ inner = { a = 1979-05-27 } }", Some("inner.a")),
            ("{}", Some("")),
            ("{ pair = [1, 2], plain = {} }", Some("")),
            ("7", Some("")),
        ] {
            let mut table: Table = toml::from_str(&format!("shape = {text}")).expect("TOML");
            let value = table.remove("shape").expect("the value was written");
            let refused = Shape::deserialize(ValueReader(value)).err();
            let path = refused.map(|refusal| refusal.into_parts().0.join("."));
            assert_eq!(path.as_deref(), expected, "{text}");
        }
    }
}
