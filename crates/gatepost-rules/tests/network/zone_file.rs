//! A zone file with patterns of names: one file defines the records for all mails, whatever hosts
//! they name.
//!
//! A line is `PATTERN TYPE PERCENT DATA`. The first pattern that matches a name applies. If it has
//! several lines of a type, a hash of the name selects one of them, or none, by their percentages.
//! The types `NXDOMAIN` and `SERVFAIL` stand for names that do not exist and servers that fail.
//! `{}` in data is a number from 1 to 250 that follows from the name, and `&` divides several
//! records. A name that matches `PREFIX*` is answered if the name without the prefix is.

use super::server::{Names, Reply};

struct Line {
    pattern: String,
    kind: String,
    percent: u64,
    data: String,
}

/// The lines of a file.
pub(crate) struct ZoneFile {
    lines: Vec<Line>,
}

impl ZoneFile {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let mut word = || words.next().expect("a line has four columns").to_owned();
            Line {
                pattern: word(),
                kind: word(),
                percent: word().parse().expect("a percentage"),
                data: words.collect::<Vec<_>>().join(" "),
            }
        };
        Self {
            lines: lines.map(line).collect(),
        }
    }

    /// The line of a type that the name chooses.
    fn choose(&self, pattern: &str, kind: &str, name: &str) -> Option<&Line> {
        let mut rest = hash(&[name, kind]) % 100;
        let mut lines = self
            .lines
            .iter()
            .filter(|line| line.pattern == pattern && line.kind == kind);
        lines.find(|line| {
            let is_chosen = rest < line.percent;
            rest = rest.wrapping_sub(line.percent);
            is_chosen
        })
    }
}

impl Names for ZoneFile {
    fn reply(&self, name: &str, kind: &str) -> Reply {
        let mut patterns = self.lines.iter().map(|line| line.pattern.as_str());
        let Some(pattern) = patterns.find(|pattern| fits(pattern, name)) else {
            return Reply::NoSuchName;
        };
        if self.choose(pattern, "SERVFAIL", name).is_some() {
            return Reply::ServerFailure;
        }
        if self.choose(pattern, "NXDOMAIN", name).is_some() {
            return Reply::NoSuchName;
        }
        let prefix = pattern
            .strip_suffix('*')
            .filter(|prefix| !prefix.is_empty());
        if let Some(above) = prefix.and_then(|prefix| name.strip_prefix(prefix)) {
            match self.reply(above, "NS") {
                Reply::Records(_) => {}
                failure => return failure,
            }
        }
        let number = (1 + hash(&["number", name]) % 250).to_string();
        match self.choose(pattern, kind, name) {
            Some(line) => {
                let records = line.data.split(" & ");
                Reply::Records(records.map(|data| data.replace("{}", &number)).collect())
            }
            None => Reply::Records(Vec::new()),
        }
    }
}

/// A pattern is a name, or one with `*` at its beginning or end.
fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

/// FNV-1a of 64 bits, mixed so that its lowest digits are even.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

#[test]
fn the_first_pattern_that_fits_decides() {
    let zone = ZoneFile::parse(
        "# lists\n*.list.example A 100 127.0.0.{} & 127.0.0.9\n_dmarc.* TXT 100 v=DMARC1; p=none\n\
         gone.example NXDOMAIN 100 -\nill.example SERVFAIL 100 -\n* A 50 192.0.2.{}\n",
    );
    let records = |name: &str, kind: &str| match zone.reply(name, kind) {
        Reply::Records(records) => Some(records),
        Reply::NoSuchName | Reply::ServerFailure => None,
    };
    let listed = records("1.list.example", "A").expect("it exists");
    assert_eq!(listed.len(), 2);
    assert!(listed[0].starts_with("127.0.0.") && listed[1] == "127.0.0.9");
    assert_eq!(records("1.list.example", "TXT"), Some(Vec::new()));
    let policy = records("_dmarc.example", "TXT");
    assert_eq!(policy, Some(vec!["v=DMARC1; p=none".to_owned()]));
    assert!(matches!(zone.reply("gone.example", "A"), Reply::NoSuchName));
    assert!(matches!(
        zone.reply("ill.example", "A"),
        Reply::ServerFailure
    ));
    let hosts = (0..200).map(|number| format!("host{number}.example"));
    let with_address = hosts.filter(|host| records(host, "A").is_some_and(|all| all.len() == 1));
    assert!((70..130).contains(&with_address.count()));
}
