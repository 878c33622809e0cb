//! HTML escaping, equal to the template engine's, so both forms of a page give the same output.

/// Appends `text` with the special characters of HTML text and quoted attributes replaced by
/// character references.
pub fn push_escaped(output: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (position, byte) in bytes.iter().enumerate() {
        let reference: &[u8] = match byte {
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'&' => b"&amp;",
            b'"' => b"&quot;",
            b'\'' => b"&#x27;",
            b'/' => b"&#x2f;",
            _ => continue,
        };
        output.extend_from_slice(&bytes[copied..position]);
        output.extend_from_slice(reference);
        copied = position + 1;
    }
    output.extend_from_slice(&bytes[copied..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn escaping_equals_the_template_engines(text in "[<>&\"'/a-zé ]*") {
            let mut environment = minijinja::Environment::new();
            environment.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
            let expected = environment
                .render_str("{{ text }}", minijinja::context! { text })
                .expect("a template without faults");
            let mut output = Vec::new();
            push_escaped(&mut output, &text);
            prop_assert_eq!(String::from_utf8(output).expect("UTF-8"), expected);
        }
    }
}
