//! The templates of `Received:` lines, grouped by the server software that writes them.

/// An address: IPv4, or any text in the form of IPv6 (its value is checked later).
pub(in crate::relay) const IP: &str = concat!(
    r"(?:\b(?<!:)(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d",
    r"|[1-9]?\d)){3}\b|(?:IPv6:|(?<![a-fA-F0-9:]))[a-fA-F0-9]{0,4}:[a-fA-F0-9:]*:[a-fA-F0-9:]*",
    r"(?:\d{1,3}(?:\.\d{1,3}){3})?(?![a-fA-F0-9:]))",
);

/// Names of the local machine.
pub(super) const LOCALHOST: &str = concat!(
    r"(?i:localhost(?:\.localdomain)?|\b(?<!:)127\.0\.0\.1\b|(?:IPv6:|(?<![a-f0-9:]))",
    r"(?:::ffff:127\.0\.0\.1|::1|(?:0{1,4}:){7}0{0,3}1)(?![a-f0-9:]))",
);

/// An additional action when a template matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateAction {
    None,
    /// The receiver looks up names.
    LookedUp,
    /// The receiver looks up names, and may write an ident response before the name.
    LookedUpWithIdent,
    /// The receiver looks up names, and writes `unknown` if there is none.
    LookedUpUnknown,
    /// The receiver looks up names, unless the name says that the lookup failed.
    LookedUpUnlessError,
    /// The receiver looks up names, unless the name is `UNKNOWN`.
    LookedUpUnlessUnknown,
    /// The id belongs to another server.
    NoId,
    /// XMail has its own notation of the id and envelope sender.
    XMail,
    Skip,
    Fetched,
    Scanner,
}

/// A template: a required text of the line, the template, and an additional action.
pub(super) type ReceivedTemplate = (&'static str, &'static str, TemplateAction);

use TemplateAction::{
    Fetched, LookedUp, LookedUpUnknown, LookedUpUnlessError, LookedUpUnlessUnknown,
    LookedUpWithIdent, NoId, Scanner, Skip, XMail,
};
const PLAIN: TemplateAction = TemplateAction::None;

/// Web mail that records the user's own machine.
pub(super) const WEB_MAIL: [ReceivedTemplate; 3] = [
    (
        " (SquirrelMail authenticated user ",
        r"{ip}(?![.-]).{10,80}by {by} with HTTP",
        PLAIN,
    ),
    (
        " (NaSMail authenticated user ",
        r"{ip}(?![.-]).{10,80}by {by} with HTTP",
        PLAIN,
    ),
    (
        "with HTTP (WebMailUI)",
        r"^(?=.*aol\.com).*?{ip} by {by} \({any_ip}\) with HTTP \(WebMailUI\)",
        PLAIN,
    ),
];

/// Servers whose lines contain their name. The first name in a line decides; only its templates
/// apply.
pub(super) const SERVERS: [(&str, &[ReceivedTemplate]); 8] = [
    (
        r" SMTPSVC",
        &[
            (
                "",
                r"^{helo?} \(\[{ip}\][^)]{0,40}\) by {by} with Microsoft SMTPSVC",
                PLAIN,
            ),
            (
                "",
                r"^mail pickup service by \S+ with Microsoft SMTPSVC$",
                Skip,
            ),
        ],
    ),
    (
        r" with (?:Microsoft SMTP Server|mapi id) (?:\([^)]+\) )?\d+\.\d+\.\d+\.\d+(?:$| )",
        &[(
            "",
            r"^{helo} \(\[?{ip}(?:%[A-Z0-9._~-]*)?\]?\) by {by} ",
            NoId,
        )],
    ),
    (
        r"\[XMail ",
        &[(
            "",
            r"^{helo} \(\[?{ip}\]?(?::\d+)\) by {by}(?: \(\S+\))? with \[XMail",
            XMail,
        )],
    ),
    (
        r"\(ecelerity\b",
        &[
            ("", r"^\(\[{ip}:\d+\] helo={helo}\) by {by} ", PLAIN),
            ("", r"^\S+ \(\[{ip}:\d+\]\) by {by} ", PLAIN),
        ],
    ),
    (
        r"Exim",
        &[
            ("", r"\bwith local(?:-\S+)? ", Skip),
            ("", r"^\[{ip}\] \({options}\) by {by} ", PLAIN),
            ("", r"^{both} \(\[{ip}\]{options}\) by {by} ", PLAIN),
            ("", r"^{both} \[{ip}\](?::\d+)? by {by} ", PLAIN),
        ],
    ),
    (
        r" \(Postfix\) with",
        &[
            ("", r"^{helo} \({rdns} \[{ip}\]\) by {by} ", LookedUpUnknown),
            ("", r"^{helo} \({rdns}\[{ip}\]\) by {by} ", LookedUpUnknown),
        ],
    ),
    (
        r"\(Scalix SMTP Relay",
        &[("", r"^{helo} \( ?{ip}\) by {by}", PLAIN)],
    ),
    (
        r" \(Lotus Domino ",
        &[("", r"^{helo} \(\[{ip}\]\) by {by} \(Lotus", PLAIN)],
    ),
];

