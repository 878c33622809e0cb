//! The lines of the log for the dashboard: each event as a level, a text and values.

use std::fmt::{Debug, Write as _};

use gatepost_operations::{LogLevel, RecentLog};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// The name of the field with the text of an event.
const TEXT: &str = "message";

/// The text and the values of an event. Its first field of this name is the text; another one is
/// the id of the message concerned.
#[derive(Default)]
struct EventTexts {
    text: Option<String>,
    fields: Vec<(&'static str, String)>,
}

impl EventTexts {
    fn add(&mut self, field: &Field, value: String) {
        if field.name() == TEXT && self.text.is_none() {
            self.text = Some(value);
        } else {
            self.fields.push((field.name(), value));
        }
    }
}

impl Visit for EventTexts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:?}");
        self.add(field, text);
    }
}

/// Keeps an event, unless its level is for developers.
pub(super) fn keep(log: &RecentLog, event: &Event<'_>) {
    let metadata = event.metadata();
    let level = match *metadata.level() {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG | Level::TRACE => return,
    };
    let mut texts = EventTexts::default();
    event.record(&mut texts);
    log.keep(
        level,
        metadata.target(),
        texts.text.unwrap_or_default(),
        texts.fields,
    );
}
