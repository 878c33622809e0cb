//! A digest as HTML, beside its plain text.
//!
//! Mail programs remove scripts, forms and most style sheets, so the markup is simple and its
//! styles are attributes. Only buttons have colours, and both of theirs, so a mail program may show
//! the rest in the colours of its light or dark mode. Foreign text is written as in the plain text,
//! and escaped. The result is ASCII, which needs no encoding.

use std::fmt::Write as _;

use super::collection::ListedMessage;
use super::composition::{DigestText, INTRODUCTION, date, sender_of, subject_of};

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n\
    <meta name=\"supported-color-schemes\" content=\"light dark\">\n\
    <style>:root { color-scheme: light dark; }</style>\n";
const BODY: &str = "<body style=\"margin:0;padding:16px;font-family:system-ui,sans-serif;\
    font-size:16px;line-height:1.5\">\n<main style=\"max-width:640px\">\n";
const ITEM: &str = "<div style=\"border-top:1px solid #808080;padding:12px 0 16px\">\n\
    <h2 dir=\"auto\" style=\"font-size:16px;margin:0;overflow-wrap:anywhere\">";
const DETAILS: &str =
    "<p dir=\"auto\" style=\"margin:4px 0 12px;font-size:14px;overflow-wrap:anywhere\">";
const BUTTON: &str = "style=\"display:inline-block;padding:8px 20px;border-radius:6px;\
    background:#1a5fb4;color:#ffffff;font-weight:bold;text-decoration:none\"";
/// The colour of links that a mail program chooses may not suit its dark mode.
const LINK: &str = "style=\"color:inherit\"";
const SMALL: &str = "<p style=\"font-size:14px\">";

/// The whole document.
pub(super) fn write(digest: &DigestText<'_>) -> String {
    let title = escaped(&digest.subject());
    let introduction = escaped(INTRODUCTION);
    let mut html = format!(
        "{HEAD}<title>{title}</title>\n</head>\n{BODY}\
         <h1 style=\"font-size:20px;margin:0\">{title}</h1>\n<p>{introduction}</p>\n"
    );
    for (message, link) in digest.messages.iter().zip(digest.links).rev() {
        push_message(&mut html, message, link);
    }
    // Writing to a string cannot fail.
    if digest.omitted > 0 {
        let _ = writeln!(
            html,
            "<p>{} older messages are not listed.</p>",
            digest.omitted
        );
    }
    let until = escaped(&date(digest.until));
    let _ = writeln!(
        html,
        "{SMALL}The links are valid until {until}. They are for you alone: do not forward this \
         mail.</p>"
    );
    html.push_str(SMALL);
    if let Some(page) = &digest.senders_page {
        push_link(
            &mut html,
            page,
            LINK,
            "Your list of allowed and blocked senders",
        );
        html.push_str("<br>\n");
    }
    push_link(&mut html, digest.stop_link, LINK, "Stop these digests");
    html.push_str("</p>\n</main>\n</body>\n</html>\n");
    html
}

fn push_message(html: &mut String, message: &ListedMessage, link: &str) {
    let (subject, sender) = (escaped(&subject_of(message)), escaped(&sender_of(message)));
    let date = escaped(&date(message.id.time()));
    let _ = write!(html, "{ITEM}{subject}</h2>\n{DETAILS}{sender}<br>\n{date}");
    if let Some(score) = message.score {
        let _ = write!(html, ", score {score:.1}");
    }
    html.push_str("</p>\n");
    // Programs that read a page aloud list its links without their surroundings.
    let attributes = format!("{BUTTON} aria-label=\"Release: {subject}\"");
    push_link(html, link, &attributes, "Release");
    html.push_str("\n</div>\n");
}

fn push_link(html: &mut String, link: &str, attributes: &str, label: &str) {
    let link = escaped(link);
    let _ = write!(html, "<a href=\"{link}\" {attributes}>{label}</a>");
}

/// Text for elements and attributes: every character that might have a meaning in markup, or is
/// not ASCII, becomes a reference.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || " .,:;@/?=_+-()!*".contains(character) {
            escaped.push(character);
        } else {
            let _ = write!(escaped, "&#{};", u32::from(character));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::MessageId;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn no_text_of_a_stranger_becomes_markup_or_a_link() {
        let hostile =
            "</h2><a href='https://evil.example'>\"&amp;\u{202e}www.evil.example Gr\u{fc}n";
        let messages = [ListedMessage {
            id: MessageId::from_number(7 << 20),
            sender: Some(format!("{hostile}@far.example")),
            subject: Some(hostile.to_owned()),
            score: Some(6.25),
            recipient: "anna@example.org".to_owned(),
        }];
        let html = write(&DigestText {
            messages: &messages,
            omitted: 2,
            links: &["https://own.example/release?ticket=1&a=\"".to_owned()],
            until: UNIX_EPOCH + Duration::from_hours(24),
            senders_page: Some("https://own.example/senders".to_owned()),
            stop_link: "https://own.example/stop",
        });
        assert!(html.is_ascii(), "{html}");
        let tags = |name: &str| html.matches(&format!("<{name} ")).count();
        assert_eq!(
            (tags("a"), tags("h2"), html.matches("</h2>").count()),
            (3, 1, 1),
            "{html}"
        );
        assert!(
            !html.contains("https://evil") && !html.contains("www."),
            "{html}"
        );
        assert!(html.contains("ticket=1&#38;a=&#34;\""), "{html}");
        assert!(
            html.contains("Gr&#252;n") && !html.contains("&#8238;"),
            "{html}"
        );
        assert!(
            html.contains("score 6.2") && html.contains("2 older messages"),
            "{html}"
        );
    }
}
