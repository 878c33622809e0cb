//! For any bytes of a message, all its views exist, and its plain views keep the required bytes.

use gatepost_mail::{HeaderSelector, Mail};
use proptest::prelude::*;

/// Pieces of which broken mail is made.
const PIECES: [&str; 40] = [
    "Content-Type: multipart/mixed; boundary=b\n",
    "Content-Type: text/html\n",
    "Content-Type: message/rfc822\n",
    "\n",
    "--b\n",
    "--b--\n",
    "Content-Transfer-Encoding: base64\n",
    "Content-Transfer-Encoding: quoted-printable\n",
    "Received: from a (b [1.2.3.4]) by c with SMTP id d; Thu, 22 Aug 2002 14:55:10 +0100\n",
    "From: \"a\" <b@c.d>, ",
    "To: (x) y@z.w\n",
    "Subject: =?utf-8?b?w6Q=?= =?x?q?=41?=\n",
    " ",
    "\t",
    "\r\n",
    "<a href='",
    "\">",
    "<font size=",
    "<!--",
    "-->",
    "<style>",
    "</p>",
    "&amp;",
    "&#x41;",
    "=3D",
    "=\n",
    "http://",
    "www.a.com",
    "@",
    ".com ",
    "%41",
    "(",
    ")",
    "[",
    "]",
    ";",
    "\u{e9}",
    "\0",
    "a",
    "charset=utf-16",
];

const HTML_PIECES: [&str; 32] = [
    "<a href=\"http://a.com/\">",
    "</a>",
    "<b>",
    "</b>",
    "<table><tr><td>",
    "</table>",
    "<img src=x width=1>",
    "<br>",
    "<p",
    ">",
    "<",
    "</",
    "<!",
    "<!--",
    "--",
    "-->",
    "<style>",
    "</style>",
    "<script>",
    "</script>",
    "<title>",
    "</title>",
    " style=\"color: #fff; font-size: 0\"",
    " color=red",
    "&lt;",
    "&#65",
    "&nbsp;",
    "&",
    "\"",
    "'",
    "text",
    "\u{4f60}",
];

const RECEIVED_PIECES: [&str; 30] = [
    "from ",
    "by ",
    "with ",
    "id ",
    "for ",
    "(",
    ")",
    "[",
    "]",
    "192.0.2.7",
    "2001:db8::7",
    "localhost",
    "mail.a.com",
    "unknown",
    "HELO ",
    "EHLO ",
    "helo=",
    "envelope-from ",
    "<a@b.com>",
    "Postfix",
    "Exim 4.94",
    "qmail",
    "ESMTPSA",
    "Microsoft SMTP Server",
    "; Sat, 21 Nov 2026 04:00:00 +0000",
    " ",
    "\t",
    "\n ",
    "@",
    "\u{e9}",
];

fn read_all(message: &[u8]) -> usize {
    let mail = Mail::parse(message);
    let views = [
        mail.body(),
        mail.visible_body(),
        mail.invisible_body(),
        mail.rawbody(),
        mail.uris(),
    ];
    let mut total = views.iter().map(|view| view.text().len()).sum::<usize>();
    for selector in [
        "ALL",
        "ALL:raw",
        "From:addr",
        "To:name",
        "From:addr:domain",
        "X-Spam-Relays-External",
        "EnvelopeFrom",
        "ALL-UNTRUSTED",
    ] {
        total += mail
            .header(&HeaderSelector::parse(selector))
            .map_or(0, |text| text.len());
    }
    total + mail.subject().len() + mail.readable_text().len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_have_views(message in proptest::collection::vec(any::<u8>(), 0..600)) {
        read_all(&message);
    }

    #[test]
    fn any_pieces_have_views(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let message: String = pieces.iter().map(|&piece| PIECES[piece]).collect();
        read_all(message.as_bytes());
    }

    #[test]
    fn any_html_has_views(pieces in proptest::collection::vec(0..HTML_PIECES.len(), 0..60)) {
        let html: String = pieces.iter().map(|&piece| HTML_PIECES[piece]).collect();
        let message = format!("Content-Type: text/html\n\n<p>before</p>{html}");
        read_all(message.as_bytes());
        let mail = Mail::parse(message.as_bytes());
        prop_assert!(String::from_utf8_lossy(mail.body().text()).contains("before"), "{html}");
    }

    #[test]
    fn any_received_field_is_read(
        fields in proptest::collection::vec(
            proptest::collection::vec(0..RECEIVED_PIECES.len(), 0..12),
            0..5,
        ),
    ) {
        let field = |pieces: &Vec<usize>| -> String {
            let words = pieces.iter().map(|&piece| RECEIVED_PIECES[piece]);
            ["Received: "].into_iter().chain(words).chain(["\n"]).collect()
        };
        let fields: String = fields.iter().map(field).collect();
        let message = format!("{fields}Subject: x\n\nx\n");
        let mail = Mail::parse(message.as_bytes());
        for name in ["X-Spam-Relays-Trusted", "X-Spam-Relays-Untrusted"] {
            let relays = mail.header(&HeaderSelector::parse(name)).unwrap_or_default();
            let relays = String::from_utf8_lossy(&relays).into_owned();
            // One relay a field at most, each with its address.
            let count = relays.matches("[ ip=").count();
            prop_assert!(count <= fields.lines().count(), "{fields}{relays}");
            prop_assert!(!relays.contains("[ ip= "), "{fields}{relays}");
        }
    }

    #[test]
    fn plain_words_are_kept(words in proptest::collection::vec("[a-z]{1,12}", 1..80)) {
        let message = format!("Subject: s\n\n{}\n", words.join(" "));
        let mail = Mail::parse(message.as_bytes());
        let text = String::from_utf8(mail.body().text().to_vec()).expect("the text is ASCII");
        let kept = text.strip_prefix("s\n").map(str::trim_end).map(str::to_owned);
        prop_assert_eq!(kept, Some(words.join(" ")));
        let raw = message.split_once("\n\n").map(|(_, body)| body.as_bytes());
        prop_assert_eq!(Some(mail.rawbody().text()), raw);
    }
}
