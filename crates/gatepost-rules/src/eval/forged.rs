//! HeaderEval: mail that falsely claims to come from a large provider.

use gatepost_mail::{has_ip, relay_text};

use super::ScannedMail;
use super::received::{gated_through_received_remover, one_line, received_on_one_line};
use super::{Entry, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_for_forged_hotmail_received_headers", |_| {
        plain(|mail| hotmail(mail) == HotmailResult::Forged)
    }),
    ("check_for_no_hotmail_received_headers", |_| {
        plain(|mail| hotmail(mail) == HotmailResult::NoReceived)
    }),
    ("check_for_forged_eudoramail_received_headers", |_| {
        plain(forged_eudoramail)
    }),
    ("check_for_forged_yahoo_received_headers", |_| {
        plain(forged_yahoo)
    }),
    ("check_for_forged_juno_received_headers", |_| {
        plain(forged_juno)
    }),
    ("check_for_forged_gmail_received_headers", |_| {
        plain(forged_gmail)
    }),
];

/// The result for a sender's address at Hotmail, according to the relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HotmailResult {
    Plausible,
    Forged,
    NoReceived,
}

const ADDRESS: &str = r"\d{1,3}(?:\.\d{1,3}){3}";

fn text(mail: &ScannedMail<'_>, name: &str) -> Vec<u8> {
    mail.header_text(name).unwrap_or_default().into_owned()
}

/// Whether the sender's address is at this domain.
fn is_from(mail: &ScannedMail<'_>, domain: &[u8]) -> bool {
    let from = text(mail, "From:addr").to_ascii_lowercase();
    from.strip_suffix(domain).is_some_and(|before| {
        !before
            .last()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    })
}

pattern!(
    HOTMAIL_PICKUP,
    r"from mail pickup service by hotmail\.com with Microsoft SMTPSVC;"
);
pattern!(
    HOTMAIL_WITH_IP,
    [
        r"from (?:\S*\.)?hotmail.com \(\S+\.hotmail(?:\.msn)?\.com[ )]".to_owned(),
        format!(r"from \S*\.hotmail.com \(\[{ADDRESS}\][ ):]"),
        r"from \S+ by \S+\.hotmail(?:\.msn)?\.com with HTTP;".to_owned(),
        r"from \[66\.218.\S+\] by \S+\.yahoo\.com".to_owned(),
    ]
    .join("|")
);
pattern!(
    OUTLOOK_WITH_ORGANISATION,
    [
        concat!(
            r"from \S*\.outbound\.protection\.outlook\.com ",
            r"\(\S+\.outbound\.protection\.outlook\.com[ )]",
        )
        .to_owned(),
        format!(r"from \S*\.(?:eur|nam)prd\d+\.prod\.outlook\.com \({ADDRESS}\)"),
    ]
    .join("|")
);
pattern!(HOTMAIL_CLAIM, r"(?:from |HELO |helo=)\S*hotmail\.com\b");
pattern!(MICROSOFT_ORGANISATION, r"hotmail\.com|msonline-outlook");

fn hotmail(mail: &ScannedMail<'_>) -> HotmailResult {
    let received = received_on_one_line(mail);
    if HOTMAIL_PICKUP.is_match(&received)
        || is_msn_group(mail)
        || gated_through_received_remover(mail)
    {
        return HotmailResult::Plausible;
    }
    let ip = has_ip(&text(mail, "X-Originating-Ip"));
    let organisation = MICROSOFT_ORGANISATION.is_match(&text(mail, "X-OriginatorOrg"));
    if ip && HOTMAIL_WITH_IP.is_match(&received)
        || organisation && OUTLOOK_WITH_ORGANISATION.is_match(&received)
    {
        return HotmailResult::Plausible;
    }
    if HOTMAIL_CLAIM.is_match(&received) {
        HotmailResult::Forged
    } else if is_from(mail, b"hotmail.com") {
        HotmailResult::NoReceived
    } else {
        HotmailResult::Plausible
    }
}

pattern!(GROUP_ADDRESS, r"<(\S+)@groups\.msn\.com>", "i");
pattern!(
    GROUP_PICKUP,
    r"from mail pickup service by (p\d\d\.groups\.msn\.com)\b"
);

