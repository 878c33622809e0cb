//! The value of `live()` in a template: an element, which is printed and nothing else.
//!
//! Its text changes in the browser, so the template can compute nothing from it. Without an error,
//! a field of it would be empty and a filter would take the element for text.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, Value};
use minijinja::{Error, ErrorKind};

use super::present::with_present;

/// The explanation for who tries.
pub(super) const NO_VALUE: &str = "live() is updated by the browser, so it has no fields and no \
     filters: live(\"topic\", \"json.path\") shows a value of a JSON payload, and latest() can be \
     computed with";

#[derive(Debug)]
pub(super) struct LiveSpan(pub(super) String);

impl LiveSpan {
    /// The element, where a value is one.
    pub(super) fn html(value: &Value) -> Option<Arc<Self>> {
        value.downcast_object::<Self>()
    }
}

impl Object for LiveSpan {
    fn get_value(self: &Arc<Self>, _key: &Value) -> Option<Value> {
        Some(Value::from(Error::new(
            ErrorKind::InvalidOperation,
            NO_VALUE,
        )))
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    /// As text, for a filter: rendering cannot fail here, so the page is failed when it is done.
    fn render(self: &Arc<Self>, _formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = with_present(|_, noted| noted.misuses_live = true);
        Ok(())
    }
}
