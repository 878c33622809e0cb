//! Whatever bytes a message has, all its views exist, and its plain ones keep what they must.

use gatepost_rules::mail::{HeaderSelector, Mail};
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
