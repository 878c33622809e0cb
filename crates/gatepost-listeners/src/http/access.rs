//! Authentication and authorization of requests.
//!
//! [`gatepost_users`] decides; a listener without a `ListenerAuth` requires no login. Pages and
//! static files need no login, except those of `pages.access` (`site/readers.rs`).
//!
//! A browser that logged in at `/gatepost/login` sends a cookie with every request, also with those
//! that another page makes it send. The cookie therefore counts only for requests of this server's
//! own pages (`origin.rs`); any other request is served as if it had none.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use gatepost_message::{Peer, TopicFilter};
use gatepost_users::{Credentials, Identity, ListenerAuth, LoginRefusal};

use super::context::HttpContext;
use super::error::HttpError;
use super::host::names_this_machine;
use super::request::{HttpRequest, HttpVersion};
use super::stream_rights::{StreamRights, is_admin, is_internal};
use super::{login_cookie, origin};

/// The topics whose right to publish is the right to call the procedure of that path.
const CALL_TOPICS: &str = "$call";

/// Determines the user, once for each request: from `Authorization`, from ntfy's `auth=`, from the
/// cookie of a login, or from the certificate of the connection.
pub(super) async fn identify(
    context: &HttpContext,
    request: &mut HttpRequest,
) -> Result<(), HttpError> {
    let Some(auth) = &context.auth else {
        return Ok(());
    };
    if request.identity.is_some() {
        return Ok(());
    }
    let offered = offered(request);
    if offered.is_none() && identify_by_cookie(context, request) {
        return Ok(());
    }
    let credentials = match offered {
        None => match request.certified.clone() {
            Some(user) => Credentials::Certificate { user },
            None => Credentials::Anonymous,
        },
        Some(value) => Credentials::from_authorization(&value).ok_or(HttpError::Denied(
            LoginRefusal::Malformed("neither Basic nor Bearer"),
        ))?,
    };
    let identity = authenticate(auth, request, credentials).await;
    let identity = identity.map_err(|denied| match denied {
        // Requesting a login is useless if no user exists.
        LoginRefusal::Anonymous if !auth.any_user() => HttpError::NoUserYet,
        denied => HttpError::Denied(denied),
    });
    request.identity = Some(identity?);
    Ok(())
}

/// Authenticates the sender of a request by these credentials.
pub(super) async fn authenticate(
    auth: &ListenerAuth,
    request: &HttpRequest,
    credentials: Credentials,
) -> Result<Identity, LoginRefusal> {
    let auth = if is_local(request) {
        auth.for_account(request.peer, || request.account.clone())
    } else {
        Cow::Owned(auth.for_remote_peers())
    };
    auth.authenticate(credentials, request.peer, None).await
}

/// Determines the user from the cookie of a login alone; returns whether there is one.
pub(super) fn identify_by_cookie(context: &HttpContext, request: &mut HttpRequest) -> bool {
    let Some(auth) = &context.auth else {
        return false;
    };
    if !login_cookie::is_present(request) || !origin::is_of_own_page(request) {
        return false;
    }
    let users = auth.users();
    let found = login_cookie::tokens(request)
        .find_map(|token| users.session(&token).map(|identity| (token, identity)));
    let Some((token, identity)) = found else {
        return false;
    };
    request.identity = Some(identity);
    request.session = Some(token);
    true
}

/// Whether the request names credentials by itself, rather than by a cookie.
pub(super) fn has_credentials(request: &HttpRequest) -> bool {
    request.field("authorization").is_some() || request.query_value("auth").is_some()
}

/// The value of `Authorization`, or of the parameter that replaces it.
fn offered(request: &HttpRequest) -> Option<String> {
    let offered = request.field("authorization").map(str::to_owned);
    offered.or_else(|| ntfy_authorization(request))
}

/// The same for pages, which need no login: only credentials that were given are checked.
pub(super) async fn identify_if_given(
    context: &HttpContext,
    request: &mut HttpRequest,
) -> Result<(), HttpError> {
    if !has_credentials(request) {
        if !identify_by_cookie(context, request) && request.certified.is_some() {
            // A browser sends its certificate to every page: one of no user is no error here.
            let _ = identify(context, request).await;
        }
        return Ok(());
    }
    identify(context, request).await
}

