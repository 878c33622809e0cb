//! The filters `int` and `float`.
//!
//! The engine's own fail on a text that is no number. A page converts the parameters of its request
//! with them, so a visitor could then make any such page fail. Here they are those of Jinja: such a
//! text becomes 0, or the value that the page names. So does a missing value.

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, State, filters};

pub(super) fn add_number_filters(environment: &mut Environment<'static>) {
    environment.add_filter(
        "int",
        |state: &State<'_, '_>, value: &Value, default: Option<Value>| {
            let number = filters::int(state, &trimmed(value));
            or_default(number, value, default, Value::from(0))
        },
    );
    environment.add_filter(
        "float",
        |state: &State<'_, '_>, value: &Value, default: Option<Value>| {
            let number = filters::float(state, &trimmed(value));
            or_default(number, value, default, Value::from(0.0))
        },
    );
}

/// The value, a text without the blanks around it.
fn trimmed(value: &Value) -> Value {
    let text = value.as_str().map(str::trim);
    text.map_or_else(|| value.clone(), Value::from)
}

/// The number, or the default where the value has none.
fn or_default(
    number: Result<Value, Error>,
    value: &Value,
    default: Option<Value>,
    zero: Value,
) -> Result<Value, Error> {
    let default = match default {
        Some(named) if named.is_kwargs() => {
            let named = Kwargs::try_from(named)?;
            let default = named.get("default")?;
            named.assert_all_used()?;
            default
        }
        other => other,
    };
    let is_missing = value.is_undefined() || value.is_none();
    let is_other_text = number.is_err() && value.as_str().is_some();
    if is_missing || is_other_text {
        return Ok(default.unwrap_or(zero));
    }
    number
}
