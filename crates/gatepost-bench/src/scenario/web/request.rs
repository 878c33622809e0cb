//! The request for a page.

use serde_json::Value;

/// A header field of the command line: `Name: value`.
pub(super) fn header_field(text: &str) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = text.split_once(':').map(|(name, _)| name);
    let is_name = name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_token));
    if is_name && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "'{text}' is not a header field; write 'NAME: VALUE'"
        ))
    }
}

/// Leaves only the names of header fields in the settings of a report, since their values may be
/// passwords.
pub(crate) fn hide_header_values(settings: &mut Value) {
    let fields = settings.get_mut("header").and_then(Value::as_array_mut);
    for field in fields.into_iter().flatten() {
        let name = field.as_str().and_then(|text| text.split(':').next());
        *field = name.unwrap_or_default().to_owned().into();
    }
}

/// The shortest possible request, with these fields in addition: HTTP/1.1 keeps a connection unless
/// a header field says otherwise.
pub(super) fn request(host: &str, path: &str, keep_alive: bool, fields: &[String]) -> Vec<u8> {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n");
    for field in fields {
        request.push_str(field);
        request.push_str("\r\n");
    }
    if !keep_alive {
        request.push_str("Connection: close\r\n");
    }
    request.push_str("\r\n");
    request.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_field_is_sent_and_its_value_is_not_stored() {
        let field = header_field("Authorization: Bearer secret").expect("a field");
        let text = request("here", "/", true, std::slice::from_ref(&field));
        let expected = "GET / HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer secret\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&text), expected);
        let mut settings = serde_json::json!({ "header": [field], "clients": 5 });
        hide_header_values(&mut settings);
        let hidden = serde_json::json!({ "header": ["Authorization"], "clients": 5 });
        assert_eq!(settings, hidden);
        let mut none = serde_json::json!({ "clients": 5 });
        hide_header_values(&mut none);
        assert_eq!(none, serde_json::json!({ "clients": 5 }));
    }

    #[test]
    fn what_would_change_the_request_is_no_header_field() {
        for text in ["", "name", ": value", "a b: c", "a: b\r\nc: d", "a: b\n"] {
            assert!(header_field(text).is_err(), "{text:?}");
        }
    }
}
