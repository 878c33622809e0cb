//! Functions for Luau code in addition to the language's own library: `log`, `store`, `shared`,
//! `publish`, `dns`, `http`, `json`. Functions that wait are in `waiting.rs`, and end at the call's
//! deadline.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatepost_dns::{RecordType, reverse_name};
use gatepost_message::{Properties, Publication, Qos, Topic};
use gatepost_store::StoredValue;
use mlua::{Error, IntoLua, Lua, Table, Value};
use parking_lot::Mutex;

use super::call_log::CallLog;
use super::deadline::Deadline;
use super::host_memory::HostMemory;
use super::json;
use super::waiting::{self, BegunRequest, PendingRequest, PresentRequest, WaitingFunctions};
use crate::host::{NamesAnswer, OutgoingRequest, Resources};

/// Publications of one call.
const PUBLICATIONS_MAX: usize = 100;
/// The longest text of a property: MQTT writes its length with 16 bits.
const PROPERTY_BYTES_MAX: usize = 65_535;
/// The space of `shared`. It is not a path, so no procedure's own space has this name.
const SHARED_SPACE: &str = "shared";

/// State of the functions of one machine.
pub(super) struct Library {
    pub(super) resources: Arc<Resources>,
    pub(super) deadline: Arc<Deadline>,
    /// The procedure's path: the name of its space of values.
    pub(super) path: String,
    pub(super) memory: Arc<HostMemory>,
    /// The publications that the current call requested, made after it has succeeded.
    pub(super) publications: Arc<Mutex<Vec<Publication>>>,
    /// The lines that the current call logs.
    pub(super) log: Arc<CallLog>,
    /// The request that the current call waits for.
    pub(super) request: PresentRequest,
}

impl Library {
    /// Makes the globals.
    pub(super) fn register(self, lua: &Lua) -> mlua::Result<()> {
        let library = Arc::new(self);
        let globals = lua.globals();
        let log = Arc::clone(&library.log).function(lua)?;
        // There is no terminal, so `print` writes to the log.
        globals.set("print", &log)?;
        globals.set("log", log)?;
        globals.set("publish", library.publish(lua)?)?;
        let own: Arc<str> = library.path.as_str().into();
        globals.set("store", library.values(lua, &own)?)?;
        globals.set("shared", library.values(lua, &SHARED_SPACE.into())?)?;
        let waiting = WaitingFunctions::register(lua, &library.request, &library.deadline)?;
        globals.set("dns", library.dns(lua, &waiting)?)?;
        globals.set("http", library.http(lua, &waiting)?)?;
        globals.set(
            "json",
            json::create(lua, &library.deadline, library.memory.bytes_max())?,
        )
    }

    /// `publish(topic, payload, options)`: to the broker, after the call has succeeded.
    fn publish(self: &Arc<Self>, lua: &Lua) -> mlua::Result<mlua::Function> {
        let publications = Arc::clone(&self.publications);
        let memory = Arc::clone(&self.memory);
        lua.create_function(
            move |_, (topic, payload, options): (String, mlua::String, Option<Table>)| {
                memory.charge(topic.len() + payload.as_bytes().len())?;
                let publication = publication(&topic, &payload, options)?;
                if let Some(properties) = &publication.properties {
                    memory.charge(size_of_properties(properties))?;
                }
                let mut waiting = publications.lock();
                if waiting.len() >= PUBLICATIONS_MAX {
                    return Err(Error::runtime(format!(
                        "a call publishes at most {PUBLICATIONS_MAX} messages"
                    )));
                }
                waiting.push(publication);
                Ok(())
            },
        )
    }

