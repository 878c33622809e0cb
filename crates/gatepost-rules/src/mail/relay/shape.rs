//! The wordings of `Received:` lines, as a table.
//!
//! A wording is a template: `{helo}`, `{rdns}`, `{by}`, `{ident}` stand for words, `{ip}` for an
//! address, `{any_ip}` for another one, `{…?}` for a word that may be empty, `{both}` for a name that is both HELO and reverse
//! name, `{options}` for Exim's list of `helo=` and `ident=`. The rest of a template is a pattern.
//! The order matters: several servers write lines that fit more than one wording, and the one named
//! first is the one meant.

use super::super::pattern::Pattern;
use std::sync::LazyLock;

/// An address: IPv4, or anything of the form of IPv6 (its value is checked afterwards).
pub(super) const IP: &str = r"(?:\b(?<!:)(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}\b|(?:IPv6:|(?<![a-fA-F0-9:]))[a-fA-F0-9]{0,4}:[a-fA-F0-9:]*:[a-fA-F0-9:]*(?:\d{1,3}(?:\.\d{1,3}){3})?(?![a-fA-F0-9:]))";

/// Ways to say "this machine".
const LOCALHOST: &str = r"(?i:localhost(?:\.localdomain)?|\b(?<!:)127\.0\.0\.1\b|(?:IPv6:|(?<![a-f0-9:]))(?:::ffff:127\.0\.0\.1|::1|(?:0{1,4}:){7}0{0,3}1)(?![a-f0-9:]))";

/// What was found in a line so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) ip: String,
    pub(super) rdns: String,
    pub(super) helo: String,
    pub(super) by: String,
    pub(super) ident: String,
    pub(super) id: String,
    pub(super) envelope_from: Option<String>,
    /// The receiver looks up names of senders.
    pub(super) looked_up: bool,
}

/// What a wording means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A handover.
    Relay,
    /// Nothing of interest.
    Skip,
    /// Mail fetched from a mailbox.
    Fetched,
    /// A scanner's note.
    Scanner,
    /// No known wording.
    Unknown,
}

/// What else is done when a wording fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extra {
    None,
    /// The receiver looks up names.
    LookedUp,
    /// It does, and may put an ident answer before the name.
    LookedUpWithIdent,
    /// It does, and says `unknown` if there is none.
    LookedUpUnknown,
    /// It does, unless the name says that the lookup failed.
    LookedUpUnlessError,
    /// It does, unless the name is `UNKNOWN`.
    LookedUpUnlessUnknown,
    /// The id is not this server's.
    NoId,
    /// XMail names id and envelope sender in its own way.
    XMail,
    Skip,
    Fetched,
    Scanner,
}

/// One wording: what the line must contain, its template, what else is done.
type Row = (&'static str, &'static str, Extra);

use Extra::{
    Fetched, LookedUp, LookedUpUnknown, LookedUpUnlessError, LookedUpUnlessUnknown,
    LookedUpWithIdent, NoId, Scanner, Skip, XMail,
};
const PLAIN: Extra = Extra::None;

