//! The handlers of the API: topics, calls of procedures, administration, attachments, subscriptions
//! of browsers, and ntfy's shapes.

pub(super) mod admin;
pub(super) mod call;
pub(super) mod files;
pub(super) mod ntfy;
pub(super) mod senders;
pub(super) mod topics;
pub(super) mod web_push;
