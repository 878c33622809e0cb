//! `json.encode` and `json.decode`.
//!
//! Both are recursive, so both have a depth limit, [`DEPTH_MAX`], far below the limit of a thread's
//! stack. A table may also reach the same part many times, which multiplies the text at each level;
//! so the text has a limit in bytes, and each table counts as a step of the call, whose deadline
//! ends it. Decoding builds Luau values directly: no copy is outside the machine's memory limit.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use mlua::{Error, IntoLua, Lua, Table, Value};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::deadline::Deadline;

/// Tables within tables; serde_json reads as many.
const DEPTH_MAX: usize = 127;

/// The functions, whose text has at most `bytes_max` bytes.
pub(super) fn create(lua: &Lua, deadline: &Arc<Deadline>, bytes_max: usize) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let encoding = Arc::clone(deadline);
    table.set(
        "encode",
        lua.create_function(move |lua, value: Value| {
            encoding.check_clock()?;
            let mut encoder = JsonEncoder {
                text: Vec::new(),
                bytes_max,
                deadline: &encoding,
            };
            encoder.value(&value, 0)?;
            lua.create_string(&encoder.text)
        })?,
    )?;
    let decoding = Arc::clone(deadline);
    table.set(
        "decode",
        lua.create_function(move |lua, text: mlua::String| {
            decoding.check_clock()?;
            decode(lua, &text.as_bytes(), &decoding)
        })?,
    )?;
    Ok(table)
}

struct JsonEncoder<'a> {
    text: Vec<u8>,
    bytes_max: usize,
    deadline: &'a Deadline,
}

impl JsonEncoder<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        match value {
            Value::Nil => self.push(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.push(b"null"),
            Value::Boolean(flag) => self.push(if *flag { b"true" } else { b"false" }),
            Value::Integer(number) => self.push(number.to_string().as_bytes()),
            // JSON has no infinity and no NaN.
            Value::Number(number) => match serde_json::Number::from_f64(*number) {
                Some(number) => self.push(number.to_string().as_bytes()),
                None => self.push(b"null"),
            },
            Value::String(text) => self.string(text),
            Value::Table(table) => self.table(table, depth),
            other => Err(Error::runtime(format!(
                "a {} cannot be written as JSON",
                other.type_name()
            ))),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if depth >= DEPTH_MAX {
            return Err(Error::runtime(format!(
                "JSON has at most {DEPTH_MAX} tables within each other; does a table contain \
                 itself?"
            )));
        }
        self.deadline.check()?;
        let length = table.raw_len();
        if length > 0 {
            self.push(b"[")?;
            for index in 1..=length {
                if index > 1 {
                    self.push(b",")?;
                }
                self.value(&table.raw_get(index)?, depth + 1)?;
            }
            return self.push(b"]");
        }
        // A table has no order.
        let mut keys = Vec::new();
        table.for_each(|key: Value, _: Value| match key {
            Value::String(name) => {
                keys.push(name);
                Ok(())
            }
            other => Err(Error::runtime(format!(
                "a {} cannot be the name of a JSON member",
                other.type_name()
            ))),
        })?;
        keys.sort_by(|one, other| one.as_bytes().cmp(&other.as_bytes()));
        self.push(b"{")?;
        for (number, name) in keys.iter().enumerate() {
            if number > 0 {
                self.push(b",")?;
            }
            self.string(name)?;
            self.push(b":")?;
            self.value(&table.raw_get(name)?, depth + 1)?;
        }
        self.push(b"}")
    }

    fn string(&mut self, text: &mlua::String) -> mlua::Result<()> {
        let bytes = text.as_bytes();
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Error::runtime("a text that is not UTF-8 cannot be written as JSON"))?;
        // Escapes make it longer by six times at most; the limit is checked before and after.
        self.expect_room(text.len())?;
        serde_json::to_writer(&mut self.text, text).map_err(Error::external)?;
        self.expect_room(0)
    }

    fn push(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        self.expect_room(bytes.len())?;
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    fn expect_room(&self, bytes: usize) -> mlua::Result<()> {
        if self.text.len() + bytes > self.bytes_max {
            return Err(Error::runtime(format!(
                "the procedure used more memory than it may: its JSON has more than {} bytes",
                self.bytes_max
            )));
        }
        Ok(())
    }
}

/// The value, or nil and the reason why the text is not JSON. Other errors, such as a lack of
/// memory, are raised.
fn decode(lua: &Lua, text: &[u8], deadline: &Deadline) -> mlua::Result<(Value, Option<String>)> {
    let context = Context {
        lua,
        deadline,
        raised: RefCell::default(),
    };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let decoded = ValueSeed(&context)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    match (decoded, context.raised.into_inner()) {
        (_, Some(raised)) => Err(raised),
        (Ok(value), None) => Ok((value, None)),
        (Err(error), None) => Ok((Value::Nil, Some(error.to_string()))),
    }
}

struct Context<'a> {
    lua: &'a Lua,
    deadline: &'a Deadline,
    /// An error of the machine, which serde's own error cannot carry.
    raised: RefCell<Option<Error>>,
}

impl Context<'_> {
    fn raise<E: serde::de::Error>(&self, error: Error) -> E {
        *self.raised.borrow_mut() = Some(error);
        E::custom("the machine failed")
    }
}

#[derive(Clone, Copy)]
struct ValueSeed<'a>(&'a Context<'a>);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Boolean(flag))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Value, E> {
        number
            .into_lua(self.0.lua)
            .map_err(|error| self.0.raise(error))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value, E> {
        number
            .into_lua(self.0.lua)
            .map_err(|error| self.0.raise(error))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        let text = self.0.lua.create_string(text);
        text.map(Value::String).map_err(|error| self.0.raise(error))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let raise = |error| self.0.raise(error);
        self.0.deadline.check().map_err(raise)?;
        let table = self.0.lua.create_table().map_err(raise)?;
        let mut index = 0_usize;
        while let Some(value) = items.next_element_seed(self)? {
            index += 1;
            // A null leaves a gap, so that later elements keep their index.
            if !value.is_nil() {
                table.raw_set(index, value).map_err(raise)?;
            }
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let raise = |error| self.0.raise(error);
        self.0.deadline.check().map_err(raise)?;
        let table = self.0.lua.create_table().map_err(raise)?;
        while let Some(name) = members.next_key_seed(self)? {
            let value = members.next_value_seed(self)?;
            table.raw_set(name, value).map_err(raise)?;
        }
        Ok(Value::Table(table))
    }
}