    /// `get(key)`, `set(key, value, seconds)`, `add(key, amount, seconds)`, `remove(key)`.
    fn values(&self, lua: &Lua, space: &Arc<str>) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        let values = &self.resources.host.values;
        let (kept, own) = (values.clone(), Arc::clone(space));
        table.set(
            "get",
            lua.create_function(move |lua, key: mlua::String| {
                let Some((value, left)) = kept.get(&own, &key.as_bytes()) else {
                    return Ok((Value::Nil, None));
                };
                let value = match value {
                    StoredValue::Number(number) => number.into_lua(lua)?,
                    StoredValue::Flag(flag) => flag.into_lua(lua)?,
                    StoredValue::Bytes(bytes) => Value::String(lua.create_string(&bytes)?),
                };
                Ok((value, left.map(|left| left.as_secs_f64())))
            })?,
        )?;
        let (kept, own) = (values.clone(), Arc::clone(space));
        table.set(
            "set",
            lua.create_function(
                move |_, (key, value, seconds): (mlua::String, Value, Option<f64>)| {
                    let value = match value {
                        Value::Nil => {
                            return kept
                                .remove(&own, &key.as_bytes())
                                .map(|_| ())
                                .map_err(script_error);
                        }
                        Value::Boolean(flag) => StoredValue::Flag(flag),
                        Value::Integer(number) => StoredValue::Number(number as f64),
                        Value::Number(number) => StoredValue::Number(number),
                        Value::String(text) => {
                            StoredValue::Bytes(Bytes::copy_from_slice(&text.as_bytes()))
                        }
                        other => {
                            return Err(Error::runtime(format!(
                                "a {} cannot be stored; json.encode converts a table to a text",
                                other.type_name()
                            )));
                        }
                    };
                    kept.set(&own, &key.as_bytes(), value, lifetime(seconds)?)
                        .map_err(script_error)
                },
            )?,
        )?;
        let (kept, own) = (values.clone(), Arc::clone(space));
        table.set(
            "add",
            lua.create_function(
                move |_, (key, amount, seconds): (mlua::String, Option<f64>, Option<f64>)| {
                    let lifetime = lifetime(seconds)?;
                    kept.add(&own, &key.as_bytes(), amount.unwrap_or(1.0), lifetime)
                        .map_err(script_error)
                },
            )?,
        )?;
        let (kept, own) = (values.clone(), Arc::clone(space));
        table.set(
            "remove",
            lua.create_function(move |_, key: mlua::String| {
                kept.remove(&own, &key.as_bytes()).map_err(script_error)
            })?,
        )?;
        Ok(table)
    }

    /// `a`, `aaaa`, `mx`, `txt` of a name, `ptr` of an address: a list, or nil and the reason.
    fn dns(self: &Arc<Self>, lua: &Lua, waiting: &WaitingFunctions) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        for (name, kind) in [
            ("a", RecordType::A),
            ("aaaa", RecordType::Aaaa),
            ("mx", RecordType::Mx),
            ("ptr", RecordType::Ptr),
            ("txt", RecordType::Txt),
        ] {
            let library = Arc::clone(self);
            let ask = move |lua: &Lua, name: String| {
                let name = match name.parse() {
                    Ok(address) if kind == RecordType::Ptr => reverse_name(address),
                    _ => name,
                };
                let dns = &library.resources.dns;
                Ok(
                    match dns.query(&name, kind, library.deadline.wait_until()) {
                        Ok(NamesAnswer::Known(names)) => {
                            BegunRequest::Known(Ok(waiting::list(lua, &names)?))
                        }
                        Ok(NamesAnswer::Pending(names)) => {
                            BegunRequest::Pending(PendingRequest::Names(names))
                        }
                        Err(reason) => BegunRequest::Known(Err(reason)),
                    },
                )
            };
            table.set(name, waiting.function(lua, ask)?)?;
        }
        Ok(table)
    }

    /// `get(url, fields)`, `post(url, body, fields)`: the answer, or nil and the reason.
    fn http(self: &Arc<Self>, lua: &Lua, waiting: &WaitingFunctions) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        let library = Arc::clone(self);
        let get = move |_: &Lua, (url, fields): (String, Option<Table>)| {
            library.send("GET", url, None, fields)
        };
        table.set("get", waiting.function(lua, get)?)?;
        let library = Arc::clone(self);
        let post = move |_: &Lua, (url, body, fields): (String, mlua::String, Option<Table>)| {
            library.send("POST", url, Some(body), fields)
        };
        table.set("post", waiting.function(lua, post)?)?;
        Ok(table)
    }

    fn send(
        &self,
        method: &'static str,
        url: String,
        body: Option<mlua::String>,
        fields: Option<Table>,
    ) -> mlua::Result<BegunRequest> {
        let mut given = Vec::new();
        for pair in fields.iter().flat_map(Table::pairs::<String, String>) {
            given.push(pair?);
        }
        let request = OutgoingRequest {
            method,
            url,
            fields: given,
            body: body
                .map(|body| body.as_bytes().to_vec())
                .unwrap_or_default(),
        };
        let Resources { http, network, .. } = &*self.resources;
        Ok(
            match http.start(network, request, self.deadline.wait_until()) {
                Ok(response) => BegunRequest::Pending(PendingRequest::Response(response)),
                Err(error) => BegunRequest::Known(Err(error.to_string())),
            },
        )
    }
}

fn publication(
    topic: &str,
    payload: &mlua::String,
    options: Option<Table>,
) -> mlua::Result<Publication> {
    let topic = Topic::new(topic).map_err(script_error)?;
    if topic.is_internal() {
        return Err(Error::runtime("topics that begin with $ are the server's"));
    }
    let payload = Bytes::copy_from_slice(&payload.as_bytes());
    let mut publication = Publication::new(topic, payload);
    publication.qos = Qos::AtLeastOnce;
    let Some(options) = options else {
        return Ok(publication);
    };
    publication.retain = options.get::<Option<bool>>("retain")?.unwrap_or(false);
    if let Some(level) = options.get::<Option<u8>>("qos")? {
        let qos = Qos::from_level(level);
        publication.qos = qos.ok_or_else(|| Error::runtime("qos is 0, 1 or 2"))?;
    }
    let mut properties = Properties {
        content_type: options.get("content_type")?,
        expiry_seconds: options.get("expiry")?,
        ..Properties::default()
    };
    if let Some(user) = options.get::<Option<Table>>("properties")? {
        for pair in user.pairs::<String, String>() {
            properties.user.push(pair?);
        }
        properties.user.sort();
    }
    expect_short_texts(&properties)?;
    publication.properties = (!properties.is_empty()).then(|| Box::new(properties));
    Ok(publication)
}

/// A property with a longer text could be sent to no subscriber.
fn expect_short_texts(properties: &Properties) -> mlua::Result<()> {
    let user = properties.user.iter();
    let texts = user.flat_map(|(name, value)| [name, value]);
    let mut texts = texts.chain(&properties.content_type);
    if texts.any(|text| text.len() > PROPERTY_BYTES_MAX) {
        return Err(Error::runtime(format!(
            "a property has at most {PROPERTY_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// The bytes of the texts in it.
fn size_of_properties(properties: &Properties) -> usize {
    let user = properties.user.iter();
    let user: usize = user.map(|(name, value)| name.len() + value.len()).sum();
    user + properties.content_type.as_deref().map_or(0, str::len)
}

fn lifetime(seconds: Option<f64>) -> mlua::Result<Option<Duration>> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    Duration::try_from_secs_f64(seconds)
        .map(Some)
        .map_err(|_| Error::runtime("a lifetime is a number of seconds from 0 on"))
}

fn script_error(error: impl std::fmt::Display) -> Error {
    Error::runtime(error.to_string())
}
