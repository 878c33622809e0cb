//! Login and logout of browsers: `/gatepost/login`, `/gatepost/logout` and `/gatepost/session`.
//!
//! A login with the form begins a session, which the cookie of `login_cookie.rs` identifies.
//! Programs need neither: they send `Authorization`, and get a challenge if it is missing.
//!
//! Invariants:
//! - A session begins only with a correct password or token, and always gets a new token: a cookie
//!   from before the login identifies no session afterwards.
//! - The forms are accepted from this server's own pages only, and lead to its own paths only.

use std::fmt::Write as _;
use std::sync::Arc;

use gatepost_operations::AdminChange;
use gatepost_users::{Credentials, Identity, ListenerAuth, LoginRefusal, Secret};
use serde_json::json;

use super::login_page::{self, LoginForm};
use super::{digest, release};
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::login_cookie;
use crate::http::origin;
use crate::http::request::{HttpRequest, expect_method, parse_form};
use crate::http::response::HttpResponse;

const LOGIN: &str = "/gatepost/login";
const LOGOUT: &str = "/gatepost/logout";
/// The maximum size of a form's body, which is read before its sender is known.
const FORM_BYTES_MAX: u64 = 8 << 10;
/// Longer addresses are not returned to after a login.
const NEXT_BYTES_MAX: usize = 2_048;
/// A browser asks for a password by itself if a challenge names Basic, and ignores a scheme that it
/// does not know.
const COOKIE_CHALLENGE: &str = "Cookie realm=\"Gatepost\"";

/// Whether the path takes a form that needs no login.
pub(in crate::http) fn takes_form(path: &str) -> bool {
    matches!(path, LOGIN | LOGOUT | digest::PATH | release::PATH)
}

/// Refuses a form that is too long before it is read.
pub(in crate::http) fn check_length(
    request: &HttpRequest,
    has_body: bool,
) -> Result<(), HttpError> {
    let stated = request.field("content-length");
    match stated.map_or(Some(0), |length| length.trim().parse::<u64>().ok()) {
        _ if !has_body => Ok(()),
        Some(0) | None => Err(HttpError::Framing("this form needs a Content-Length")),
        Some(length) if length > FORM_BYTES_MAX => Err(HttpError::BodyTooLarge(FORM_BYTES_MAX)),
        Some(_) => Ok(()),
    }
}

/// The page with the form, and the form itself.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
    let Some(auth) = context.auth.clone() else {
        return Ok(see_other("/"));
    };
    if request.method() == "POST" {
        return log_in(context, request, &auth).await;
    }
    access::identify_if_given(context, request).await?;
    let next = request.query_value("next");
    let next = next.as_deref().and_then(own_address).unwrap_or("/");
    Ok(match request.user() {
        Some(user) => login_page::logged_in(user, request.session.is_some(), next),
        None if !auth.any_user() => login_page::no_user(),
        None => login_page::form(&form(request, next)),
    })
}

fn form<'a>(request: &HttpRequest, next: &'a str) -> LoginForm<'a> {
    LoginForm {
        next,
        user: "",
        refusal: None,
        is_exposed: !request.secure && !access::is_local(request),
    }
}

async fn log_in(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    auth: &ListenerAuth,
) -> Result<HttpResponse, HttpError> {
    origin::expect_own_page(request)?;
    let kind = request.field("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(HttpError::MediaType("application/x-www-form-urlencoded"));
    }
    let (mut user, mut password, mut next) = (String::new(), Secret::new(""), String::new());
    for (name, value) in parse_form(&String::from_utf8_lossy(&request.body)) {
        match name.as_str() {
            "user" => user = value.trim().to_owned(),
            "password" => password = Secret::new(value),
            "next" => next = value,
            _ => {}
        }
    }
    let next = own_address(&next).unwrap_or("/");
    let credentials = Credentials::Password {
        user: user.clone(),
        password,
    };
    let identity = match access::authenticate(auth, request, credentials).await {
        Ok(identity) => identity,
        Err(denied) => return Ok(refused(request, &user, next, denied)),
    };
    if identity.user().is_none() {
        // While there is no user, no login is needed.
        return Ok(see_other(next));
    }
    let users = auth.users();
    for earlier in login_cookie::tokens(request) {
        users.end_session(&earlier);
    }
    let token = users.begin_session(&identity);
    audit(context, request, &identity, "login").await;
    Ok(see_other(next).with("Set-Cookie", login_cookie::begun(request, &token)))
}

