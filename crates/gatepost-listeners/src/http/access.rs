//! Who asks, and whether it may.
//!
//! The users' room decides; a listener without a [`Door`] asks nobody. Pages and static files are
//! for everyone who reaches them; what they are given by their procedures is theirs to guard.

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use gatepost_message::{Peer, TopicFilter};
use gatepost_users::{Credentials, Denied, Identity};

use super::HttpContext;
use super::error::HttpError;
use super::request::Request;

/// Finds out who asks: from `Authorization`, from ntfy's `auth=`, or from the certificate of the
/// connection.
pub(super) async fn identify(
    context: &HttpContext,
    request: &mut Request,
) -> Result<(), HttpError> {
    let Some(door) = &context.door else {
        return Ok(());
    };
    let offered = request.field("authorization").map(str::to_owned);
    let offered = offered.or_else(|| ntfy_authorization(request));
    let credentials = match offered {
        None => match request.certified.clone() {
            Some(user) => Credentials::Certificate { user },
            None => Credentials::Anonymous,
        },
        Some(value) => Credentials::from_authorization(&value).ok_or(HttpError::Denied(
            Denied::Malformed("neither Basic nor Bearer"),
        ))?,
    };
    let identity = door.authenticate(credentials, request.peer, None).await;
    let identity = identity.map_err(|denied| match denied {
        // To ask for a login that nobody has would help nobody.
        Denied::Anonymous if !door.any_user() => HttpError::NoUserYet,
        denied => HttpError::Denied(denied),
    });
    request.identity = Some(identity?);
    Ok(())
}

/// The same for pages, which are for everyone: only who says who they are is asked to prove it.
pub(super) async fn identify_if_told(
    context: &HttpContext,
    request: &mut Request,
) -> Result<(), HttpError> {
    if request.field("authorization").is_none() && request.parameter("auth").is_none() {
        return Ok(());
    }
    identify(context, request).await
}

/// `?auth=`: what `Authorization` would hold, in base64 for URLs. For event sources, which cannot
/// set a header field.
fn ntfy_authorization(request: &Request) -> Option<String> {
    let value = request.parameter("auth")?;
    let decoded = URL_SAFE_NO_PAD
        .decode(&value)
        .or_else(|_| URL_SAFE.decode(&value));
    String::from_utf8(decoded.ok()?).ok()
}

/// Refuses whoever may not look at and change everything.
pub(super) fn expect_admin(context: &HttpContext, request: &Request) -> Result<(), HttpError> {
    let (Some(door), Some(identity)) = (&context.door, &request.identity) else {
        return Ok(());
    };
    let beside_us = match request.peer {
        Peer::Local => true,
        Peer::Address(address) => address.ip().to_canonical().is_loopback(),
    };
    let may = if beside_us && !door.any_user() {
        // A name in the world's DNS that leads to this machine must not let a web page in: its
        // requests would be of its own origin.
        request.field("host").is_none_or(names_this_machine)
    } else {
        identity.is_admin()
    };
    if may {
        Ok(())
    } else if door.any_user() {
        Err(forbidden(request.identity.as_ref()))
    } else {
        Err(HttpError::NoUserYet)
    }
}

/// Whether a `Host` field is an address or a local name: nobody else's DNS says where those lead.
fn names_this_machine(host: &str) -> bool {
    let name = if host.starts_with('[') {
        host.split_inclusive(']').next().unwrap_or(host)
    } else {
        host.rsplit_once(':').map_or(host, |(name, _)| name)
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    bare.parse::<std::net::IpAddr>().is_ok()
        || lower == "localhost"
        || lower.ends_with(".localhost")
        // A name without a dot is the local network's, not the world's.
        || !lower.contains('.')
}

/// Refuses a publication that the rules forbid.
pub(super) fn expect_publish(
    request: &Request,
    topic: &str,
    retain: bool,
) -> Result<(), HttpError> {
    let identity = request.identity.as_ref();
    if identity.is_none_or(|identity| identity.may_publish(topic, retain).is_allowed()) {
        Ok(())
    } else {
        Err(forbidden(identity))
    }
}

/// Refuses a subscription of which the rules forbid any part. The gateway's own topics tell of
/// everybody's messages: they are the administrators'.
pub(super) fn expect_subscribe(
    context: &HttpContext,
    request: &Request,
    filters: &[TopicFilter],
) -> Result<(), HttpError> {
    let Some(identity) = &request.identity else {
        return Ok(());
    };
    for filter in filters {
        if filter.as_str().starts_with("$SYS/gatepost/") {
            expect_admin(context, request)?;
        } else if !identity.may_subscribe(filter.as_str()).is_allowed() {
            return Err(forbidden(Some(identity)));
        }
    }
    Ok(())
}

/// 401 asks for a login, 403 says that this one does not do.
fn forbidden(identity: Option<&Identity>) -> HttpError {
    match identity.and_then(Identity::user) {
        None => HttpError::Denied(Denied::Anonymous),
        Some(user) => HttpError::Forbidden(user.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::names_this_machine;

    #[test]
    fn names_of_the_world_do_not_name_this_machine() {
        for host in [
            "127.0.0.1:8080",
            "[::1]:80",
            "localhost",
            "mill:8080",
            "a.localhost:1",
        ] {
            assert!(names_this_machine(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
        ] {
            assert!(!names_this_machine(host), "{host}");
        }
    }
}