/// Templates before qmail's, which needs more than a template.
pub(super) const BEFORE_QMAIL: [ReceivedTemplate; 10] = [
    (
        "with HTTP",
        r"^(?=.*\bwith HTTP\b){ip} \(\[{any_ip}\]\) by {by}",
        PLAIN,
    ),
    (
        "",
        r"^(?!.* by \S+ \(qmail-\S+\) with ){helo} \({rdns} \[{ip}\].*\) by {by} \(",
        LookedUpWithIdent,
    ),
    (
        "",
        r"^{helo} \({rdns} \[{ip}\]\) by {by} with \S+ \(",
        LookedUp,
    ),
    (
        "] helo=",
        r"^{rdns} \(\[{ip}\] helo={helo}\) by {by} with ",
        PLAIN,
    ),
    (
        "(<unknown",
        r"^{helo} \(<unknown\S*>\[{ip}\]\) by {by} ",
        PLAIN,
    ),
    (
        "",
        r"^{helo} \((?<rdns>\S+\.\S+)\[{ip}\]\) by {by} ",
        LookedUp,
    ),
    (
        "@[",
        r"^{helo} \({ident?}@\[{ip}\].*\) by {by} \(",
        LookedUp,
    ),
    (
        ".hotmail.msn.com ",
        r"^(?:{ip} )?.*?by (?<by>\S+\.hotmail\.msn\.com) ",
        PLAIN,
    ),
    (
        "qpsmtpd/",
        r"^{rdns} \((?:HELO|EHLO) {helo?}\) \({ip}\) by {by} \(qpsmtpd/\S+\) with (?:ESMTP|SMTP)",
        PLAIN,
    ),
    (
        "(LHLO ",
        r"^{rdns} \(LHLO {helo?}\) \({ip}\) by {by} with LMTP",
        PLAIN,
    ),
];

/// Two further ones that resemble qmail's.
pub(super) const LIKE_QMAIL: [ReceivedTemplate; 2] = [
    (
        "LO ",
        r"^{rdns} \((?:HELO|EHLO) {helo?}\) \[{ip}\] by {by} \([^)]+\) with (?:ESMTP|SMTP)",
        PLAIN,
    ),
    (
        "via smtpd (for ",
        r"^{helo} \(\[{ip}\]\) by {by} via smtpd \(for \S+\) with SMTP\(",
        PLAIN,
    ),
];
/// qmail, general form.
pub(super) const QMAIL_GUARD: &str = concat!(
    r"^\S+( \((?:HELO|EHLO) \S*\))? \((\S+@)?\[?{any_ip}\]?\)( \(envelope-sender <\S+>\))? by \S+",
    r"( \(.+\))* with (.* )?(SMTP|QMQP)(?! id )",
);
pub(super) const QMAIL: [ReceivedTemplate; 4] = [
    (
        "",
        concat!(
            r"^{rdns} \((?:HELO|EHLO) (?<helo>[^ ()]*)\) \({ident?}@\[?{ip}\]?\)",
            r"(?: \(envelope-sender <\S+>\))? by {by}",
        ),
        PLAIN,
    ),
    (
        "",
        concat!(
            r"^{rdns} \((?:HELO|EHLO) (?<helo>[^ ()]*)\) \(\[?{ip}\]?\)",
            r"(?: \(envelope-sender <\S+>\))? by {by}",
        ),
        PLAIN,
    ),
    (
        "",
        r"^{both} \({ident?}@\[?{ip}\]?\)(?: \(envelope-sender <\S+>\))? by {by}",
        PLAIN,
    ),
    (
        "",
        r"^{both} \(\[?{ip}\]?\)(?: \(envelope-sender <\S+>\))? by {by}",
        PLAIN,
    ),
];

