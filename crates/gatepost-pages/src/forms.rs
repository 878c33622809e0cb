//! Signed actions of forms on pages.
//!
//! The author of a page decides that a form publishes to a topic or calls a procedure; the browser
//! receives this as a hidden field and sends it back. The signature covers the action, the page,
//! the time, and the name in the browser's cookie. So no visitor can change the action, and no
//! other site can make a browser perform it: it can neither read the field nor guess it (OWASP's
//! signed double submit). The server stores nothing. The key lasts as long as the process.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::escape::push_escaped;
use crate::request::PageRequest;

/// The name of the hidden field.
pub const FIELD: &str = "gatepost-form";

/// The action of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormAction {
    /// Publishes to this topic.
    Publish(String),
    /// Calls this procedure.
    Call(String),
    /// No action.
    Show,
}

/// A form, as its page declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// Its action.
    pub action: FormAction,
    /// The URL to which the browser is redirected.
    pub then: Option<String>,
}

/// The reason why a form is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The hidden field is missing.
    #[error("the form does not come from a page of this server")]
    Missing,
    /// The form was made for another browser or page, or by another server.
    #[error("the form was not made for this browser and page; load the page again, with cookies")]
    Foreign,
    /// The form has expired.
    #[error("the form is too old; load the page again")]
    Old,
}

/// The signed data.
#[derive(Serialize, Deserialize)]
struct Grant {
    form: Form,
    page: String,
    until_unix: u64,
}

/// The key of the signatures, and their lifetime.
#[derive(Debug)]
pub struct Forms {
    key: [u8; 32],
    valid: Duration,
}

impl Forms {
    /// Generates a key; `None` if the system provides no randomness: then no form is accepted.
    pub fn new(valid: Duration) -> Option<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok()?;
        Some(Self { key, valid })
    }

    /// Appends the hidden field of a form on the page of this request.
    pub fn push_field(&self, output: &mut Vec<u8>, form: &Form, request: &PageRequest) {
        let grant = Grant {
            form: form.clone(),
            page: request.path.clone(),
            until_unix: unix_now() + self.valid.as_secs(),
        };
        output.extend_from_slice(b"<input type=\"hidden\" name=\"");
        output.extend_from_slice(FIELD.as_bytes());
        output.extend_from_slice(b"\" value=\"");
        push_escaped(output, &self.sign(&grant, request.session.name()));
        output.extend_from_slice(b"\">");
    }

    /// Removes the hidden field from the form in the request, and returns its action.
    pub fn take(&self, request: &mut PageRequest) -> Result<Form, FormError> {
        let field = request.form.remove(FIELD).ok_or(FormError::Missing)?;
        let (text, signature) = field.split_once('.').ok_or(FormError::Foreign)?;
        let session = request.session.known().ok_or(FormError::Foreign)?;
        let signature = BASE64.decode(signature).map_err(|_| FormError::Foreign)?;
        self.mac(text, session)
            .verify_slice(&signature)
            .map_err(|_| FormError::Foreign)?;
        let grant = BASE64.decode(text).ok();
        let grant = grant.and_then(|json| serde_json::from_slice::<Grant>(&json).ok());
        let grant = grant
            .filter(|grant| grant.page == request.path)
            .ok_or(FormError::Foreign)?;
        if grant.until_unix < unix_now() {
            return Err(FormError::Old);
        }
        Ok(grant.form)
    }

    fn sign(&self, grant: &Grant, session: &str) -> String {
        // Plain data can always be serialised.
        let text = BASE64.encode(serde_json::to_vec(grant).unwrap_or_default());
        let signature = self.mac(&text, session).finalize().into_bytes();
        format!("{text}.{}", BASE64.encode(signature))
    }

    /// Base64 holds no NUL, so text and session cannot run into each other.
    fn mac(&self, text: &str, session: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.key).unwrap_or_else(|_| {
            unreachable!("HMAC takes keys of any length");
        });
        mac.update(text.as_bytes());
        mac.update(b"\0");
        mac.update(session.as_bytes());
        mac
    }
}

fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::BrowserSession;

    fn request(path: &str, session: Option<&str>, field: Option<String>) -> PageRequest {
        PageRequest {
            path: path.to_owned(),
            session: BrowserSession::of(session.map(str::to_owned).as_ref()),
            form: field
                .into_iter()
                .map(|field| (FIELD.to_owned(), field))
                .collect(),
            ..PageRequest::default()
        }
    }

    fn field_of(forms: &Forms, form: &Form, page: &PageRequest) -> String {
        let mut html = Vec::new();
        forms.push_field(&mut html, form, page);
        let html = String::from_utf8(html).expect("text");
        html.split("value=\"")
            .nth(1)
            .expect("a value")
            .trim_end_matches("\">")
            .to_owned()
    }

    #[test]
    fn a_form_is_taken_from_its_browser_and_page_only() {
        let forms = Forms::new(Duration::from_mins(1)).expect("randomness");
        let form = Form {
            action: FormAction::Publish("a/b".to_owned()),
            then: Some("/thanks".to_owned()),
        };
        let page = request("/book", None, None);
        let field = field_of(&forms, &form, &page);
        let session = page.session.new_name().expect("a session").to_owned();
        let take = |path, session, field: &str| {
            forms.take(&mut request(path, session, Some(field.to_owned())))
        };
        assert_eq!(take("/book", Some(&session), &field), Ok(form));
        assert_eq!(
            take("/other", Some(&session), &field),
            Err(FormError::Foreign)
        );
        assert_eq!(take("/book", None, &field), Err(FormError::Foreign));
        let other = "0".repeat(32);
        assert_eq!(take("/book", Some(&other), &field), Err(FormError::Foreign));
        // One character changed anywhere.
        for place in 0..field.len() {
            let mut changed = field.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            let last = place + 1 == field.len();
            let taken = take("/book", Some(&session), &changed);
            assert!(taken.is_err(), "{place} {last} {changed}");
        }
        let none = forms.take(&mut request("/book", Some(&session), None));
        assert_eq!(none, Err(FormError::Missing));
    }

    #[test]
    fn an_old_form_is_reported_as_such() {
        let forms = Forms {
            key: [1; 32],
            valid: Duration::ZERO,
        };
        let session = "1".repeat(32);
        let grant = Grant {
            form: Form {
                action: FormAction::Show,
                then: None,
            },
            page: "/a".to_owned(),
            until_unix: unix_now() - 1,
        };
        let field = forms.sign(&grant, &session);
        let taken = forms.take(&mut request("/a", Some(&session), Some(field)));
        assert_eq!(taken, Err(FormError::Old));
    }
}