/// Whether the mail comes from an MSN group.
pub(super) fn is_msn_group(mail: &ScannedMail<'_>) -> bool {
    let (to, received, id) = (
        text(mail, "To"),
        text(mail, "Received"),
        text(mail, "Message-Id"),
    );
    let (Some(list), Some(server)) = (
        GROUP_ADDRESS.group(&to, 1),
        GROUP_PICKUP.group(&received, 1),
    ) else {
        return false;
    };
    let Some(id) = id.strip_prefix(b"<") else {
        return false;
    };
    if list == b"notifications" {
        let end = [b"@", server, b">"].concat();
        return memchr::memmem::find(id, &end).is_some_and(|at| at > 0);
    }
    let end = memchr::memmem::find(id, b"@groups.msn.com>");
    let bounce = [list, b"-bounce@groups.msn.com"].concat();
    id.starts_with(&[list, b"-"].concat())
        && end.is_some_and(|end| end > list.len() + 1)
        && memchr::memmem::find(&text(mail, "EnvelopeFrom:addr"), &bounce).is_some()
}

pattern!(WHOWHERE, r"by \S*whowhere.com;");

fn forged_eudoramail(mail: &ScannedMail<'_>) -> bool {
    is_from(mail, b"eudoramail.com")
        && !gated_through_received_remover(mail)
        && !(WHOWHERE.is_match(&received_on_one_line(mail)) && has_ip(&text(mail, "X-Sender-Ip")))
}

pattern!(YAHOO_TRUSTED, r" rdns=\S+\.yahoo\.com ");
pattern!(YAHOO_FIRST_UNTRUSTED, r"^[^\]]+ rdns=\S+\.yahoo\.com ");
pattern!(
    YAHOO_HOP,
    [
        r"by web\S+\.mail\S*\.yahoo\.com via HTTP".to_owned(),
        r"by sonic\S+\.consmr\.mail\S*\.yahoo\.com with HTTP".to_owned(),
        r"by smtp\S+\.yahoo\.com with SMTP".to_owned(),
        format!(r"from \[{ADDRESS}\] by \S+\.(?:groups|scd|dcn)\.yahoo\.com with NNFMP"),
        r"by \w+\.\w+\.yahoo\.com \(\d+\.\d+\.\d+/\d+\.\d+\.\d+\)(?: with ESMTP)? id \w+"
            .to_owned(),
    ]
    .join("|")
);
pattern!(YAHOO_BULK, r"\bmailer\d+\.bulk\.scd\.yahoo\.com\b");

fn forged_yahoo(mail: &ScannedMail<'_>) -> bool {
    if !is_from(mail, b"yahoo.com") || gated_through_received_remover(mail) {
        return false;
    }
    let relays = mail.relays();
    if YAHOO_TRUSTED.is_match(relay_text(&relays.trusted).as_bytes())
        || YAHOO_FIRST_UNTRUSTED.is_match(relay_text(&relays.untrusted).as_bytes())
    {
        return false;
    }
    let mut received = received_on_one_line(mail);
    if !text(mail, "Resent-From").is_empty() && !text(mail, "Resent-To").is_empty() {
        let first = one_line(&text(mail, "X-Received"));
        if !first.is_empty() {
            received = first;
        }
    }
    let from = text(mail, "From:addr").to_ascii_lowercase();
    let is_bulk = from.ends_with(b"@reply.yahoo.com") && YAHOO_BULK.is_match(&received);
    !is_bulk && !YAHOO_HOP.is_match(&received)
}

pattern!(
    JUNO_HOP,
    format!(r"from.*\b(?:juno|untd)\.com.*[\[(]{ADDRESS}[\])].*by| cookie\.(?:juno|untd)\.com ")
);
fn forged_juno(mail: &ScannedMail<'_>) -> bool {
    if !is_from(mail, b"juno.com") || gated_through_received_remover(mail) {
        return false;
    }
    let (origin, mailer, received) = (
        text(mail, "X-Originating-IP"),
        text(mail, "X-Mailer"),
        text(mail, "Received"),
    );
    // Juno always records the origin of a message.
    origin.is_empty()
        || !JUNO_HOP.is_match(&received)
        || memchr::memmem::find(&mailer, b"Juno ").is_none()
}

pattern!(
    GMAIL_HOP,
    r"by 10\.\S+ with SMTP id \S+|by 2002:a\d\d:\w+:\S+ with SMTP id \S+"
);
pattern!(
    GMAIL_SUBMISSION,
    r"by smtp\.googlemail\.com with ESMTPSA id \S+"
);

/// The shortest values that Google writes into its two fields, in bytes.
const GOOGLE_VALUE_LENGTH_MIN: usize = 60;

fn forged_gmail(mail: &ScannedMail<'_>) -> bool {
    is_from(mail, b"gmail.com")
        && !GMAIL_HOP.is_match(&text(mail, "X-Received"))
        && !GMAIL_SUBMISSION.is_match(&text(mail, "Received"))
        && !["X-Gm-Message-State", "X-Google-Smtp-Source"]
            .iter()
            .all(|name| text(mail, name).len() >= GOOGLE_VALUE_LENGTH_MIN)
}
