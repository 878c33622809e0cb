//! Detection of SMTP authentication in a `Received:` line.

use std::sync::LazyLock;

use crate::pattern::MailPattern;

struct AuthenticationPatterns {
    protocol: MailPattern,
    google: MailPattern,
    google_cipher: MailPattern,
    courier: MailPattern,
    sendmail: MailPattern,
    gmx: MailPattern,
    critical_path: MailPattern,
    postfix: MailPattern,
    via_http: MailPattern,
}

static PATTERNS: LazyLock<AuthenticationPatterns> = LazyLock::new(|| {
    let compile = |pattern: &str, flags: &str| {
        MailPattern::with_flags(pattern, flags)
            .unwrap_or_else(|error| unreachable!("built-in pattern: {error}"))
    };
    let ip = super::received_format::IP;
    AuthenticationPatterns {
        // RFC 3848 and 6531 protocol names that end in A, and those of web mail.
        protocol: compile(
            r" with ((?:ES|L|UTF8S|UTF8L)MTPS?A|ASMTP|HTTP[SU]?)(?:[ ;]|$)",
            "i",
        ),
        google: compile(
            concat!(
                r" by mx\.google\.com with ESMTPS id ",
                r"[a-z0-9]{1,4}sm[0-9]{2,9}[a-z]{3}\.[0-9]{1,3}\.[0-9]{4}(?:\.[0-6][0-9]){5}",
            ),
            "",
        ),
        google_cipher: compile(r"\(version=([^ ]+) cipher=([^)]+)\)", ""),
        courier: compile(
            r"^from .*?(?:\]\)|\)\]) \(AUTH: (LOGIN|PLAIN|DIGEST-MD5|CRAM-MD5) \S+(?:, .*?)?\) by ",
            "",
        ),
        sendmail: compile(
            r"^from .*?(?:\](?: \([^)]*\))?\)|\)\]) .*?\(.*?authenticated.*?\).*? by",
            "",
        ),
        gmx: compile(
            &[
                format!(r"from \S* \((?:HELO|EHLO) \S*\) \[(?i:{ip})\]"),
                r" by (mail\.gmx\.(?:net|com)) \([^)]+\) with (ESMTP|SMTP)".to_owned(),
            ]
            .concat(),
            "",
        ),
        critical_path: compile(
            r"\) by .+ \(\d{1,2}\.\d\.\d{3}(?:\.\d{1,3})?\) \(authenticated as .+\) id ",
            "",
        ),
        postfix: compile(
            r"\) \(Authenticated sender: \S+\) by \S+ \(([^)]+)\) with ",
            "",
        ),
        via_http: compile(r" \(via (HTTP.?)\)(?:[ ;]|$)", "i"),
    }
});

/// The method by which the sender was authenticated; empty if it was not.
pub(super) fn authentication(line: &str) -> String {
    let bytes = line.as_bytes();
    let patterns = &*PATTERNS;
    let group = |pattern: &MailPattern, index: usize| {
        pattern
            .group(bytes, index)
            .map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let by = line.contains(" by ");
    if by && let Some(protocol) = group(&patterns.protocol, 1) {
        return protocol;
    }
    if line.contains("mx.google.com")
        && patterns.google.is_match(bytes)
        && let (Some(version), Some(cipher)) = (
            group(&patterns.google_cipher, 1),
            group(&patterns.google_cipher, 2),
        )
    {
        return format!("GMail - transport={version} cipher={cipher}");
    }
    if line.contains("(AUTH: ")
        && let Some(method) = group(&patterns.courier, 1)
    {
        return method;
    }
    if line.contains("authenticated") && patterns.sendmail.is_match(bytes) {
        return "Sendmail".to_owned();
    }
    if line.contains("mail.gmx.")
        && let (Some(server), Some(protocol)) = (group(&patterns.gmx, 1), group(&patterns.gmx, 2))
    {
        return format!("GMX ({protocol} / {server})");
    }
    if line.contains(" (authenticated as ") && patterns.critical_path.is_match(bytes) {
        return "CriticalPath".to_owned();
    }
    if line.contains("(Authenticated sender: ")
        && let Some(server) = group(&patterns.postfix, 1)
    {
        return if server == "Postfix" {
            server
        } else {
            format!("Postfix ({server})")
        };
    }
    let communigate = ["HTTP", "SMTP", "XIMSS", "IMAP"]
        .iter()
        .any(|protocol| line.contains(&format!("CommuniGate Pro {protocol}")));
    if line.contains("CommuniGate Pro ") && communigate && line.contains(" (account ") {
        return "Communigate".to_owned();
    }
    if line
        .match_indices(" with Microsoft Exchange Server HTTP-DAV")
        .any(|(at, text)| {
            !line
                .as_bytes()
                .get(at + text.len())
                .copied()
                .is_some_and(crate::ascii::is_word)
        })
    {
        return "HTTP-DAV".to_owned();
    }
    if by && let Some(protocol) = group(&patterns.via_http, 1) {
        return protocol;
    }
    String::new()
}
