//! Sinks: subscribers whose client is a part of the server, and that send messages to other
//! systems.
//!
//! A sink has a persistent session at the broker (`session.rs`), so queue, expiry, order, policies,
//! counters and crash safety are those of any subscriber. The broker writes into a buffer in memory
//! (`session_socket.rs`) in a format of the sinks' own (`frame.rs`). All sinks run on one thread
//! (`sinks/mod.rs`).
//!
//! Invariants:
//! - A message is acknowledged to the broker only after the destination has accepted it, or its
//!   dead letter is on disk. A crash in between repeats it.
//! - A sink takes no more messages from its session than it processes at once; the rest waits
//!   there.
//! - Only the origin of a URL is shown, since its path is often a secret.

mod attempt;
mod bridge;
mod connecting;
mod delivery_loop;
mod field_mistake;
mod file_text;
mod frame;
mod given_up;
mod http_client;
mod mail;
mod mail_settings;
mod mistake;
mod notification_action;
mod ready_templates;
mod session;
mod session_end;
mod session_socket;
mod settings;
mod sinks;
mod status;
mod template;
mod tls;
mod transport;
mod web_push;
mod webhook;

pub use connecting::connect_to_any;
pub use mail::{
    Checking, Keeping, MailQueue, MailSubmission, MailTransport, QueueError, RefusedRecipient,
    SendOutcome, Sending, UnsentMail,
};
pub use mail_settings::MailSettings;
pub use mistake::{SinkMistake, mistakes};
pub use notification_action::{ACTIONS, ActionMistake, NotificationAction};
pub use settings::{BridgeSettings, SinkRetrySettings, SinkSettings, WebhookSettings};
pub use sinks::{Sinks, check};
pub use status::{SinkError, SinkState, SinkStatus};
pub use web_push::{
    SubscriberRights, SubscriptionRequest, SubscriptionStatus, WebPush, WebPushError,
    WebPushSettings,
};
