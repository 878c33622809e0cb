//! Peers that use another protocol on a listener whose protocol consists of lines.
//!
//! A web page can make a browser send a POST request to any port. The request's head gives errors,
//! but its body may hold commands of the listener's protocol. So a connection ends at the first
//! line that only an HTTP client sends, before any line of the body is executed.

use rustix::net::RecvFlags;

use crate::stream::Stream;

/// The methods of RFC 9110 and RFC 5789, and `PRI` of HTTP/2's preface (RFC 9113, section 3.4).
const HTTP_METHODS: [&[u8]; 10] = [
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH", b"PRI",
];

/// Whether a line is the request line of an HTTP request, or its `Host` field.
pub(crate) fn is_http(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let end = line.iter().position(|&byte| byte == b' ' || byte == b':');
    let Some((word, rest)) = end.and_then(|end| line.split_at_checked(end)) else {
        return false;
    };
    let is_field = rest.starts_with(b":");
    if is_field {
        return word.eq_ignore_ascii_case(b"Host");
    }
    let is_method = HTTP_METHODS
        .iter()
        .any(|method| word.eq_ignore_ascii_case(method));
    is_method || rest.windows(6).any(|bytes| bytes == b" HTTP/")
}

/// Whether a client has sent something before the server's greeting, although the server speaks
/// first. Such bytes come from a client that does not read the replies.
pub(crate) fn spoke_before_greeting(stream: &Stream) -> bool {
    let mut byte = [0];
    if stream.tls().is_some() && stream.try_read(&mut byte).is_ok_and(|count| count > 0) {
        return true;
    }
    // The kernel itself is queried: the reactor may not have seen the bytes yet.
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = rustix::net::recv(stream.descriptor(), &mut byte, flags);
    // The conversation detects the end of input itself.
    peeked.is_ok_and(|(_, count)| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_and_host_fields_are_http() {
        for line in [
            "GET / HTTP/1.1",
            "post /x HTTP/1.0",
            "OPTIONS * HTTP/1.1",
            "PRI * HTTP/2.0",
            "BREW /pot HTTP/1.1",
            "Host: 127.0.0.1:2525",
            "host:localhost",
        ] {
            assert!(is_http(line.as_bytes()), "{line}");
        }
        for line in [
            "EHLO host",
            "NOOP",
            "MAIL FROM:<a@b.c>",
            "RCPT TO:<get@b>",
            "USER get",
            "",
        ] {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }
}
