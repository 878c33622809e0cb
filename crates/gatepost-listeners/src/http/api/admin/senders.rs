//! `/admin/senders`: senders whose mail passes regardless of the rules' score and of the
//! quarantine.

use gatepost_operations::Operations;
use serde_json::json;

use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// The longest address of a mailbox (RFC 5321, section 4.5.3.1.3, without the angle brackets).
const ADDRESS_CHARACTERS_MAX: usize = 254;

/// `/admin/senders`, `/admin/senders/ADDRESS`
pub(super) async fn respond(
    operations: &Operations,
    request: &HttpRequest,
    address: &str,
) -> Result<HttpResponse, HttpError> {
    if address.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        let senders = operations.allowed_senders();
        return Ok(HttpResponse::json(200, &json!({ "senders": senders })));
    }
    expect_method(request, &["PUT", "DELETE"], "PUT, DELETE")?;
    let adds = request.method() == "PUT";
    if adds && !is_address(address) {
        return Err(HttpError::Parameter {
            name: "address",
            detail: "write an address, as in anna@example.org".to_owned(),
        });
    }
    operations.allow_sender(address.to_owned(), adds).await?;
    Ok(HttpResponse::empty(204))
}

fn is_address(text: &str) -> bool {
    let is_plain = |character: char| !character.is_whitespace() && !character.is_control();
    text.chars().count() <= ADDRESS_CHARACTERS_MAX
        && text.chars().all(is_plain)
        && text
            .rsplit_once('@')
            .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn an_address_has_two_parts_and_no_space() {
        assert!(is_address("anna@example.org"));
        for text in [
            "anna",
            "@example.org",
            "anna@",
            "a b@example.org",
            "a\r\n@b",
        ] {
            assert!(!is_address(text), "{text}");
        }
    }
}
