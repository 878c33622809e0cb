//! `GET /file/ID.jpg`: the attachment of a message.
//!
//! As in ntfy, the link is all that a reader needs: its id cannot be guessed, and phones load it
//! without the login of a subscription. A file comes from a publisher, so no browser may run it:
//! its type is one of those that the server recognises, and its page has no rights.

use std::fmt::Write;

use gatepost_gateway::{KeptFile, attachment_id};

use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::{HttpResponse, ResponseBody};

/// Answers a request for an attachment; `None` if the path is not one of an attachment.
pub(in crate::http) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
) -> Option<Result<HttpResponse, HttpError>> {
    let id = attachment_id(request.path.strip_prefix("/file/")?)?;
    Some(serve(context, request, id).await)
}

async fn serve(
    context: &HttpContext,
    request: &HttpRequest,
    id: &str,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let gone = || HttpError::NotFound(request.path.clone());
    let attachments = context.services.gateway.attachments().ok_or_else(gone)?;
    let file = attachments.find(id).ok_or_else(gone)?;
    let (attachments, found) = (attachments.clone(), file.clone());
    let opened = tokio::task::spawn_blocking(move || attachments.open_file(&found)).await;
    let opened = opened.ok().and_then(Result::ok).ok_or_else(gone)?;
    let mut response = HttpResponse::empty(200)
        .with("Content-Type", file.content_type.clone())
        .with("Content-Disposition", disposition(&file))
        .with("Content-Security-Policy", "default-src 'none'; sandbox")
        .with("X-Content-Type-Options", "nosniff")
        .with("Cache-Control", "private, no-cache")
        .with("X-Robots-Tag", "noindex");
    response.body = ResponseBody::File {
        file: opened,
        start: 0,
        length: file.size,
    };
    Ok(response)
}

/// The name under which a browser saves the file: in ASCII, and encoded as RFC 8187 has it.
fn disposition(file: &KeptFile) -> String {
    let plain = |letter: char| match letter {
        ' ' | '-' | '_' | '.' => letter,
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '_',
    };
    let ascii: String = file.name.chars().map(plain).collect();
    let mut encoded = String::new();
    for byte in file.name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_parameter() {
        let file = |name: &str| KeptFile {
            id: String::new(),
            name: name.to_owned(),
            content_type: String::new(),
            path: String::new(),
            size: 0,
            expires_unix_s: 0,
        };
        assert_eq!(
            disposition(&file("a\"; x=\"b.html")),
            "attachment; filename=\"a__ x__b.html\"; filename*=UTF-8''a%22%3B%20x%3D%22b.html"
        );
        assert_eq!(
            disposition(&file("Tür.jpg")),
            "attachment; filename=\"T_r.jpg\"; filename*=UTF-8''T%C3%BCr.jpg"
        );
    }
}
