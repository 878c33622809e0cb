//! Pages that run code: from the read buffer to a page worker and back.
//!
//! Pages whose code does not read the request are served here. Only the texts of their insertion
//! points pass between the threads. The connection's worker puts these texts between the page's
//! static bytes in its output, which is written with one `writev`. Everything else (a procedure
//! that sets the status, a page that failed) becomes a [`HttpResponse`] like any other.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use gatepost_pages::{InsertionTexts, PageRequest, PageSegments, takes_gzip};

use super::buffers::with_buffers;
use super::connection::Http1Connection;
use super::exchange::ConnectionUse;
use super::from_memory;
use super::output::Output;
use super::worker_page::{WorkerPage, pieces};
use crate::http::log;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::http::router;
use crate::http::site::representation::page_fields;
use crate::http::site::{error_page, pages};

impl Http1Connection {
    /// Has a worker make the page, and writes as much as the socket accepts.
    pub(super) async fn serve_worker_page(
        &mut self,
        page: WorkerPage,
    ) -> io::Result<ConnectionUse> {
        let context = Arc::clone(&self.context);
        let WorkerPage {
            mut request,
            entry,
            keep_alive,
        } = page;
        let page_request = PageRequest {
            peer: Some(self.peer),
            ..PageRequest::default()
        };
        let filled = context.pages.fill(&entry, page_request).await;
        let keep_alive = keep_alive && !context.drain.is_draining();
        match (filled, pieces(&entry)) {
            (Ok(filled), Some(page)) if filled.is_ordinary() => {
                let written = poll_fn(|task| {
                    Poll::Ready(with_buffers(|buffers| {
                        let output = &mut buffers.output;
                        self.push_page(&request, page, &filled, keep_alive, output);
                        output.poll_write(&mut self.stream, task, &mut self.unsent)
                    }))
                });
                written.await?;
                self.orderly = !keep_alive && self.tail.is_empty();
                self.flush().await?;
                Ok(ConnectionUse::from_keep_alive(keep_alive))
            }
            (filled, page) => {
                request.secure = self.stream.tls().is_some();
                let response = match (filled, page) {
                    (Ok(filled), Some(page)) => response_of(&request, page, filled),
                    (Err(error), _) => {
                        let error = error.into();
                        let page = error_page::respond(&context, &request, &error).await;
                        page.unwrap_or_else(|| error.response())
                    }
                    (Ok(_), None) => HttpResponse::empty(404),
                };
                let response = router::with_common_fields(&context, &request, response);
                self.answer_with(&request, response, keep_alive).await
            }
        }
    }

    fn push_page(
        &self,
        request: &HttpRequest,
        page: &PageSegments,
        filled: &InsertionTexts,
        keep_alive: bool,
        output: &mut Output,
    ) {
        let accept = request.field_bytes("accept-encoding").last();
        let with_gzip = page.is_compressed() && takes_gzip(accept);
        let mark = output.mark();
        page.render_filled(filled, with_gzip, output);
        let body_bytes = output.since(mark) as u64;
        let fields = page_fields(page.is_compressed(), with_gzip);
        from_memory::push_head_before(&self.context, output, mark, fields, keep_alive);
        self.context.requests.count(200);
        log::worker_page(&self.context, &self.peer_text, request, body_bytes);
    }
}

/// The response if a procedure set more than a text.
fn response_of(request: &HttpRequest, page: &PageSegments, filled: InsertionTexts) -> HttpResponse {
    let accept = request.field("accept-encoding").map(str::as_bytes);
    pages::response_of(request, gatepost_pages::rendered(page, filled, accept), 200)
}
