//! A header field to be written: a name and a value that cannot add further fields or lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// RFC 5322, section 2.1.1: a line should not exceed this number of characters.
const LINE_CHARACTERS: usize = 78;
/// RFC 2047, section 2: an encoded word has at most 75 characters, and its line at most 76. The
/// delimiters take twelve of them, base64 makes four characters of three bytes, and the first word
/// follows the field's name.
const ENCODED_WORD_BYTES: usize = 39;

/// A header field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedField {
    name: String,
    value: String,
}

/// The text is not a valid field name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a name of a header field: letters, digits and punctuation without space and colon"
)]
pub struct MalformedField(pub String);

impl EditedField {
    /// Checks the name (RFC 5322, section 3.6.8). Control characters in the value, line ends
    /// included, become spaces.
    pub fn new(name: &str, value: &str) -> Result<Self, MalformedField> {
        let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(MalformedField(name.escape_debug().to_string()));
        }
        Ok(Self {
            name: name.to_owned(),
            value: value
                .replace(char::is_control, " ")
                .trim_matches(' ')
                .to_owned(),
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The decoded value, as one line of text.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The value as a mail contains it, on one line: text beyond ASCII as encoded words (RFC 2047).
    pub fn encoded_value(&self) -> String {
        if self.value.is_ascii() {
            return self.value.clone();
        }
        let mut words = Vec::new();
        let mut rest = self.value.as_str();
        while !rest.is_empty() {
            // An encoded word must end between characters, not within one (RFC 2047, section 5).
            let end = rest.floor_char_boundary(ENCODED_WORD_BYTES);
            let (word, remainder) = rest.split_at(end);
            words.push(format!("=?utf-8?B?{}?=", BASE64.encode(word)));
            rest = remainder;
        }
        words.join(" ")
    }

    /// The whole field, folded at spaces if it is long, with a line end after each line.
    pub fn write(&self, line_end: &[u8]) -> Vec<u8> {
        let mut output = format!("{}:", self.name).into_bytes();
        let mut column = output.len();
        for (number, word) in self.encoded_value().split(' ').enumerate() {
            // A fold before an empty word would make a line of spaces, which many parsers take for
            // the end of the header.
            if number > 0 && !word.is_empty() && column + 1 + word.len() > LINE_CHARACTERS {
                output.extend_from_slice(line_end);
                column = 0;
            }
            output.push(b' ');
            output.extend_from_slice(word.as_bytes());
            column += 1 + word.len();
        }
        output.extend_from_slice(line_end);
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &str) -> String {
        let field = EditedField::new("X-Test", value).expect("a field");
        String::from_utf8(field.write(b"\r\n")).expect("text")
    }

    #[test]
    fn names_are_checked_and_values_stay_one_line() {
        assert!(EditedField::new("X Test", "").is_err());
        assert!(EditedField::new("X:", "").is_err());
        assert!(EditedField::new("", "").is_err());
        assert_eq!(written("a\r\nBcc: b"), "X-Test: a  Bcc: b\r\n");
    }

    #[test]
    fn long_values_are_folded_and_foreign_letters_encoded() {
        let long = ["0123456789"; 12].join(" ");
        let lines = written(&long);
        assert!(lines.lines().all(|line| line.len() <= 78), "{lines}");
        assert_eq!(lines.replace("\r\n", ""), format!("X-Test: {long}"));
        assert_eq!(written("Grüße"), "X-Test: =?utf-8?B?R3LDvMOfZQ==?=\r\n");
        let much = written(&"ü".repeat(100));
        assert!(much.lines().all(|line| line.len() <= 78), "{much}");
    }
}
