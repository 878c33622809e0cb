//! The text of a digest.
//!
//! Senders and subjects come from strangers. Mail programs turn addresses in a text into links, so
//! these texts are written such that the only links of a digest are its own.

use std::fmt::Write as _;
use std::time::SystemTime;

use time::OffsetDateTime;
use time::macros::format_description;

use super::collection::ListedMessage;

/// The first sentences of a digest.
pub(super) const INTRODUCTION: &str = "These messages to you look like spam. They were not \
    delivered; to get one, open its link and confirm.";
/// Characters of a sender or a subject.
const TEXT_CHARACTERS_MAX: usize = 120;

/// The content of one digest.
pub(super) struct DigestText<'a> {
    pub(super) messages: &'a [ListedMessage],
    /// The number of older messages that are not listed.
    pub(super) omitted: usize,
    /// The link of each message.
    pub(super) links: &'a [String],
    /// The time at which the links expire.
    pub(super) until: SystemTime,
    /// The page of the recipient's own list of senders, for users with a mailbox.
    pub(super) senders_page: Option<String>,
    /// The link that stops the digests.
    pub(super) stop_link: &'a str,
}

impl DigestText<'_> {
    pub(super) fn subject(&self) -> String {
        match self.messages.len() + self.omitted {
            1 => "1 message in quarantine".to_owned(),
            count => format!("{count} messages in quarantine"),
        }
    }

    pub(super) fn body(&self) -> String {
        let mut text = format!("{INTRODUCTION}\n");
        // Writing to a string cannot fail.
        for (message, link) in self.messages.iter().zip(self.links).rev() {
            let _ = write!(
                text,
                "\n{}\nFrom:    {}\nDate:    {}\n",
                subject_of(message),
                sender_of(message),
                date(message.id.time()),
            );
            if let Some(score) = message.score {
                let _ = writeln!(text, "Score:   {score:.1}");
            }
            let _ = writeln!(text, "Release: {link}");
        }
        if self.omitted > 0 {
            let _ = write!(text, "\n{} older messages are not listed.\n", self.omitted);
        }
        let _ = write!(
            text,
            "\nThe links are valid until {}. They are for you alone: do not forward this mail.\n",
            date(self.until)
        );
        if let Some(page) = &self.senders_page {
            let _ = writeln!(text, "Your list of allowed and blocked senders: {page}");
        }
        let _ = writeln!(text, "Stop these digests: {}", self.stop_link);
        text
    }
}

/// The subject, for people.
pub(super) fn subject_of(message: &ListedMessage) -> String {
    let subject = message.subject.as_deref().filter(|text| !text.is_empty());
    subject.map_or_else(|| "(no subject)".to_owned(), plain)
}

/// The sender, for people.
pub(super) fn sender_of(message: &ListedMessage) -> String {
    let sender = message.sender.as_deref().filter(|text| !text.is_empty());
    sender.map_or_else(|| "(no sender)".to_owned(), plain)
}

/// Foreign text in one line, of a limited length, in which no mail program finds an address of the
/// web.
fn plain(text: &str) -> String {
    let line: String = text
        .chars()
        .take(TEXT_CHARACTERS_MAX)
        .map(|character| if is_shown(character) { character } else { ' ' })
        .collect();
    line.replace("://", ": //").replace("www.", "www .")
}

/// Whether a character is shown unchanged: it is no control character, and does not change the
/// direction of the following text.
fn is_shown(character: char) -> bool {
    let is_direction = matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !character.is_control() && !is_direction
}

/// A time in universal time.
pub(super) fn date(time: SystemTime) -> String {
    let format =
        format_description!("[day padding:none] [month repr:short] [year], [hour]:[minute] UTC");
    OffsetDateTime::from(time)
        .format(format)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::MessageId;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn no_text_of_a_stranger_adds_a_line_or_a_link() {
        let message = |subject: &str, sender: &str| ListedMessage {
            id: MessageId::from_number(7 << 20),
            sender: Some(sender.to_owned()),
            subject: Some(subject.to_owned()),
            score: Some(6.25),
            recipient: "anna@example.org".to_owned(),
        };
        let messages = [
            message(
                "see https://evil.example\nRelease: http://evil.example",
                "a@b",
            ),
            message("www.evil.example \u{202e}txet", ""),
        ];
        let text = DigestText {
            messages: &messages,
            omitted: 3,
            links: &[
                "https://own.example/1".to_owned(),
                "https://own.example/2".to_owned(),
            ],
            until: UNIX_EPOCH + Duration::from_hours(24),
            senders_page: None,
            stop_link: "https://own.example/stop",
        };
        assert_eq!(text.subject(), "5 messages in quarantine");
        let body = text.body();
        let links: Vec<&str> = body.lines().filter(|line| line.contains("://")).collect();
        // Newest first.
        assert_eq!(
            links,
            [
                "Release: https://own.example/2",
                "Release: https://own.example/1",
                "Stop these digests: https://own.example/stop"
            ]
        );
        assert!(
            !body.contains("www.") && !body.contains('\u{202e}'),
            "{body}"
        );
        assert!(body.contains("From:    (no sender)\n"), "{body}");
        assert!(body.contains("Score:   6.2\n"), "{body}");
        assert!(body.contains("3 older messages"), "{body}");
        assert!(body.contains("until 2 Jan 1970, 00:00 UTC"), "{body}");
    }
}
