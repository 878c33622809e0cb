//! Recognises requests for pages that run code but do not read the request; `serve_worker_page.rs`
//! answers them.

use std::sync::Arc;

use gatepost_message::Peer;
use gatepost_pages::{CachedPath, CompiledPage, PageNeeds, PageSegments, PathContent};

use super::head::RequestHead;
use crate::http::login_cookie;
use crate::http::request::HttpRequest;

/// A request for such a page.
pub(super) struct WorkerPage {
    pub(super) request: HttpRequest,
    pub(super) entry: Arc<CachedPath>,
    pub(super) keep_alive: bool,
}

impl WorkerPage {
    /// The page of `entry`, if a worker makes it without reading the request and `head` is a plain
    /// GET for it. `certified` returns whether the connection's certificate names a user.
    pub(super) fn of(
        peer: Peer,
        head: &RequestHead<'_, '_>,
        entry: Arc<CachedPath>,
        certified: impl FnOnce() -> bool,
    ) -> Option<Self> {
        if head.method != "GET" || has_credentials(head) {
            return None;
        }
        let for_anyone = PageNeeds {
            worker: true,
            request: false,
        };
        if pieces(&entry)?.needs() != for_anyone || certified() {
            return None;
        }
        let request = head.to_request(peer).ok()?;
        Some(Self {
            request,
            entry,
            keep_alive: head.keep_alive,
        })
    }
}

/// Whether the request has credentials, which must be checked first.
fn has_credentials(head: &RequestHead<'_, '_>) -> bool {
    let names = |field: &httparse::Header<'_>| {
        field.name.eq_ignore_ascii_case("authorization")
            || field.name.eq_ignore_ascii_case("cookie")
                && memchr::memmem::find(field.value, login_cookie::NAME.as_bytes()).is_some()
    };
    head.fields.iter().any(names) || head.query.contains("auth=")
}

pub(super) fn pieces(entry: &CachedPath) -> Option<&PageSegments> {
    match &entry.content {
        PathContent::Page(CompiledPage::Pieces(pieces)) => Some(pieces),
        _ => None,
    }
}
