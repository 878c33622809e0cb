//! What Luau code sees of a message: a view, which copies only what is asked for.

use std::sync::Arc;

use gatepost_message::{Action, Format, Message, Score, Verdict};
use gatepost_rules::mail::{HeaderSelector, Mail};
use mlua::{Lua, UserData, UserDataFields, UserDataMethods};

/// A longer line says nothing more to a reader of logs.
const LOG_CHARACTERS_MAX: usize = 1000;

pub(super) struct MessageView {
    message: Arc<Message>,
    action: Action,
    score: Option<Score>,
}

impl MessageView {
    pub(super) fn new(message: &Arc<Message>, so_far: &Verdict) -> Self {
        Self {
            message: Arc::clone(message),
            action: so_far.action,
            score: so_far.score,
        }
    }

    /// The views of a mail; a payload has none.
    fn mail(&self) -> Option<Mail<'_>> {
        (self.message.format == Format::Mail).then(|| Mail::parse(&self.message.body))
    }

    fn header(&self, name: &str) -> Option<String> {
        let mail = self.mail()?;
        let value = mail.header(&HeaderSelector::parse(name))?;
        let text = String::from_utf8_lossy(&value).trim_end().to_owned();
        Some(text)
    }
}

impl UserData for MessageView {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("id", |_, view| Ok(view.message.id.to_string()));
        fields.add_field_method_get("listener", |_, view| {
            Ok(view.message.envelope.listener.name())
        });
        fields.add_field_method_get("peer", |_, view| Ok(view.message.envelope.peer.to_string()));
        fields.add_field_method_get("address", |_, view| {
            Ok(view.message.envelope.peer.ip().map(|ip| ip.to_string()))
        });
        fields.add_field_method_get("client", |_, view| Ok(view.message.envelope.client.clone()));
        fields.add_field_method_get("user", |_, view| Ok(view.message.envelope.user.clone()));
        fields.add_field_method_get("sender", |_, view| Ok(view.message.envelope.sender.clone()));
        fields.add_field_method_get("recipients", |_, view| {
            Ok(view.message.envelope.recipients.clone())
        });
        fields.add_field_method_get("topic", |_, view| {
            Ok(view.message.topic.as_ref().map(ToString::to_string))
        });
        fields.add_field_method_get("size", |_, view| Ok(view.message.size));
        fields.add_field_method_get("action", |_, view| Ok(view.action.name()));
        fields.add_field_method_get("score", |_, view| Ok(view.score.map(|score| score.value)));
        fields.add_field_method_get("subject", |_, view| {
            Ok(view.mail().map(|mail| mail.subject()))
        });
        // A copy, counted against the procedure's memory.
        fields.add_field_method_get("body", |lua, view| lua.create_string(&view.message.body));
        fields.add_field_method_get("text", |lua, view| match view.mail() {
            Some(mail) => lua.create_string(mail.readable_text()),
            None => lua.create_string(&view.message.body),
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("header", |_, view, name: String| Ok(view.header(&name)));
        // Whether the body holds these bytes; copies nothing.
        methods.add_method("contains", |_, view, needle: mlua::String| {
            let found = memchr::memmem::find(&view.message.body, &needle.as_bytes());
            Ok(found.is_some())
        });
    }
}

/// `log("text")` writes to Gatepost's log, and `print` is the same: there is no terminal.
pub(super) fn register_log(lua: &Lua, chunk_name: &str) -> mlua::Result<()> {
    let file = chunk_name.trim_start_matches('@').to_owned();
    let log = lua.create_function(move |_, text: String| {
        let text: String = text.chars().take(LOG_CHARACTERS_MAX).collect();
        tracing::info!(target: "procedures", procedure = file, "{}", text.escape_debug());
        Ok(())
    })?;
    lua.globals().set("log", &log)?;
    lua.globals().set("print", log)
}
