//! A message during a procedure's call: as it arrived, with the code's changes so far.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_mail::{HeaderSelector, Leaf, Mail};
use gatepost_message::{Edit, EditedField, Format, Message, Verdict, edit};
use mlua::Error;
use parking_lot::{Mutex, MutexGuard};

use super::deadline::Deadline;
use super::host_memory::HostMemory;

/// The maximum number of changes of one message; more indicate a runaway loop.
const EDITS_MAX: usize = 1000;

/// The state of the message, its headers and its parts. Empty after the call, so that code
/// which kept one of them finds it closed, and the message is freed in time.
#[derive(Clone)]
pub(super) struct SharedMessage(Arc<Mutex<Option<MessageInWork>>>);

pub(super) struct MessageInWork {
    pub(super) message: Arc<Message>,
    pub(super) so_far: Verdict,
    edits: Vec<Edit>,
    /// The message with the edits applied; made on demand.
    edited: Option<Message>,
    /// The parts of the mail as it is now, shared by all their users.
    leaves: Option<Arc<[Leaf]>>,
    /// The account to which the changes are charged.
    memory: Arc<HostMemory>,
    /// The end of the call: to parse a large mail takes longer than many loops.
    deadline: Arc<Deadline>,
}

impl SharedMessage {
    pub(super) fn new(
        message: &Arc<Message>,
        so_far: &Verdict,
        memory: &Arc<HostMemory>,
        deadline: &Arc<Deadline>,
    ) -> Self {
        Self(Arc::new(Mutex::new(Some(MessageInWork {
            message: Arc::clone(message),
            so_far: so_far.clone(),
            edits: Vec::new(),
            edited: None,
            leaves: None,
            memory: Arc::clone(memory),
            deadline: Arc::clone(deadline),
        }))))
    }

    /// Reads or changes the message.
    pub(super) fn with<T>(
        &self,
        act: impl FnOnce(&mut MessageInWork) -> mlua::Result<T>,
    ) -> mlua::Result<T> {
        let mut state: MutexGuard<'_, Option<MessageInWork>> = self.0.lock();
        let working = state.as_mut().ok_or_else(|| {
            Error::runtime("this message was judged already; do not keep it beyond the call")
        })?;
        working.deadline.check_clock()?;
        act(working)
    }

    /// Ends the call's access; returns the changes.
    pub(super) fn close(&self) -> Vec<Edit> {
        self.0
            .lock()
            .take()
            .map(|working| working.edits)
            .unwrap_or_default()
    }
}

// A method of a type with a lifetime of its own is not a closure for every lifetime.
#[allow(clippy::redundant_closure_for_method_calls)]
impl MessageInWork {
    /// The message with the edits applied.
    pub(super) fn now(&mut self) -> &Message {
        if self.edits.is_empty() {
            return &self.message;
        }
        self.edited
            .get_or_insert_with(|| edit::applied(&self.message, &self.edits))
    }

    pub(super) fn push(&mut self, edit: Edit) -> mlua::Result<()> {
        if self.edits.len() >= EDITS_MAX {
            return Err(Error::runtime(format!(
                "a call changes a message at most {EDITS_MAX} times"
            )));
        }
        self.memory.charge(size_of(&edit))?;
        self.edits.push(edit);
        self.edited = None;
        self.leaves = None;
        Ok(())
    }

    /// The payload that was set, if any.
    pub(super) fn payload(&self) -> Option<Bytes> {
        edit::payload(&self.edits).map(|(payload, _)| payload.clone())
    }

    pub(super) fn is_mail(&self) -> bool {
        self.message.format == Format::Mail
    }

    pub(super) fn mail<T>(&mut self, look: impl FnOnce(&Mail<'_>) -> T) -> Option<T> {
        if !self.is_mail() {
            return None;
        }
        Some(look(&Mail::parse(&self.now().body)))
    }

    pub(super) fn subject(&mut self) -> Option<String> {
        self.mail(|mail: &Mail<'_>| mail.subject())
    }

    /// The parts of a mail. Code may keep them, so those of each changed mail are charged.
    pub(super) fn leaves(&mut self) -> mlua::Result<Arc<[Leaf]>> {
        if let Some(leaves) = &self.leaves {
            return Ok(Arc::clone(leaves));
        }
        if !self.edits.is_empty() {
            let bytes = self.now().body.len();
            self.memory.charge(bytes)?;
        }
        let leaves = self.mail(|mail: &Mail<'_>| mail.leaves());
        let leaves: Arc<[Leaf]> = leaves.unwrap_or_default().into();
        self.leaves = Some(Arc::clone(&leaves));
        Ok(leaves)
    }

    /// The values of a header field, or the user properties of this name.
    pub(super) fn values(&mut self, name: &str) -> Vec<String> {
        if !self.is_mail() {
            return self
                .user()
                .iter()
                .filter(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.clone())
                .collect();
        }
        let values = self.mail(|mail| {
            let values = mail.header_values(&HeaderSelector::parse(name));
            let text = |value: &std::borrow::Cow<'_, [u8]>| {
                String::from_utf8_lossy(value).trim_end().to_owned()
            };
            values.iter().map(text).collect()
        });
        values.unwrap_or_default()
    }

    /// The names of all fields, in order.
    pub(super) fn names(&mut self) -> Vec<String> {
        if self.is_mail() {
            return edit::field_names(&self.now().body);
        }
        self.user().iter().map(|(name, _)| name.clone()).collect()
    }

    fn user(&mut self) -> &[(String, String)] {
        let properties = self.now().properties.as_deref();
        properties.map_or(&[], |properties| properties.user.as_slice())
    }

    /// Removes all fields of this name; returns their number.
    pub(super) fn remove(&mut self, name: &str) -> mlua::Result<usize> {
        let names = self.names();
        let count = names
            .iter()
            .filter(|one| one.eq_ignore_ascii_case(name))
            .count();
        for _ in 0..count {
            self.push(Edit::RemoveField {
                name: name.to_owned(),
                occurrence: 1,
            })?;
        }
        Ok(count)
    }

    /// Leaves one field of this name, with this value: in the place of the first, or at the end.
    pub(super) fn set(&mut self, name: &str, value: &str) -> mlua::Result<()> {
        let field = field(name, value)?;
        let names = self.names();
        let count = names
            .iter()
            .filter(|one| one.eq_ignore_ascii_case(name))
            .count();
        if count == 0 {
            return self.push(Edit::AppendField(field));
        }
        for _ in 1..count {
            self.push(Edit::RemoveField {
                name: name.to_owned(),
                occurrence: 2,
            })?;
        }
        self.push(Edit::ReplaceField {
            field,
            occurrence: 1,
        })
    }
}

/// The bytes that an edit holds.
fn size_of(edit: &Edit) -> usize {
    match edit {
        Edit::PrependField(field) | Edit::AppendField(field) | Edit::ReplaceField { field, .. } => {
            field.name().len() + field.value().len()
        }
        Edit::RemoveField { name, .. } => name.len(),
        Edit::ReplaceBody(body) => body.len(),
        Edit::SetPayload {
            payload,
            content_type,
        } => payload.len() + content_type.as_deref().map_or(0, str::len),
    }
}

/// A field whose name Luau code gave.
pub(super) fn field(name: &str, value: &str) -> mlua::Result<EditedField> {
    EditedField::new(name, value).map_err(|error| Error::runtime(error.to_string()))
}
