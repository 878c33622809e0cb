//! The listing of a folder, as a page.

use crate::clock;
use crate::escape::push_escaped;
use crate::resolve::FileStamp;

const STYLE: &str = "<style>:root{color-scheme:light dark}body{font:1rem/1.6 system-ui,sans-serif;\
max-width:50rem;margin:2rem auto;padding:0 1rem}table{width:100%;border-collapse:collapse}\
td{padding:.1rem \
.5rem}td+td{text-align:right;opacity:.7;font-variant-numeric:tabular-nums}</style>";

/// The folder at `path`, which ends in a slash.
pub(crate) fn html(path: &str, names: &[(String, FileStamp)]) -> Vec<u8> {
    let mut html = Vec::with_capacity(1024 + names.len() * 100);
    let title = |html: &mut Vec<u8>| push_escaped(html, path);
    html.extend_from_slice(
        b"<!doctype html><html lang=en><meta charset=utf-8>\
        <meta name=viewport content=\"width=device-width\"><title>",
    );
    title(&mut html);
    html.extend_from_slice(b"</title>");
    html.extend_from_slice(STYLE.as_bytes());
    html.extend_from_slice(b"<h1>");
    title(&mut html);
    html.extend_from_slice(b"</h1><table>");
    if path != "/" {
        html.extend_from_slice(b"<tr><td><a href=\"../\">../</a><td><td>");
    }
    for (name, stamp) in names {
        html.extend_from_slice(b"\n<tr><td><a href=\"./");
        push_encoded(&mut html, name);
        html.extend_from_slice(b"\">");
        push_escaped(&mut html, name);
        html.extend_from_slice(b"</a><td>");
        html.extend_from_slice(clock::page_date(stamp.modified).as_bytes());
        html.extend_from_slice(b"<td>");
        if !name.ends_with('/') {
            html.extend_from_slice(stamp.length.to_string().as_bytes());
        }
    }
    html.extend_from_slice(b"\n</table></html>\n");
    html
}

/// A name as part of a URL.
fn push_encoded(html: &mut Vec<u8>, name: &str) {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            html.push(byte);
        } else {
            html.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn names_are_text_and_addresses() {
        let stamp = FileStamp {
            modified: SystemTime::UNIX_EPOCH,
            length: 5,
        };
        let html = html("/a/", &[("<b>\"?#é".to_owned(), stamp)]);
        let html = String::from_utf8(html).expect("text");
        assert!(
            html.contains("href=\"./%3Cb%3E%22%3F%23%C3%A9\">&lt;b&gt;"),
            "{html}"
        );
        assert!(html.contains("href=\"../\""));
    }
}