/// The form again, with the reason and the status of the refusal.
fn refused(request: &HttpRequest, user: &str, next: &str, denied: LoginRefusal) -> HttpResponse {
    let text = match &denied {
        LoginRefusal::Anonymous | LoginRefusal::Credentials => {
            "The name or the password is wrong.".to_owned()
        }
        denied => {
            let text = denied.to_string();
            let mut letters = text.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).chain(['.']).collect()
        }
    };
    let error = HttpError::Denied(denied);
    let mut page = login_page::form(&LoginForm {
        user,
        refusal: Some(&text),
        ..form(request, next)
    });
    page.status = error.row().status;
    for (name, value) in error.response().fields {
        match &*name {
            "WWW-Authenticate" => page.field(name, COOKIE_CHALLENGE),
            "Retry-After" => page.field(name, value),
            _ => {}
        }
    }
    page
}

/// Ends the browser's session, and with it the streams and WebSockets that it has open.
pub(in crate::http) async fn log_out(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["POST"], "POST")?;
    origin::expect_own_page(request)?;
    if access::identify_by_cookie(context, request)
        && let (Some(auth), Some(token), Some(identity)) =
            (&context.auth, &request.session, &request.identity)
    {
        auth.users().end_session(token);
        audit(context, request, identity, "logout").await;
    }
    Ok(see_other(LOGIN).with("Set-Cookie", login_cookie::none(request)))
}

/// The user of the request, for scripts of pages; a missing login is no error.
pub(in crate::http) async fn session(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    match access::identify(context, request).await {
        Ok(()) | Err(HttpError::Denied(LoginRefusal::Anonymous) | HttpError::NoUserYet) => {}
        Err(error) => return Err(error),
    }
    let is_admin = request.identity.is_some() && access::expect_admin(context, request).is_ok();
    let answer = json!({
        "user": request.user(),
        "admin": is_admin || context.auth.is_none(),
        "can_log_out": request.session.is_some(),
    });
    Ok(HttpResponse::json(200, &answer))
}

/// The way to the login page, for a browser whose request needs a login and had none. It leads back
/// afterwards.
pub(super) fn redirect(
    context: &HttpContext,
    request: &HttpRequest,
    error: &HttpError,
) -> Option<HttpResponse> {
    let is_read = matches!(request.method(), "GET" | "HEAD");
    let needs_login = matches!(error, HttpError::Denied(LoginRefusal::Anonymous));
    if !is_read || !needs_login || context.auth.is_none() || access::has_credentials(request) {
        return None;
    }
    let next = own_address(request.target()).unwrap_or("/");
    let mut place = format!("{LOGIN}?next=");
    for byte in next.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            place.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(place, "%{byte:02X}");
        }
    }
    Some(see_other(&place))
}

/// Replaces the challenge of Basic where a page that was loaded after a login would make the
/// browser ask for a password: the page itself leads to the login page.
pub(in crate::http) fn replace_challenge(request: &HttpRequest, response: &mut HttpResponse) {
    let is_challenge = |name: &str| name.eq_ignore_ascii_case("www-authenticate");
    let Some(field) = response.fields.iter_mut().find(|one| is_challenge(&one.0)) else {
        return;
    };
    if login_cookie::is_present(request) && !access::has_credentials(request) {
        field.1 = COOKIE_CHALLENGE.into();
    }
}

/// An address of this server, as a path with query and fragment; `None` for any other text: an
/// address of another server, also in the forms that browsers accept (`//host`, `/\host`).
fn own_address(text: &str) -> Option<&str> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_path = text.starts_with('/') && !text.starts_with("//");
    (is_plain && is_path && text.len() <= NEXT_BYTES_MAX).then_some(text)
}

fn see_other(place: &str) -> HttpResponse {
    HttpResponse::empty(303)
        .with("Location", place.to_owned())
        .with("Cache-Control", "no-store")
}

async fn audit(context: &HttpContext, request: &HttpRequest, identity: &Identity, action: &str) {
    let Some(operations) = &context.services.operations else {
        return;
    };
    let change = AdminChange {
        user: identity.user().map(str::to_owned),
        peer: request.peer,
        action: action.to_owned(),
        details: json!({}),
    };
    operations.audit(change).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_returns_to_paths_of_this_server_only() {
        for address in ["/", "/dashboard", "/a?b=c&d=//e#quarantine/1", "/%2F/x"] {
            assert_eq!(own_address(address), Some(address));
        }
        for address in [
            "",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "evil.example",
            " /a",
            "/a\r\nSet-Cookie: x=y",
            "/ä",
        ] {
            assert_eq!(own_address(address), None, "{address:?}");
        }
        assert_eq!(
            own_address(&format!("/{}", "a".repeat(NEXT_BYTES_MAX))),
            None
        );
    }
}
