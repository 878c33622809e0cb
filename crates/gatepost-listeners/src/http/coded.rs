//! Pages of which some part is code: their way from the read buffer to a page worker and back.
//!
//! Such a page whose code asks nothing of the request takes this way. Only the texts of its
//! insertion points cross the threads; they are put between the page's static bytes where the
//! connection is, in the worker's output, which leaves in one `writev`. What is out of the ordinary
//! (a procedure that sets the status, a page that failed) becomes a [`Response`] like any other.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use gatepost_message::Peer;
use gatepost_pages::{Content, Entry, Filled, Needs, Page, PageRequest, Pieces, takes_gzip};

use super::HttpContext;
use super::connection::{Connection, with_worker};
use super::exchange::After;
use super::head::{Framing, Head};
use super::log;
use super::output::Output;
use super::pages;
use super::quick;
use super::request::Request;
use super::response::Response;

/// A request for such a page.
pub(super) struct CodedPage {
    request: Request,
    entry: Arc<Entry>,
    keep_alive: bool,
}

impl CodedPage {
    /// The page that `head` asks for, if it is one of these.
    pub(super) fn of(context: &HttpContext, peer: Peer, head: &Head<'_, '_>) -> Option<Self> {
        let simple = context.quick
            && head.method == "GET"
            && head.framing == Framing::Length(0)
            && !head.upgrade
            && !head.expects_continue
            && !context.drain.is_draining()
            && !head.path.contains('%');
        if !simple || says_who(head) {
            return None;
        }
        let entry = context.pages.site(head.host).fresh(head.path)?;
        let for_anyone = Needs {
            worker: true,
            request: false,
        };
        if pieces(&entry)?.needs() != for_anyone {
            return None;
        }
        let request = Request::from_head(head, peer).ok()?;
        Some(Self {
            request,
            entry,
            keep_alive: head.keep_alive,
        })
    }
}

/// Whether the request names a user: then somebody must be asked first.
fn says_who(head: &Head<'_, '_>) -> bool {
    let names = |field: &httparse::Header<'_>| field.name.eq_ignore_ascii_case("authorization");
    head.fields.iter().any(names) || head.query.contains("auth=")
}

fn pieces(entry: &Entry) -> Option<&Pieces> {
    match &entry.content {
        Content::Page(Page::Pieces(pieces)) => Some(pieces),
        _ => None,
    }
}

impl Connection {
    /// Has the page made, and writes what the socket takes of it.
    pub(super) async fn serve_coded(&mut self, coded: CodedPage) -> io::Result<After> {
        let context = Arc::clone(&self.context);
        let CodedPage {
            mut request,
            entry,
            keep_alive,
        } = coded;
        let told = PageRequest {
            peer: Some(self.peer),
            ..PageRequest::default()
        };
        let filled = context.pages.fill(&entry, told).await;
        let keep_alive = keep_alive && !context.drain.is_draining();
        match (filled, pieces(&entry)) {
            (Ok(filled), Some(page)) if filled.is_ordinary() => {
                let written = poll_fn(|task| {
                    Poll::Ready(with_worker(|worker| {
                        let output = &mut worker.output;
                        self.push_coded(&request, page, &filled, keep_alive, output);
                        output.poll_write(&mut self.stream, task, &mut self.unsent)
                    }))
                });
                written.await?;
                self.orderly = !keep_alive && self.tail.is_empty();
                self.flush().await?;
                Ok(After::from_keep_alive(keep_alive))
            }
            (filled, page) => {
                request.secure = self.stream.tls().is_some();
                let response = match (filled, page) {
                    (Ok(filled), Some(page)) => unusual(&request, page, filled),
                    (Err(error), _) => {
                        let error = error.into();
                        let page = pages::error_page(&context, &request, &error).await;
                        page.unwrap_or_else(|| error.response())
                    }
                    (Ok(_), None) => Response::empty(404),
                };
                let response = super::routes::finished(&context, &request, response);
                self.answer_with(&request, response, keep_alive).await
            }
        }
    }

    fn push_coded(
        &self,
        request: &Request,
        page: &Pieces,
        filled: &Filled,
        keep_alive: bool,
        output: &mut Output,
    ) {
        let accept = request.field_bytes("accept-encoding").last();
        let with_gzip = page.is_compressed() && takes_gzip(accept);
        let mark = output.mark();
        page.render_filled(filled, with_gzip, output);
        let body_bytes = output.since(mark) as u64;
        let fields = quick::page_fields(page.is_compressed(), with_gzip);
        quick::push_head_before(&self.context, output, mark, fields, keep_alive);
        self.context.requests.count(200);
        log::coded(&self.context, &self.peer_text, request, body_bytes);
    }
}

/// The answer where a procedure said more than a text.
fn unusual(request: &Request, page: &Pieces, filled: Filled) -> Response {
    let accept = request.field("accept-encoding").map(str::as_bytes);
    pages::response_of(request, gatepost_pages::rendered(page, filled, accept), 200)
}
