//! Pages and static files that memory alone cannot answer, and error pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_pages::{
    Conditions, Content, Entry, PageRequest, Rendered, Selection, Sink, StaticFile,
};

use super::HttpContext;
use super::error::HttpError;
use super::quick::file_fields;
use super::request::Request;
use super::response::{Body, Response};

/// What lies at the request's path; `None` where nothing does.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &Request,
) -> Result<Option<Response>, HttpError> {
    let Some(entry) = load(context, &request.path).await else {
        return Ok(None);
    };
    Ok(Some(match &entry.content {
        Content::Folder => {
            let query = if request.query.is_empty() { "" } else { "?" };
            // The target as sent keeps its escapes; only the slash is added.
            let path = request.target().split('?').next().unwrap_or_default();
            // A target that begins with two slashes would name another host.
            let location = format!("/{}/{query}{}", path.trim_matches('/'), request.query);
            Response::empty(301).with("Location", location)
        }
        Content::Page(_) => render(context, request, entry, 200).await?,
        Content::File(file) => file_response(context, request, file, &entry).await?,
    }))
}

async fn load(context: &Arc<HttpContext>, path: &str) -> Option<Arc<Entry>> {
    if let Some(entry) = context.pages.fresh(path) {
        return Some(entry);
    }
    let (context, path) = (Arc::clone(context), path.to_owned());
    tokio::task::spawn_blocking(move || context.pages.load(&path))
        .await
        .ok()
        .flatten()
}

async fn render(
    context: &Arc<HttpContext>,
    request: &Request,
    entry: Arc<Entry>,
    status: u16,
) -> Result<Response, HttpError> {
    let mut rendered = Rendered::default();
    let at_once = match &entry.content {
        Content::Page(page) => page.render_at_once(context.pages.values(), &mut rendered),
        _ => false,
    };
    if !at_once {
        rendered = context.pages.render(entry, page_request(request)).await?;
    }
    let mut response = Response::empty(status)
        .with("Content-Type", "text/html; charset=utf-8")
        .with("Cache-Control", "no-cache");
    response.body = Body::Pieces(rendered.pieces);
    Ok(response)
}

fn page_request(request: &Request) -> PageRequest {
    PageRequest {
        method: request.method().to_owned(),
        path: request.path.clone(),
        query: request.parameters().into_iter().collect(),
        headers: request
            .fields()
            .map(|(name, value)| (name, value.to_owned()))
            .collect::<BTreeMap<_, _>>(),
        user: request.user().map(str::to_owned),
    }
}

async fn file_response(
    context: &Arc<HttpContext>,
    request: &Request,
    file: &StaticFile,
    entry: &Arc<Entry>,
) -> Result<Response, HttpError> {
    let selection = file.select(&Conditions {
        if_match: request.field("if-match"),
        if_none_match: request.field("if-none-match"),
        if_modified_since: request.field("if-modified-since"),
        if_unmodified_since: request.field("if-unmodified-since"),
        if_range: request.field("if-range"),
        range: request.field("range"),
    });
    let (status, range) = match selection {
        Selection::Whole => (200, 0..file.length),
        Selection::Part(range) => (206, range),
        Selection::NotModified => (304, 0..0),
        Selection::PreconditionFailed => return Err(HttpError::PreconditionFailed),
        Selection::Unsatisfiable => return Err(HttpError::Range(file.length)),
    };
    let mut response = Response::empty(status);
    for (name, value) in owned_fields(file) {
        response.field(name, value);
    }
    if status == 304 {
        return Ok(response);
    }
    if status == 206 {
        let last = range.end.saturating_sub(1);
        response.field(
            "Content-Range",
            format!("bytes {}-{last}/{}", range.start, file.length),
        );
    }
    response.body = if let Some(content) = &file.content {
        let end = (range.end as usize).min(content.len());
        let start = (range.start as usize).min(end);
        Body::Pieces(vec![content.slice(start..end)])
    } else {
        let (context, entry) = (Arc::clone(context), Arc::clone(entry));
        let opened = tokio::task::spawn_blocking(move || context.pages.open(&entry)).await;
        let Ok(Some(opened)) = opened else {
            return Err(HttpError::NotFound(request.path.clone()));
        };
        Body::File {
            file: opened,
            start: range.start,
            length: range.end - range.start,
        }
    };
    Ok(response)
}

fn owned_fields(file: &StaticFile) -> impl Iterator<Item = (&'static str, String)> {
    const NAMES: [&str; 4] = ["Content-Type", "ETag", "Last-Modified", "Accept-Ranges"];
    let values = file_fields(file).map(|(_, value)| value.to_owned());
    NAMES.into_iter().zip(values)
}

/// The user's own page for an error (`404.html`), or ours, where the client is a browser; `None`
/// where JSON serves it better.
pub(super) async fn error_page(
    context: &Arc<HttpContext>,
    request: &Request,
    error: &HttpError,
) -> Option<Response> {
    let row = error.row();
    if !request.accepts("text/html") {
        return None;
    }
    let own = load(context, &format!("/{}.html", row.status)).await;
    if let Some(entry) = own
        && let Ok(response) = render(context, request, entry, row.status).await
    {
        return Some(response);
    }
    let mut page = Rendered::default();
    page.shared(&Bytes::from_static(ERROR_PAGE_START));
    page.text(|text| {
        text.extend_from_slice(
            format!(
                "<title>{0}</title><h1>{0} <small>{1}</small></h1><p>",
                row.text, row.status
            )
            .as_bytes(),
        );
        gatepost_pages::push_escaped(text, &error.to_string());
        text.extend_from_slice(b"</p>");
    });
    let mut response = error.response();
    response.fields.retain(|(name, _)| name != "Content-Type");
    response.field("Content-Type", "text/html; charset=utf-8");
    response.body = Body::Pieces(page.pieces);
    Some(response)
}

const ERROR_PAGE_START: &[u8] = b"<!doctype html><html lang=en><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width\"><style>:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:15vh auto;padding:0 1rem}\
small{opacity:.6}h1::first-letter{text-transform:uppercase}</style>";
