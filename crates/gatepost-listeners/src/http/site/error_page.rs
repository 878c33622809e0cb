//! Error pages: the operator's own (`404.html`), or a built-in one.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_pages::{PageError, PageOutput, PathContent, RenderedPage};

use super::lookup::load;
use super::pages::{page_request, render};
use super::representation::HTML;
use super::{files, login, readers};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::HttpRequest;
use crate::http::response::{HttpResponse, ResponseBody};

/// The operator's own page for an error (`404.html`), or the built-in one, if the client is a
/// browser; otherwise `None`, for JSON.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    error: &HttpError,
) -> Option<HttpResponse> {
    if !request.accepts("text/html") {
        return None;
    }
    let mut response = match own_error_page(context, request, error).await {
        Some(response) => response,
        None => match login::redirect(context, request, error) {
            Some(redirect) => return Some(redirect),
            None => built_in(error),
        },
    };
    // The fields of the error itself, for browsers too: Allow, Retry-After, a challenge.
    let own = error.response().fields.into_iter();
    for (name, value) in own.filter(|(name, _)| name != "Content-Type" && name != "Cache-Control") {
        response.field(name, value);
    }
    Some(response)
}

async fn own_error_page(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    error: &HttpError,
) -> Option<HttpResponse> {
    let row = error.row();
    let entry = load(context, request, &format!("/{}.html", row.status)).await?;
    if !readers::may_read(context, request, &entry.access) {
        return None;
    }
    match &entry.content {
        PathContent::Page(_) => {}
        PathContent::File(file) => {
            let page = files::error_page(request, file, row.status);
            return page.map(|page| readers::guarded(&entry, page));
        }
        _ => return None,
    }
    let mut page_request = page_request(request);
    page_request.error = Some(PageError {
        status: row.status,
        text: row.text.to_owned(),
        detail: error.to_string(),
        id: match error {
            HttpError::Internal(id) => id.clone(),
            _ => String::new(),
        },
    });
    let page = render(
        context,
        request,
        Arc::clone(&entry),
        page_request,
        row.status,
    );
    page.await.ok().map(|page| readers::guarded(&entry, page))
}

fn built_in(error: &HttpError) -> HttpResponse {
    let row = error.row();
    let mut page = RenderedPage::default();
    page.shared(&Bytes::from_static(ERROR_PAGE_START));
    page.text(|text| {
        let (what, status) = (row.text, row.status);
        let title = format!("<title>{what}</title><h1>{what} <small>{status}</small></h1><p>");
        text.extend_from_slice(title.as_bytes());
        gatepost_pages::push_escaped(text, &error.to_string());
        text.extend_from_slice(b"</p>");
        if matches!(error, HttpError::Forbidden(_)) {
            text.extend_from_slice(b"<p><a href=/gatepost/login>Log in as another user</a></p>");
        }
    });
    let mut response = HttpResponse::empty(row.status)
        .with("Content-Type", HTML)
        .with("Cache-Control", "no-store");
    response.body = ResponseBody::Pieces(page.pieces);
    response
}

const ERROR_PAGE_START: &[u8] = b"<!doctype html><html lang=en><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width\"><style>:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:15vh auto;padding:0 1rem}\
small{opacity:.6}h1::first-letter{text-transform:uppercase}</style>";
