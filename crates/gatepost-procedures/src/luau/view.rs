//! A message for Luau code: views, which copy only the requested parts.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_mail::Leaf;
use gatepost_message::Edit;
use mlua::{Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, Value};

use super::working::{MessageInWork, SharedMessage, field};

/// The `message` that a procedure is called with.
pub(super) struct MessageView(pub(super) SharedMessage);

impl UserData for MessageView {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        envelope_fields(fields);
        verdict_fields(fields);
        content_fields(fields);
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("header", |_, view, name: String| {
            view.0.with(|working| Ok(joined(&working.values(&name))))
        });
        // Whether the body holds these bytes; copies nothing.
        methods.add_method("contains", |_, view, needle: mlua::String| {
            view.0.with(|working| {
                let found = memchr::memmem::find(&working.now().body, &needle.as_bytes());
                Ok(found.is_some())
            })
        });
        methods.add_method(
            "set_payload",
            |_, view, (payload, content_type): (mlua::String, Option<String>)| {
                let payload = Bytes::copy_from_slice(&payload.as_bytes());
                view.0.with(|working| {
                    working.push(Edit::SetPayload {
                        payload,
                        content_type,
                    })
                })
            },
        );
    }
}

fn envelope_fields<F: UserDataFields<MessageView>>(fields: &mut F) {
    fields.add_field_method_get("id", |_, view| {
        view.0.with(|working| Ok(working.message.id.to_string()))
    });
    fields.add_field_method_get("time", |_, view| {
        view.0.with(|working| {
            let since = working
                .message
                .id
                .time()
                .duration_since(std::time::UNIX_EPOCH);
            Ok(since.unwrap_or_default().as_secs_f64())
        })
    });
    fields.add_field_method_get("listener", |_, view| {
        view.0
            .with(|working| Ok(working.message.envelope.listener.name()))
    });
    fields.add_field_method_get("peer", |_, view| {
        view.0
            .with(|working| Ok(working.message.envelope.peer.to_string()))
    });
    fields.add_field_method_get("address", |_, view| {
        let ip = |working: &mut MessageInWork| {
            Ok(working.message.envelope.peer.ip().map(|ip| ip.to_string()))
        };
        view.0.with(ip)
    });
    fields.add_field_method_get("client", |_, view| {
        view.0
            .with(|working| Ok(working.message.envelope.client.clone()))
    });
    fields.add_field_method_get("user", |_, view| {
        view.0
            .with(|working| Ok(working.message.envelope.user.clone()))
    });
    fields.add_field_method_get("sender", |_, view| {
        view.0
            .with(|working| Ok(working.message.envelope.sender.clone()))
    });
    fields.add_field_method_get("recipients", |_, view| {
        view.0
            .with(|working| Ok(working.message.envelope.recipients.clone()))
    });
    fields.add_field_method_get("topic", |_, view| {
        view.0
            .with(|working| Ok(working.message.topic.as_ref().map(ToString::to_string)))
    });
    fields.add_field_method_get("format", |_, view| {
        view.0
            .with(|working| Ok(if working.is_mail() { "mail" } else { "payload" }))
    });
    fields.add_field_method_get("qos", |_, view| {
        view.0.with(|working| Ok(working.message.qos.level()))
    });
    fields.add_field_method_get("retain", |_, view| {
        view.0.with(|working| Ok(working.message.retain))
    });
}

fn verdict_fields<F: UserDataFields<MessageView>>(fields: &mut F) {
    fields.add_field_method_get("action", |_, view| {
        view.0.with(|working| Ok(working.so_far.action.name()))
    });
    fields.add_field_method_get("score", |_, view| {
        view.0
            .with(|working| Ok(working.so_far.score.map(|score| score.value)))
    });
    // The names of the rules that matched, with their scores.
    fields.add_field_method_get("hits", |lua, view| {
        view.0.with(|working| {
            let hits = lua.create_table()?;
            for hit in &working.so_far.hits {
                hits.raw_set(hit.name.as_ref(), hit.score)?;
            }
            Ok(hits)
        })
    });
}