/// `?auth=`: what `Authorization` would hold, in base64 for URLs. For event sources, which cannot
/// set a header field.
fn ntfy_authorization(request: &HttpRequest) -> Option<String> {
    let value = request.query_value("auth")?;
    let decoded = URL_SAFE_NO_PAD
        .decode(&value)
        .or_else(|_| URL_SAFE.decode(&value));
    String::from_utf8(decoded.ok()?).ok()
}

/// Whether a request certainly comes from a program on this machine that meant to send it here,
/// as far as the request shows; the account that it comes from is considered where it matters.
///
/// Such a request needs no login while there is no user, so everything that makes it doubtful
/// counts against it:
/// - the peer's address, which is the client's behind a trusted proxy;
/// - a forwarding header of a proxy that is not trusted, which names another client;
/// - HTTP/1.0, which clients no longer speak and proxies do by default;
/// - a `Host` that is not this machine's: a web page's own DNS name can point here.
pub(super) fn is_local(request: &HttpRequest) -> bool {
    let is_loopback = match request.peer {
        Peer::Local => true,
        Peer::Address(address) => address.ip().to_canonical().is_loopback(),
    };
    is_loopback
        && !request.is_forwarded
        && request.version != HttpVersion::Http10
        && request.field("host").is_none_or(names_this_machine)
}

/// Whether a request is local, and its connection is of an account that counts as such.
pub(super) fn acts_for_itself(context: &HttpContext, request: &HttpRequest) -> bool {
    let counts = |auth: &ListenerAuth| auth.users().counts_as_local(&request.account);
    is_local(request) && context.auth.as_ref().is_none_or(counts)
}

/// Refuses requests that do not come from an administrator, or, while there is no user, from this
/// machine.
pub(super) fn expect_admin(context: &HttpContext, request: &HttpRequest) -> Result<(), HttpError> {
    let (Some(auth), Some(identity)) = (&context.auth, &request.identity) else {
        return Ok(());
    };
    if is_admin(identity, is_local(request)) {
        Ok(())
    } else if auth.any_user() {
        Err(forbidden(request.identity.as_ref()))
    } else {
        Err(HttpError::NoUserYet)
    }
}

/// Refuses a publication that the rules forbid, and one to the server's own topics, as MQTT does
/// \[MQTT-4.7.2-1\].
pub(super) fn expect_publish(
    request: &HttpRequest,
    topic: &str,
    retain: bool,
) -> Result<(), HttpError> {
    if topic.starts_with('$') {
        return Err(HttpError::ServerTopic);
    }
    expect_permission(request, topic, retain)
}

fn expect_permission(request: &HttpRequest, topic: &str, retain: bool) -> Result<(), HttpError> {
    let identity = request.identity.as_ref();
    if identity.is_none_or(|identity| identity.may_publish(topic, retain).is_allowed()) {
        Ok(())
    } else {
        Err(forbidden(identity))
    }
}

/// Refuses a procedure call of a peer without the right to publish to the procedure's topic,
/// `$call/PROCEDURE`.
pub(super) fn expect_call(request: &HttpRequest, procedure: &str) -> Result<(), HttpError> {
    if request.identity.is_none() {
        return Ok(());
    }
    expect_permission(request, &format!("{CALL_TOPICS}/{procedure}"), false)
}

/// Refuses a subscription of which the rules forbid any part.
pub(super) fn expect_subscribe(
    context: &HttpContext,
    request: &HttpRequest,
    filters: &[TopicFilter],
) -> Result<(), HttpError> {
    let Some(identity) = &request.identity else {
        return Ok(());
    };
    for filter in filters {
        if is_internal(filter) {
            expect_admin(context, request)?;
        } else if !identity.may_subscribe(filter.as_str()).is_allowed() {
            return Err(forbidden(Some(identity)));
        }
    }
    Ok(())
}

/// 401 requests a login, 403 refuses the present one.
pub(super) fn forbidden(identity: Option<&Identity>) -> HttpError {
    match identity.and_then(Identity::user) {
        None => HttpError::Denied(LoginRefusal::Anonymous),
        Some(user) => HttpError::Forbidden(user.to_owned()),
    }
}

/// The time for which the stream of this permitted subscription may continue.
pub(super) fn stream_rights(request: &HttpRequest, filters: &[TopicFilter]) -> StreamRights {
    StreamRights::new(request.identity.clone(), filters, is_local(request))
}
