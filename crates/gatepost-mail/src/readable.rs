//! The readable content of a mail, for display and search: subject, sender, date and text.

use super::ascii::starts_with_ignore_case;
use super::{Mail, Visibility, body, line_ends};

impl Mail<'_> {
    /// The subject, decoded to UTF-8; empty if there is none.
    pub fn subject(&self) -> String {
        String::from_utf8_lossy(self.head().last(b"subject").unwrap_or_default()).into_owned()
    }

    /// The first address of `From:`.
    pub fn from_address(&self) -> Option<String> {
        self.first_of("From:addr")
            .map(|address| String::from_utf8_lossy(&address).into_owned())
    }

    /// All addresses of all `From:` fields.
    pub fn from_addresses(&self) -> Vec<String> {
        let addresses = self.values_of("From:addr").into_iter();
        addresses
            .map(|address| String::from_utf8_lossy(&address).into_owned())
            .collect()
    }

    /// The message id with its angle brackets.
    pub fn message_id(&self) -> Option<String> {
        self.head()
            .last(b"message-id")
            .map(|id| String::from_utf8_lossy(id).into_owned())
    }

    /// The original `Date:` field.
    pub fn date(&self) -> Option<String> {
        self.head()
            .last(b"date")
            .map(|date| String::from_utf8_lossy(date).into_owned())
    }

    /// The text that a reader sees: the `text/plain` parts if there are any, else the rendered
    /// HTML.
    pub fn readable_text(&self) -> String {
        self.bare_text().unwrap_or_else(|| self.text_of_parts())
    }

    /// The text of an ASCII mail without MIME fields: it needs no parsing.
    fn bare_text(&self) -> Option<String> {
        let head = self.head();
        let has_form = head
            .fields
            .iter()
            .any(|field| starts_with_ignore_case(field.name(), b"content-"));
        if has_form || !head.body.is_ascii() {
            return None;
        }
        let text = Vec::from(line_ends::normalised_body(head.body, head.crlf));
        let mut text = String::from_utf8(text).ok()?;
        text.truncate(text.trim_end().len());
        Some(text)
    }

    fn text_of_parts(&self) -> String {
        let leaves = || self.parts().leaves().zip(self.rendered());
        let is_attachment = |field: Option<&[u8]>| {
            field.is_some_and(|value| starts_with_ignore_case(value, b"attachment"))
        };
        let text_of = |html: bool| {
            let mut texts = Vec::new();
            for (part, rendered) in leaves() {
                let fits = rendered.is_some() == html
                    && !is_attachment(part.field(b"content-disposition"));
                if fits
                    && let Some(text) = body::part_text(
                        part,
                        rendered.as_ref(),
                        Visibility::Visible,
                        self.view_settings(),
                    )
                {
                    texts.push(text.into_text());
                }
            }
            texts
        };
        let plain = text_of(false);
        let texts = if plain.iter().any(|text| !text.trim().is_empty()) {
            plain
        } else {
            text_of(true)
        };
        texts
            .iter()
            .map(|text| text.trim_end())
            .collect::<Vec<_>>()
            .join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::Mail;
    use proptest::prelude::*;

    proptest! {
        /// The fast path for such a mail returns the same text as the general path.
        #[test]
        fn bare_text_is_the_text_of_the_parts(
            body in "([ -~]{0,12}(\r\n|\n|\r|\t| )){0,40}(\r?\n){0,30}[ -~]{0,9}",
            end in prop_oneof![Just("\r\n"), Just("\n")],
        ) {
            let message = format!("Subject: x{end}From: a@b{end}{end}{body}");
            let mail = Mail::parse(message.as_bytes());
            prop_assert_eq!(mail.bare_text(), Some(mail.text_of_parts()));
        }
    }

    #[test]
    fn mail_with_mime_fields_or_8_bit_text_is_parsed_completely() {
        for head in [
            "Content-Type: text/html",
            "content-transfer-encoding: base64",
        ] {
            let message = format!("{head}\r\n\r\nabc\r\n");
            assert_eq!(Mail::parse(message.as_bytes()).bare_text(), None, "{head}");
        }
        let umlaut = "Subject: x\r\n\r\nä\r\n".as_bytes();
        assert_eq!(Mail::parse(umlaut).bare_text(), None);
    }
}
