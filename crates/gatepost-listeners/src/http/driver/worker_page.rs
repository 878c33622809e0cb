//! Which requests are for pages that run code but do not read the request; `serve_worker_page.rs`
//! answers them.

use std::sync::Arc;

use gatepost_message::Peer;
use gatepost_pages::{Content, Entry, Needs, Page, Pieces};

use super::head::Head;
use crate::http::request::Request;

/// A request for such a page.
pub(super) struct WorkerPage {
    pub(super) request: Request,
    pub(super) entry: Arc<Entry>,
    pub(super) keep_alive: bool,
}

impl WorkerPage {
    /// The page of `entry`, if it is one of these and `head` is a plain GET for it.
    pub(super) fn of(peer: Peer, head: &Head<'_, '_>, entry: Arc<Entry>) -> Option<Self> {
        if head.method != "GET" || has_credentials(head) {
            return None;
        }
        let for_anyone = Needs {
            worker: true,
            request: false,
        };
        if pieces(&entry)?.needs() != for_anyone {
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
fn has_credentials(head: &Head<'_, '_>) -> bool {
    let names = |field: &httparse::Header<'_>| field.name.eq_ignore_ascii_case("authorization");
    head.fields.iter().any(names) || head.query.contains("auth=")
}

pub(super) fn pieces(entry: &Entry) -> Option<&Pieces> {
    match &entry.content {
        Content::Page(Page::Pieces(pieces)) => Some(pieces),
        _ => None,
    }
}
