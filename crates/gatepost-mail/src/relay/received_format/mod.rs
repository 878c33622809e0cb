//! The known formats of `Received:` lines, as a table of templates.
//!
//! In a template, `{helo}`, `{rdns}`, `{by}`, `{ident}` match words, `{ip}` an address, `{any_ip}`
//! another one, `{…?}` a word that may be empty, `{both}` a name that is both HELO and reverse
//! name, `{options}` Exim's list of `helo=` and `ident=`. The rest of a template is a pattern. The
//! order matters: several servers write lines that match more than one template, and the first one
//! is the intended one.

mod templates;

use std::sync::LazyLock;

use crate::pattern::MailPattern;
pub(super) use templates::IP;
use templates::TemplateAction::{
    Fetched, LookedUp, LookedUpUnknown, LookedUpUnlessError, LookedUpUnlessUnknown,
    LookedUpWithIdent, NoId, Scanner, Skip, XMail,
};
use templates::{
    BEFORE_QMAIL, LIKE_QMAIL, LOCALHOST, OTHERS, QMAIL, QMAIL_GUARD, ReceivedTemplate, SERVERS,
    TemplateAction, UPPERCASE, WEB_MAIL,
};

/// The values found in a line so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReceivedValues {
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

/// The meaning of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateMeaning {
    /// A hop.
    Relay,
    /// A line without relevant content.
    Skip,
    /// Mail fetched from a mailbox.
    Fetched,
    /// A scanner's note.
    Scanner,
    /// No known format.
    Unknown,
}

struct ReceivedFormat {
    needs: &'static str,
    pattern: MailPattern,
    fields: [Option<usize>; 8],
    extra: TemplateAction,
}

/// Names of groups, in the order of [`ReceivedFormat::fields`].
const FIELDS: [&str; 8] = ["ip", "rdns", "helo", "by", "ident", "id", "both", "options"];

fn compile_pattern(template: &str) -> MailPattern {
    MailPattern::with_flags(template, "")
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

impl ReceivedFormat {
    fn compile(&(needs, template, extra): &ReceivedTemplate) -> Self {
        let pattern = compile_pattern(&expand(template));
        let fields = FIELDS.map(|field| pattern.group_number(field));
        Self {
            needs,
            pattern,
            fields,
            extra,
        }
    }

    /// Sets `found` if the template matches.
    fn read(&self, line: &str, found: &mut ReceivedValues) -> Option<TemplateMeaning> {
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
            .is_some_and(|ip| !crate::ip::is_ip(ip.as_bytes()))
        {
            return None;
        }
        match self.extra {
            Skip => return Some(TemplateMeaning::Skip),
            Fetched => return Some(TemplateMeaning::Fetched),
            Scanner => return Some(TemplateMeaning::Scanner),
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
        Some(TemplateMeaning::Relay)
    }

    fn finish(&self, line: &str, found: &mut ReceivedValues) {
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
fn read_options(options: &str, found: &mut ReceivedValues) {
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

struct ReceivedFormats {
    web_mail: Vec<ReceivedFormat>,
    servers: Vec<(MailPattern, Vec<ReceivedFormat>)>,
    before_qmail: Vec<ReceivedFormat>,
    qmail_guard: MailPattern,
    qmail: Vec<ReceivedFormat>,
    others: Vec<ReceivedFormat>,
    uppercase: Vec<ReceivedFormat>,
    exim_name: MailPattern,
    exim_helo: MailPattern,
    exim_address: MailPattern,
    exim_by: MailPattern,
}

static SHAPES: LazyLock<ReceivedFormats> = LazyLock::new(|| {
    let all =
        |rows: &[ReceivedTemplate]| rows.iter().map(ReceivedFormat::compile).collect::<Vec<_>>();
    ReceivedFormats {
        web_mail: all(&WEB_MAIL),
        servers: SERVERS
            .iter()
            .map(|(guard, rows)| (compile_pattern(guard), all(rows)))
            .collect(),
        before_qmail: BEFORE_QMAIL
            .iter()
            .chain(&LIKE_QMAIL)
            .map(ReceivedFormat::compile)
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

fn first_of(
    formats: &[ReceivedFormat],
    line: &str,
    found: &mut ReceivedValues,
) -> Option<TemplateMeaning> {
    formats.iter().find_map(|format| format.read(line, found))
}

/// Finds the template of a line after `from `.
pub(super) fn find_format(line: &str, found: &mut ReceivedValues) -> TemplateMeaning {
    let formats = &*SHAPES;
    first_of(&formats.web_mail, line, found)
        .or_else(|| of_named_server(formats, line, found))
        .or_else(|| first_of(&formats.before_qmail, line, found))
        .or_else(|| of_qmail(formats, line, found))
        .or_else(|| first_of(&formats.others, line, found))
        .unwrap_or(TemplateMeaning::Unknown)
}

fn of_named_server(
    formats: &ReceivedFormats,
    line: &str,
    found: &mut ReceivedValues,
) -> Option<TemplateMeaning> {
    let (index, (_, rows)) = formats
        .servers
        .iter()
        .enumerate()
        .find(|(_, (guard, _))| guard.is_match(line.as_bytes()))?;
    let outcome = first_of(rows, line, found);
    let is_exim = SERVERS
        .get(index)
        .is_some_and(|(guard, _)| *guard == "Exim");
    outcome.or_else(|| {
        is_exim
            .then(|| of_configured_exim(formats, line, found))
            .flatten()
    })
}

/// The format of Exim's lines is configurable: all known parts are used.
fn of_configured_exim(
    formats: &ReceivedFormats,
    line: &str,
    found: &mut ReceivedValues,
) -> Option<TemplateMeaning> {
    let group = |pattern: &MailPattern| {
        pattern
            .group(line.as_bytes(), 1)
            .map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let bits = [
        (&formats.exim_name, &mut found.rdns),
        (&formats.exim_helo, &mut found.helo),
        (&formats.exim_address, &mut found.ip),
    ];
    for (pattern, target) in bits {
        if let Some(text) = group(pattern) {
            *target = text;
        }
    }
    found.by = group(&formats.exim_by)?;
    (!found.ip.is_empty()).then_some(TemplateMeaning::Relay)
}

fn of_qmail(
    formats: &ReceivedFormats,
    line: &str,
    found: &mut ReceivedValues,
) -> Option<TemplateMeaning> {
    if !formats.qmail_guard.is_match(line.as_bytes()) {
        return None;
    }
    first_of(&formats.qmail, line, found);
    if found.rdns == "unknown" {
        found.rdns.clear();
    } else {
        found.looked_up = true;
    }
    Some(TemplateMeaning::Relay)
}

/// Finds the template of a line that begins with `FROM` or `(from`.
pub(super) fn find_uppercase_format(line: &str, found: &mut ReceivedValues) -> TemplateMeaning {
    let outcome = first_of(&SHAPES.uppercase, line, found).unwrap_or(TemplateMeaning::Unknown);
    if outcome == TemplateMeaning::Relay && found.rdns == "unverified" && line.starts_with("FROM ")
    {
        found.rdns.clear();
    }
    outcome
}