fn content_fields<F: UserDataFields<MessageView>>(fields: &mut F) {
    fields.add_field_method_get("size", |_, view| {
        view.0.with(|working| {
            // A caller may have declared the size without sending the body.
            let declared = working.message.size;
            let now = working.now().size;
            Ok(if now == 0 { declared } else { now })
        })
    });
    fields.add_field_method_get("subject", |_, view| {
        view.0.with(|working| Ok(working.subject()))
    });
    fields.add_field_method_get("content_type", |_, view| {
        view.0.with(|working| {
            if working.is_mail() {
                return Ok(joined(&working.values("Content-Type")));
            }
            let properties = working.now().properties.as_deref();
            Ok(properties.and_then(|properties| properties.content_type.clone()))
        })
    });
    // A copy, counted against the procedure's memory.
    fields.add_field_method_get("body", |lua, view| {
        let body = view.0.with(|working| Ok(working.now().body.clone()))?;
        lua.create_string(&body)
    });
    // In a mail, the part after the head is replaced; in any other message, everything.
    fields.add_field_method_set("body", |_, view, body: mlua::String| {
        let body = Bytes::copy_from_slice(&body.as_bytes());
        view.0.with(|working| working.push(Edit::ReplaceBody(body)))
    });
    fields.add_field_method_get("text", |lua, view| {
        let text = view.0.with(|working| {
            let readable = working.mail(|mail| Bytes::from(mail.readable_text()));
            Ok(readable.unwrap_or_else(|| working.now().body.clone()))
        })?;
        lua.create_string(&text)
    });
    fields.add_field_method_get("payload", |lua, view| {
        let payload = view.0.with(|working| Ok(working.payload()))?;
        payload
            .map(|payload| lua.create_string(&payload))
            .transpose()
    });
    fields.add_field_method_get("headers", |_, view| Ok(HeadersView(view.0.clone())));
    fields.add_field_method_get("parts", |lua, view| {
        let leaves = view.0.with(MessageInWork::leaves)?;
        let parts = (0..leaves.len()).map(|index| PartView(Arc::clone(&leaves), index));
        lua.create_sequence_from(parts)
    });
}

fn joined(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| values.join("\n"))
}

/// `message.headers`: a mail's header fields, or the user properties of other messages.
struct HeadersView(SharedMessage);

impl UserData for HeadersView {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |_, view, name: String| {
            view.0
                .with(|working| Ok(working.values(&name).into_iter().next()))
        });
        methods.add_method("all", |_, view, name: String| {
            view.0.with(|working| Ok(working.values(&name)))
        });
        methods.add_method("names", |_, view, ()| {
            view.0.with(|working| Ok(working.names()))
        });
        methods.add_method("add", |_, view, (name, value): (String, String)| {
            let field = field(&name, &value)?;
            view.0
                .with(|working| working.push(Edit::AppendField(field)))
        });
        methods.add_method("prepend", |_, view, (name, value): (String, String)| {
            let field = field(&name, &value)?;
            view.0
                .with(|working| working.push(Edit::PrependField(field)))
        });
        methods.add_method("set", |_, view, (name, value): (String, String)| {
            view.0.with(|working| working.set(&name, &value))
        });
        methods.add_method("remove", |_, view, name: String| {
            view.0.with(|working| working.remove(&name))
        });
    }
}

/// One of `message.parts`: a text or a file.
struct PartView(Arc<[Leaf]>, usize);

impl PartView {
    fn leaf(&self) -> &Leaf {
        &self.0[self.1]
    }
}

impl UserData for PartView {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("type", |_, part| Ok(part.leaf().media_type.clone()));
        fields.add_field_method_get("name", |_, part| Ok(part.leaf().name.clone()));
        fields.add_field_method_get("disposition", |_, part| Ok(part.leaf().disposition.clone()));
        fields.add_field_method_get("size", |_, part| Ok(part.leaf().content.len()));
        fields.add_field_method_get("text", |_, part| Ok(part.leaf().text.clone()));
        fields.add_field_method_get("content", |lua, part| {
            lua.create_string(&part.leaf().content)
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("starts_with", |_, part, start: mlua::String| {
            Ok(part.leaf().content.starts_with(&start.as_bytes()))
        });
        methods.add_meta_method(MetaMethod::ToString, |_, part, ()| {
            let name = part.leaf().name.as_deref().unwrap_or_default();
            Ok(format!(
                "{} {name} ({} bytes)",
                part.leaf().media_type,
                part.leaf().content.len()
            ))
        });
    }
}

/// Creates the view of a call.
pub(super) fn create(lua: &Lua, shared: &SharedMessage) -> mlua::Result<Value> {
    lua.create_userdata(MessageView(shared.clone()))
        .map(Value::UserData)
}