/// All others.
pub(super) const OTHERS: [ReceivedTemplate; 61] = [
    (" via HTTP", r"^\[{ip}\] by {by} via HTTP$", PLAIN),
    ("( [", r"^\S+ \( \[{ip}\]\).*? by {by} ", PLAIN),
    ("", r"^\({helo} \[{ip}\]\) by {by} ", PLAIN),
    ("", r"^\[{ip}\] by {by} ", PLAIN),
    ("", r"^\(\[?{ip}\]?\) by {by} ", PLAIN),
    ("", r"^{helo} \[{ip}\] by {by} \[{any_ip}\] with ", LookedUp),
    ("[(", r"^{helo} \[\({ip}\)\] by {by} \({any_ip}\) ", PLAIN),
    ("", r"^{helo} \(\[{ip}\]\) by {by} \(", LookedUp),
    (
        "",
        r"^{helo} \({rdns} \[{ip}\]\).*? by {by}\b",
        LookedUpUnlessError,
    ),
    (
        "",
        r"^{helo} \(\[{ip}(?:[.:]\d+)?\]\).*? by {by} ",
        LookedUp,
    ),
    ("", r"with (?:POP3|IMAP)", Fetched),
    (
        "LO ",
        r"^{rdns} \((?:HELO|EHLO) (?<helo>[^)]*)\) \((?:{ident?}@)?\[?{ip}\]?\).* by {by} ",
        LookedUp,
    ),
    (
        "",
        r"^{both} \((?:{ident?}@)?\[?{ip}\]?\).* by {by} ",
        LookedUp,
    ),
    (" via smap ", r"^{rdns}\({ip}\) by {by} via smap ", LookedUp),
    (
        " via smap ",
        r"^{rdns}\({ip}, (?:HELO|EHLO) {helo?}\) by {by} via smap ",
        LookedUp,
    ),
    ("", r"^{ip} by {by} \((?:SMTPL|InterScan)\b", PLAIN),
    (" with BSMTP", r"^\S+ by \S+ with BSMTP", Skip),
    (
        "",
        r"^{rdns} \((?:HELO|EHLO) {helo?}\) \((?:{ident}@)?{ip}.*?\) by {by} with ",
        LookedUp,
    ),
    (
        "",
        r"^\[{ip}\] \((?:account \S+ )?(?:HELO|EHLO) {helo?}\) by {by} \(",
        PLAIN,
    ),
    (
        " (CommuniGate Pro",
        r"^{both} \(\[{ip}\] verified\) by {by} \(",
        LookedUp,
    ),
    ("", r"^(?<helo>[^\d]\S+) \({ip}\) by {by} ", PLAIN),
    (
        "(Content Technologies ",
        r"^\S+ \(\S+\) by \S+ \(Content Technologies ",
        Skip,
    ),
    ("] [", r"^{helo} \(\[{ip}\] \[\S+\]\) by {by} with ", PLAIN),
    ("", r"^{ip} by {by} with ", PLAIN),
    ("", r"^{helo} \({rdns}\[{ip}\]\) by {by} ", LookedUp),
    (
        "",
        r"^\[{ip}\]\S+ \((?:HELO|EHLO) {helo?}\) by {by} ",
        PLAIN,
    ),
    ("", r"^{ip} \((?:HELO|EHLO) {helo?}\) by {by} ", PLAIN),
    ("", r"^{helo} \[{ip}\] by {by} ", PLAIN),
    ("", r"^{rdns}\({ip}\) by {by} ", PLAIN),
    (
        "(unverified [",
        r"^{helo} \(unverified \[{ip}\]\) by {by} ",
        PLAIN,
    ),
    ("", r"^{ip} \([A-Za-z][^)]+\) by {by} with ", PLAIN),
    ("", r"^\[{ip}\] \((?<options>[^)]+)\) by {by} ", PLAIN),
    ("", r"^{rdns} \((?:\S+@)?{ip}\) by {by} with ", PLAIN),
    (
        " via ",
        r#"^{rdns}\({ip}\)(?:, claiming to be "{helo}")? via \S+ by {by},"#,
        LookedUpUnlessUnknown,
    ),
    (
        " with login)",
        r"^{helo} \(\S+@{ip} with login\) by (?<by>\S+\.yahoo\.com) with SMTP",
        PLAIN,
    ),
    (
        "X-Originating-IP: ",
        r"^X-Originating-IP: {ip}$(?<by>)",
        PLAIN,
    ),
    ("", r"^\S+ \([^\s@]+@LOCALHOST\) by \S+ \(", Skip),
    ("local-", r"^\S+ \S+ by \S+ with local-e?smtp ", Skip),
    ("AVG SMTP", r"^127\.0\.0\.1 \(AVG SMTP \S+ \[\S+\]\)", Skip),
    ("@", r"^\S+@\S+ by \S+ ", Skip),
    ("", r"^Unknown/Local \(", Skip),
    ("", r"^LOCALHOST \((?:\S+@)?LOCALHOST[)\[]", Skip),
    ("", r"^\S+ \((?:\S+@)?LOCALHOST\) ", Skip),
    ("", r"^\S+ \(\S+@\S+ \[LOCALHOST\]\) ", Skip),
    ("(AUTH: ", r"^\(AUTH: \S+\) by \S+ with ", Skip),
    (
        "[[UNIX: ",
        r"^localhost \(localhost \[\[UNIX: localhost\]\]\) by ",
        Skip,
    ),
    (
        ".amazon.com ",
        r"^\S+\.amazon\.com by \S+\.amazon\.com with ESMTP \(peer crosscheck: ",
        Skip,
    ),
    (
        "Novell_GroupWise",
        r"^[^.]+ by \S+ with Novell_GroupWise",
        Skip,
    ),
    ("", r"^no\.name\.available by \S+ via smtpd \(for ", Skip),
    (
        ") with qmail-scanner",
        r"^\S+ by \S+ \(.{0,100}\) with qmail-scanner",
        Scanner,
    ),
    (" with local", r"^\S+ by \S+ with local", Skip),
    (
        "[unix socket]",
        r"^\S+ \(\[unix socket\]\) by \S+ \(Cyrus v[0-9]*?\.[0-9]*?\.[0-9]*?\) with LMTPA",
        Skip,
    ),
    ("", r"^\S+ by \S+ (?:with|via|for|\()", Skip),
    (
        "",
        r"^\S+ (?:(?:with|via|for) \S+|\(unverified\)) by\b",
        Skip,
    ),
    (
        " (unknown) by ",
        r"^\S+ \(unknown\) by \S+ \(SG\) with \b",
        Skip,
    ),
    (
        " [local]) by ",
        r"^\S+ \(\S+ \[local\]\) by \S+ \(OpenSMTPD\) with \b",
        Skip,
    ),
    ("(LSMTP for", r"\(LSMTP for", Skip),
    (
        "with MailEnable ",
        r"^\(\[LOCALHOST\]\) with MailEnable ",
        Skip,
    ),
    (
        " with Thrift id ",
        r"^facebook\.com \([^)]+\) by facebook\.com with Thrift id \S+$",
        Skip,
    ),
    (
        " with HTTPREST",
        r"^\S+ named \S+ by gmailapi\.google\.com with HTTPREST$",
        Skip,
    ),
    (" id ", r"^\S+ id \S+$", Skip),
];

/// Lines that begin with `FROM` or `(from`.
pub(super) const UPPERCASE: [ReceivedTemplate; 4] = [
    (
        "",
        concat!(
            r"^FROM {helo} \({rdns} \[{ip}\]\) BY {by} (?:\([^)]+\) WITH SMTP )?ID <?",
            r"(?<id>\S+?)>?(?: FOR <[^>]+>)?$",
        ),
        LookedUp,
    ),
    (
        "(NAVGW ",
        r"^\(from {helo?} \[{ip}\]\) by {by} \(NAVGW .*?\) with ",
        PLAIN,
    ),
    ("", r"^\(from \S+@localhost\) by \S+ ", Skip),
    (
        "(jqueuemail)",
        r"^\(from [^\s@]+@[^)]+\) by \S+\(jqueuemail\) id [^\s;]+",
        Skip,
    ),
];
