//! The decision whether a visitor may read a path of the site (`pages.access`).
//!
//! Every response with content of the site comes from an entry of its cache, and each entry has the
//! rules of the file that it was read from. Answers from memory are for entries without rules only.

use gatepost_pages::{CachedPath, PathAccess, ReaderRule, Readers};
use gatepost_users::{Access, Identity};

use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::http::stream_rights::is_admin;

/// A browser keeps the content, and asks each time whether it may still be shown; other caches keep
/// nothing.
const PRIVATE: &str = "private, no-cache";

/// Refuses visitors who may not read a path with these rules; determines the user if there are any.
pub(super) async fn expect(
    context: &HttpContext,
    request: &mut HttpRequest,
    rules: &PathAccess,
) -> Result<(), HttpError> {
    if rules.is_open() || context.auth.is_none() {
        return Ok(());
    }
    access::identify(context, request).await?;
    if may_read(context, request, rules) {
        Ok(())
    } else {
        Err(access::forbidden(request.identity.as_ref()))
    }
}

/// Whether the visitor, as far as the user is determined, may read a path with these rules.
pub(super) fn may_read(context: &HttpContext, request: &HttpRequest, rules: &PathAccess) -> bool {
    if rules.is_open() || context.auth.is_none() {
        return true;
    }
    request.identity.as_ref().is_some_and(|identity| {
        is_admin(identity, access::is_local(request))
            || rules.rules().iter().all(|rule| is_reader(identity, rule))
    })
}

fn is_reader(identity: &Identity, rule: &ReaderRule) -> bool {
    let topic = rule.topic.as_str();
    // A token that was restricted to some topics is not one for pages.
    let is_whole = || identity.token_permits(Access::Subscribe, topic);
    match &rule.readers {
        Readers::Everyone => true,
        Readers::Login => identity.user().is_some() && is_whole(),
        Readers::Users(names) => identity.is_one_of(names) && is_whole(),
        Readers::Rules => identity.may(Access::Subscribe, topic).is_allowed(),
    }
}

/// The rules for the request's path, at which there is nothing.
pub(super) fn of_missing(context: &HttpContext, request: &HttpRequest) -> PathAccess {
    let host = request.field("host").map(str::as_bytes);
    context.pages.site(host).access_of_missing(&request.path)
}

/// The response with the content of an entry, kept out of shared caches unless every visitor may
/// read it.
pub(super) fn guarded(entry: &CachedPath, mut response: HttpResponse) -> HttpResponse {
    if !entry.access.is_open() {
        make_private(&mut response);
    }
    response
}

/// Keeps the response out of shared caches, whatever the page itself permits.
fn make_private(response: &mut HttpResponse) {
    let is_caching = |name: &str| name.eq_ignore_ascii_case("cache-control");
    let is_private = |value: &str| {
        let mut directives = value.split(',').map(str::trim);
        directives.any(|directive| matches!(directive, "private" | "no-store"))
    };
    let mut fields = response.fields.iter();
    if fields.any(|(name, value)| is_caching(name) && is_private(value)) {
        response
            .fields
            .retain(|(name, value)| !is_caching(name) || is_private(value));
        return;
    }
    response.fields.retain(|(name, _)| !is_caching(name));
    response.field("Cache-Control", PRIVATE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_stricter_rule_replaces_the_caching_of_a_kept_page() {
        for (set, expected) in [
            (&[][..], PRIVATE),
            (&["public, max-age=60"], PRIVATE),
            (&["no-cache"], PRIVATE),
            (&["no-store"], "no-store"),
            (&["private=\"set-cookie\", max-age=60"], PRIVATE),
            (&["private, max-age=60", "public"], "private, max-age=60"),
        ] {
            let mut response = HttpResponse::empty(200);
            for value in set {
                response.field("cache-control", *value);
            }
            make_private(&mut response);
            let fields: Vec<_> = response.fields.iter().map(|(_, value)| &**value).collect();
            assert_eq!(fields, [expected], "{set:?}");
        }
    }
}
