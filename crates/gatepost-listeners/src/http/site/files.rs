//! Lookup of a path of the site: files, pages and forms.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_pages::forms::FormError;
use gatepost_pages::{CachedPath, Conditions, Encoding, PathContent, Selection, StaticFile};

use super::lookup::{load, own_path};
use super::representation::{HTML, coding_fields, file_fields};
use super::{forms, pages, readers};
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::HttpRequest;
use crate::http::response::{HttpResponse, ResponseBody};

/// Answers with the file or page at the request's path; `None` if there is none. A form is handled
/// by the page that it was sent to; other POST requests are not.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
) -> Result<Option<HttpResponse>, HttpError> {
    let is_form = request.method() == "POST";
    if is_form && !forms::is_form(request) {
        return Ok(None);
    }
    let path = request.path.clone();
    let Some(entry) = load(context, request, &path).await else {
        return Ok(None);
    };
    readers::expect(context, request, &entry.access).await?;
    let response = content(context, request, &entry, is_form).await?;
    Ok(response.map(|response| readers::guarded(&entry, response)))
}

/// The response with the content of a path, to a visitor who may read it.
async fn content(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
    entry: &Arc<CachedPath>,
    is_form: bool,
) -> Result<Option<HttpResponse>, HttpError> {
    Ok(match &entry.content {
        PathContent::Page(_) if is_form => {
            Some(forms::respond(context, request, Arc::clone(entry)).await?)
        }
        // It has no form of this server.
        PathContent::File(file) if is_form && file.is_page() => {
            return Err(FormError::Missing.into());
        }
        _ if is_form => None,
        PathContent::Page(_) => Some(pages::respond(context, request, Arc::clone(entry)).await?),
        PathContent::File(file) => Some(file_response(request, file, entry).await?),
        PathContent::Listing(html) => Some(listing(html)),
        PathContent::Folder => Some(with_slash(request)),
    })
}

/// The reason why an authenticated request has no response: its path does not exist, or supports
/// other methods only. Visitors who may not read the path do not learn which.
pub(in crate::http) async fn refusal(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> HttpError {
    let path = request.path.clone();
    let entry = load(context, request, &path).await;
    let access = match &entry {
        Some(entry) => entry.access.clone(),
        None => readers::of_missing(context, request),
    };
    if !readers::may_read(context, request, &access) {
        return access::forbidden(request.identity.as_ref());
    }
    let allow = match entry.map(|entry| is_page(&entry)) {
        None => return HttpError::NotFound(path),
        Some(true) => "GET, HEAD, POST",
        Some(false) => "GET, HEAD",
    };
    if matches!(request.method(), "GET" | "HEAD") {
        return HttpError::NotFound(path);
    }
    HttpError::Method { path, allow }
}

fn is_page(entry: &CachedPath) -> bool {
    matches!(entry.content, PathContent::Page(_))
}

fn listing(html: &Bytes) -> HttpResponse {
    let mut response = HttpResponse::empty(200)
        .with("Content-Type", HTML)
        .with("Cache-Control", "no-cache");
    response.body = ResponseBody::Pieces(vec![html.clone()]);
    response
}

/// Redirects to a folder's own address.
fn with_slash(request: &HttpRequest) -> HttpResponse {
    let query = if request.query.is_empty() { "" } else { "?" };
    let location = format!("{}/{query}{}", own_path(request), request.query);
    HttpResponse::empty(301).with("Location", location)
}

async fn file_response(
    request: &HttpRequest,
    original: &StaticFile,
    entry: &Arc<CachedPath>,
) -> Result<HttpResponse, HttpError> {
    let accept = request.field("accept-encoding").map(str::as_bytes);
    let (encoding, file) = original.choose(accept);
    let (status, range) = selected(request, file)?;
    if let Some(content) = &file.content {
        let end = (range.end as usize).min(content.len());
        let start = (range.start as usize).min(end);
        let body = ResponseBody::Pieces(vec![content.slice(start..end)]);
        return Ok(answer((original, file, encoding), (status, range), body));
    }
    if status == 304 {
        let none = ResponseBody::Pieces(Vec::new());
        return Ok(answer((original, file, encoding), (status, range), none));
    }
    let opening = Arc::clone(entry);
    let opened = tokio::task::spawn_blocking(move || opening.open(encoding)).await;
    let opened = opened.ok().flatten();
    let opened = opened.ok_or_else(|| HttpError::NotFound(request.path.clone()))?;
    let (file, (status, range)) = match &opened.changed {
        // The conditions are about the content that is sent.
        Some(changed) => (changed, selected(request, changed)?),
        None => (file, (status, range)),
    };
    let body = ResponseBody::File {
        file: opened.file,
        start: range.start,
        length: range.end - range.start,
    };
    Ok(answer((original, file, encoding), (status, range), body))
}

/// A file with a page as the response for an error; `None` if it is not in memory.
pub(super) fn error_page(
    request: &HttpRequest,
    original: &StaticFile,
    status: u16,
) -> Option<HttpResponse> {
    let accept = request.field("accept-encoding").map(str::as_bytes);
    let (encoding, file) = original.choose(accept);
    let mut response = HttpResponse::empty(status)
        .with("Content-Type", HTML)
        .with("Cache-Control", "no-cache");
    for (name, value) in coding_fields(original, encoding) {
        response.field(name, value);
    }
    response.body = ResponseBody::Pieces(vec![file.content.clone()?]);
    Some(response)
}

/// The status and the range of the file that a request's conditions select.
fn selected(request: &HttpRequest, file: &StaticFile) -> Result<(u16, Range<u64>), HttpError> {
    let selection = file.select(&Conditions {
        if_match: request.field("if-match"),
        if_none_match: request.field("if-none-match"),
        if_modified_since: request.field("if-modified-since"),
        if_unmodified_since: request.field("if-unmodified-since"),
        if_range: request.field("if-range"),
        range: request.field("range"),
    });
    match selection {
        Selection::Whole => Ok((200, 0..file.length)),
        Selection::Part(range) => Ok((206, range)),
        Selection::NotModified => Ok((304, 0..0)),
        Selection::PreconditionFailed => Err(HttpError::PreconditionFailed),
        Selection::Unsatisfiable => Err(HttpError::Range(file.length)),
    }
}

/// The response with a file, or its variant in a coding.
fn answer(
    (original, file, encoding): (&StaticFile, &StaticFile, Option<Encoding>),
    (status, range): (u16, Range<u64>),
    body: ResponseBody,
) -> HttpResponse {
    let mut response = HttpResponse::empty(status);
    for (name, value) in file_fields(file) {
        response.field(name, value.to_owned());
    }
    for (name, value) in coding_fields(original, encoding) {
        response.field(name, value);
    }
    if status == 206 {
        let last = range.end.saturating_sub(1);
        response.field(
            "Content-Range",
            format!("bytes {}-{last}/{}", range.start, file.length),
        );
    }
    if status != 304 {
        response.body = body;
    }
    response
}
