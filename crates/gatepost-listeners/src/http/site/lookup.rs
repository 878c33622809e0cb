//! From a request to the entry of the site that its path names.

use std::sync::Arc;

use gatepost_pages::CachedPath;

use crate::http::context::HttpContext;
use crate::http::request::HttpRequest;

/// The content of a path of the request's site.
pub(super) async fn load(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    path: &str,
) -> Option<Arc<CachedPath>> {
    let host = request.field("host").map(str::as_bytes);
    if let Some(entry) = context.pages.site(host).fresh(path) {
        return Some(entry);
    }
    let (context, path) = (Arc::clone(context), path.to_owned());
    let host = host.map(<[u8]>::to_vec);
    tokio::task::spawn_blocking(move || context.pages.site(host.as_deref()).load(&path))
        .await
        .ok()
        .flatten()
}

/// The path as sent, with its escapes. One that begins with two slashes would name another host.
pub(super) fn own_path(request: &HttpRequest) -> String {
    let path = request.target().split('?').next().unwrap_or_default();
    format!("/{}", path.trim_matches('/'))
}