/// Web mail that names the user's own machine.
const WEB_MAIL: [Row; 3] = [
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

/// Servers that name themselves. The first name a line contains decides; only its wordings count.
const SERVERS: [(&str, &[Row]); 8] = [
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

/// Wordings before qmail's, which needs more than a template.
const BEFORE_QMAIL: [Row; 10] = [
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

/// Two more that may be mistaken for qmail's.
const LIKE_QMAIL: [Row; 2] = [
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
const QMAIL_GUARD: &str = r"^\S+( \((?:HELO|EHLO) \S*\))? \((\S+@)?\[?{any_ip}\]?\)( \(envelope-sender <\S+>\))? by \S+( \(.+\))* with (.* )?(SMTP|QMQP)(?! id )";
const QMAIL: [Row; 4] = [
    (
        "",
        r"^{rdns} \((?:HELO|EHLO) (?<helo>[^ ()]*)\) \({ident?}@\[?{ip}\]?\)(?: \(envelope-sender <\S+>\))? by {by}",
        PLAIN,
    ),
    (
        "",
        r"^{rdns} \((?:HELO|EHLO) (?<helo>[^ ()]*)\) \(\[?{ip}\]?\)(?: \(envelope-sender <\S+>\))? by {by}",
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
const OTHERS: [Row; 61] = [
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
const UPPERCASE: [Row; 4] = [
    (
        "",
        r"^FROM {helo} \({rdns} \[{ip}\]\) BY {by} (?:\([^)]+\) WITH SMTP )?ID <?(?<id>\S+?)>?(?: FOR <[^>]+>)?$",
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

struct Shape {
    needs: &'static str,
    pattern: Pattern,
    fields: [Option<usize>; 8],
    extra: Extra,
}

/// Names of groups, in the order of [`Shape::fields`].
const FIELDS: [&str; 8] = ["ip", "rdns", "helo", "by", "ident", "id", "both", "options"];

fn compile_pattern(template: &str) -> Pattern {
    Pattern::with_flags(template, "")
        .unwrap_or_else(|error| unreachable!("built-in pattern: {error}"))
}

fn expand(template: &str) -> String {
    let mut text = template.replace("LOCALHOST", LOCALHOST);
    for name in FIELDS {
        let words = if name == "options" { ".*?" } else { r"\S+" };
        let words = if name == "ip" { IP } else { words };
        text = text.replace(&format!("{{{name}}}"), &format!("(?<{name}>{words})"));
        text = text.replace(&format!("{{{name}?}}"), &format!(r"(?<{name}>\S*)"));
    }
    text.replace("{any_ip}", IP)
}

impl Shape {
    fn compile(&(needs, template, extra): &Row) -> Self {
        let pattern = compile_pattern(&expand(template));
        let names = pattern.group_names();
        let fields =
            FIELDS.map(|field| names.iter().position(|name| name.as_deref() == Some(field)));
        Self {
            needs,
            pattern,
            fields,
            extra,
        }
    }

    /// Fills `found` if the wording fits.
    fn read(&self, line: &str, found: &mut Found) -> Option<Outcome> {
        if !line.contains(self.needs) {
            return None;
        }
        let groups = self.pattern.groups::<10>(line.as_bytes())?;
        let group = |index: usize| {
            let number = self.fields.get(index).copied().flatten()?;
            let text = groups.get(number).copied().flatten()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        let ip = group(0);
        if ip
            .as_ref()
            .is_some_and(|ip| !super::super::ip::is_ip(ip.as_bytes()))
        {
            return None;
        }
        match self.extra {
            Skip => return Some(Outcome::Skip),
            Fetched => return Some(Outcome::Fetched),
            Scanner => return Some(Outcome::Scanner),
            _ => {}
        }
        let targets = [
            &mut found.ip,
            &mut found.rdns,
            &mut found.helo,
            &mut found.by,
            &mut found.ident,
            &mut found.id,
        ];
        for (index, target) in targets.into_iter().enumerate() {
            if let Some(text) = group(index) {
                *target = text;
            }
        }
        if let Some(name) = group(6) {
            found.rdns.clone_from(&name);
            found.helo = name;
        }
        if let Some(options) = group(7) {
            read_options(&options, found);
        }
        self.finish(line, found);
        Some(Outcome::Relay)
    }

    fn finish(&self, line: &str, found: &mut Found) {
        match self.extra {
            LookedUp => found.looked_up = true,
            LookedUpUnknown => {
                found.looked_up = true;
                if found.rdns == "unknown" {
                    found.rdns.clear();
                }
            }
            LookedUpWithIdent => {
                found.looked_up = true;
                let rdns = found
                    .rdns
                    .strip_prefix("IDENT:")
                    .filter(|rest| rest.contains('@'))
                    .unwrap_or(&found.rdns);
                if let Some((ident, name)) = rdns.split_once('@') {
                    (found.ident, found.rdns) = (ident.to_owned(), name.to_owned());
                }
            }
            LookedUpUnlessError => {
                found.looked_up = found.rdns != "softdnserr";
                if !found.looked_up {
                    found.rdns.clear();
                }
            }
            LookedUpUnlessUnknown => found.looked_up = found.rdns != "UNKNOWN",
            NoId => found.id.clear(),
            XMail => {
                let bracketed = |start: &str| {
                    let rest = line.get(line.find(start)? + start.len()..)?;
                    let word = rest.split(' ').next()?;
                    word.rfind('>')
                        .and_then(|end| word.get(..end))
                        .filter(|id| !id.is_empty())
                        .map(str::to_owned)
                };
                found.id = bracketed(" id <").unwrap_or(std::mem::take(&mut found.id));
                found.envelope_from = bracketed(" from <").or(found.envelope_from.take());
            }
            _ => {}
        }
    }
}

/// Exim's `helo=… ident=…`.
fn read_options(options: &str, found: &mut Found) {
    let value = |name: &str| {
        let rest = options.get(options.find(name)? + name.len()..)?;
        Some(
            rest.split_ascii_whitespace()
                .next()
                .filter(|_| !rest.starts_with(' '))
                .unwrap_or_default()
                .to_owned(),
        )
    };
    if let Some(helo) = value("helo=").filter(|helo| !helo.is_empty()) {
        found.helo = helo;
    }
    if let Some(ident) = value("ident=") {
        found.ident = ident;
    }
}

struct Shapes {
    web_mail: Vec<Shape>,
    servers: Vec<(Pattern, Vec<Shape>)>,
    before_qmail: Vec<Shape>,
    qmail_guard: Pattern,
    qmail: Vec<Shape>,
    others: Vec<Shape>,
    uppercase: Vec<Shape>,
    exim_name: Pattern,
    exim_helo: Pattern,
    exim_address: Pattern,
    exim_by: Pattern,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    let all = |rows: &[Row]| rows.iter().map(Shape::compile).collect::<Vec<_>>();
    Shapes {
        web_mail: all(&WEB_MAIL),
        servers: SERVERS
            .iter()
            .map(|(guard, rows)| (compile_pattern(guard), all(rows)))
            .collect(),
        before_qmail: BEFORE_QMAIL
            .iter()
            .chain(&LIKE_QMAIL)
            .map(Shape::compile)
            .collect(),
        qmail_guard: compile_pattern(&expand(QMAIL_GUARD)),
        qmail: all(&QMAIL),
        others: all(&OTHERS),
        uppercase: all(&UPPERCASE),
        exim_name: compile_pattern(r"^(\S+) "),
        exim_helo: compile_pattern(r" \((\S+)\) "),
        exim_address: compile_pattern(&format!(r" \[({IP})(?:\.\d+)?\] ")),
        exim_by: compile_pattern(r"by (\S+) "),
    }
});

fn first_of(shapes: &[Shape], line: &str, found: &mut Found) -> Option<Outcome> {
    shapes.iter().find_map(|shape| shape.read(line, found))
}

/// Finds the wording of a line after `from `.
pub(super) fn find_shape(line: &str, found: &mut Found) -> Outcome {
    let shapes = &*SHAPES;
    first_of(&shapes.web_mail, line, found)
        .or_else(|| of_named_server(shapes, line, found))
        .or_else(|| first_of(&shapes.before_qmail, line, found))
        .or_else(|| of_qmail(shapes, line, found))
        .or_else(|| first_of(&shapes.others, line, found))
        .unwrap_or(Outcome::Unknown)
}

fn of_named_server(shapes: &Shapes, line: &str, found: &mut Found) -> Option<Outcome> {
    let (index, (_, rows)) = shapes
        .servers
        .iter()
        .enumerate()
        .find(|(_, (guard, _))| guard.is_match(line.as_bytes()))?;
    let outcome = first_of(rows, line, found);
    let is_exim = SERVERS
        .get(index)
        .is_some_and(|(guard, _)| *guard == "Exim");
    outcome.or_else(|| is_exim.then(|| of_odd_exim(shapes, line, found)).flatten())
}

/// Exim's lines can be worded by its administrator: whatever bits are there are taken.
fn of_odd_exim(shapes: &Shapes, line: &str, found: &mut Found) -> Option<Outcome> {
    let group = |pattern: &Pattern| {
        pattern
            .group(line.as_bytes(), 1)
            .map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let bits = [
        (&shapes.exim_name, &mut found.rdns),
        (&shapes.exim_helo, &mut found.helo),
        (&shapes.exim_address, &mut found.ip),
    ];
    for (pattern, target) in bits {
        if let Some(text) = group(pattern) {
            *target = text;
        }
    }
    found.by = group(&shapes.exim_by)?;
    (!found.ip.is_empty()).then_some(Outcome::Relay)
}

fn of_qmail(shapes: &Shapes, line: &str, found: &mut Found) -> Option<Outcome> {
    if !shapes.qmail_guard.is_match(line.as_bytes()) {
        return None;
    }
    first_of(&shapes.qmail, line, found);
    if found.rdns == "unknown" {
        found.rdns.clear();
    } else {
        found.looked_up = true;
    }
    Some(Outcome::Relay)
}

/// Finds the wording of a line that begins with `FROM` or `(from`.
pub(super) fn find_uppercase_shape(line: &str, found: &mut Found) -> Outcome {
    let outcome = first_of(&SHAPES.uppercase, line, found).unwrap_or(Outcome::Unknown);
    if outcome == Outcome::Relay && found.rdns == "unverified" && line.starts_with("FROM ") {
        found.rdns.clear();
    }
    outcome
}
