//! Values of header fields: clients that can only send ASCII there write other text as encoded
//! words (RFC 2047), such as `=?UTF-8?B?8J+UpQ==?=`.

use gatepost_mail::{HeaderSelector, Mail};

/// The text of a value. As in ntfy, one without encoded words is taken as it is.
pub(super) fn decoded(value: &str) -> String {
    if !value.contains("=?") {
        return value.to_owned();
    }
    let field = ["Subject: ", value, "\r\n\r\n"].concat();
    let mail = Mail::parse(field.as_bytes());
    let text = mail.header(&HeaderSelector::parse("Subject"));
    let text = text.map(|text| String::from_utf8_lossy(&text).trim_end().to_owned());
    text.unwrap_or_else(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_words_are_decoded_and_other_text_stays() {
        for (value, expected) in [
            ("=?UTF-8?B?8J+UpQ==?= Fire", "\u{1f525} Fire"),
            ("=?utf-8?Q?T=C3=BCr?=", "Tür"),
            ("a =? b", "a =? b"),
            ("Tür", "Tür"),
            ("", ""),
        ] {
            assert_eq!(decoded(value), expected, "{value}");
        }
    }
}
