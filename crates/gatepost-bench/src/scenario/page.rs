//! The nine pages of the WEB benchmark: an insertion point at the top, the rest static.

/// Header bytes of the original's responses: its smallest page had 178 bytes in a response of 317.
const ORIGINAL_HEAD_BYTES: usize = 139;
/// The approximate length of time and date at the insertion point.
const VALUE_BYTES: usize = 25;

/// A page whose response had `size` bytes, header included, in the original. The text that the
/// server inserts, and its own header fields, may change the size by a few bytes.
pub(super) fn page(size: usize, insertion: &str) -> String {
    let before = "<html><head><title>Benchmark</title></head>\n<body>\n<p>The time is ";
    let after = "</p>\n";
    let end = "</body></html>\n";
    let fixed = before.len() + VALUE_BYTES + after.len() + end.len();
    let body_bytes = size.saturating_sub(ORIGINAL_HEAD_BYTES);
    let filler = body_bytes.saturating_sub(fixed);
    let line = "<p>Static text that fills the page to its size, line after line.</p>\n";
    let mut text = String::with_capacity(body_bytes + insertion.len());
    text.push_str(before);
    text.push_str(insertion);
    text.push_str(after);
    let full_length = text.len() + filler;
    while text.len() + line.len() <= full_length {
        text.push_str(line);
    }
    while text.len() < full_length {
        text.push('\n');
    }
    text.push_str(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_their_size_and_one_insertion_point() {
        for size in [317, 2_357, 204_317] {
            let text = page(size, "<value>");
            assert_eq!(
                text.len() - "<value>".len() + VALUE_BYTES,
                size - ORIGINAL_HEAD_BYTES
            );
            assert_eq!(text.matches("<value>").count(), 1);
        }
    }
}
