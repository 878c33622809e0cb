//! Parameters of a request in addition to its body: equivalent header fields and query values, and
//! the parsers of their values.

use std::time::SystemTime;

use gatepost_broker::{MalformedSince, Since};

use super::error::HttpError;
use super::request::HttpRequest;

/// The greatest number of entries that `skip=` skips.
const SKIPPED_MAX: usize = u32::MAX as usize;

/// A header field, or the query's value of the same name.
pub(super) fn parameter(request: &HttpRequest, name: &str) -> Option<String> {
    request
        .field(name)
        .map(str::to_owned)
        .or_else(|| request.query_value(name))
}

/// The first of these names with a non-empty value.
pub(super) fn first_parameter(request: &HttpRequest, names: &[&str]) -> Option<String> {
    let mut values = names.iter().filter_map(|name| parameter(request, name));
    values.find(|value| !value.is_empty())
}

/// A yes or no given as text; a missing text means no.
pub(super) fn flag(name: &'static str, text: Option<String>) -> Result<bool, HttpError> {
    match text.as_deref() {
        None | Some("0" | "false" | "no" | "off") => Ok(false),
        Some(text) if is_yes(text) => Ok(true),
        Some(_) => Err(HttpError::Parameter {
            name,
            detail: "write 1 or 0".to_owned(),
        }),
    }
}

pub(super) fn is_yes(text: &str) -> bool {
    matches!(text, "" | "1" | "true" | "yes" | "on")
}

/// `count=`, from 1 to `most`.
pub(super) fn count_of(
    request: &HttpRequest,
    default: usize,
    most: usize,
) -> Result<usize, HttpError> {
    let Some(text) = request.query_value("count") else {
        return Ok(default);
    };
    let count = text.parse().ok();
    count
        .filter(|count| (1..=most).contains(count))
        .ok_or_else(|| HttpError::Parameter {
            name: "count",
            detail: format!("write a number from 1 to {most}"),
        })
}

/// `skip=`, 0 if it is missing. A number that is too large for its type skips everything too: no
/// list has more than [`SKIPPED_MAX`] entries.
pub(super) fn skip_of(request: &HttpRequest) -> Result<usize, HttpError> {
    let Some(text) = request.query_value("skip") else {
        return Ok(0);
    };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HttpError::Parameter {
            name: "skip",
            detail: "write a number".to_owned(),
        });
    }
    let skipped = text.parse().unwrap_or(SKIPPED_MAX);
    Ok(skipped.min(SKIPPED_MAX))
}

/// The start of a subscription: `Last-Event-ID` (a reconnect) outranks `since=`.
pub(super) fn since_of(request: &HttpRequest, default: Since) -> Result<Since, HttpError> {
    let resumed = request
        .field("last-event-id")
        .map(str::to_owned)
        .or_else(|| request.query_value("last-event-id"));
    if let Some(id) = resumed.as_deref().and_then(|id| id.parse().ok()) {
        return Ok(Since::After(id));
    }
    match request.query_value("since").as_deref() {
        None | Some("") => Ok(default),
        Some(text) => parse_since(text),
    }
}

fn parse_since(text: &str) -> Result<Since, HttpError> {
    text.parse()
        .map_err(|error: MalformedSince| HttpError::Parameter {
            name: "since",
            detail: error.to_string(),
        })
}

/// A moment, as Unix seconds or as a period before now; `None` if the parameter is missing.
pub(super) fn time_of(
    request: &HttpRequest,
    name: &'static str,
) -> Result<Option<SystemTime>, HttpError> {
    let text = request.query_value(name).filter(|text| !text.is_empty());
    match text.map(|text| text.parse()) {
        None => Ok(None),
        Some(Ok(Since::From(time))) => Ok(Some(time)),
        Some(_) => Err(HttpError::Parameter {
            name,
            detail: "write Unix seconds, or a period such as 10m".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::MessageId;

    #[test]
    fn starts_are_read_in_every_form() {
        let id = MessageId::next();
        assert_eq!(parse_since("all"), Ok(Since::Everything));
        assert_eq!(parse_since("latest"), Ok(Since::Latest));
        assert_eq!(parse_since(&id.to_string()), Ok(Since::After(id)));
        assert!(matches!(parse_since("1700000000"), Ok(Since::From(_))));
        assert!(matches!(parse_since("10m"), Ok(Since::From(_))));
        assert!(parse_since("yesterday").is_err());
    }
}
