//! The definition of each rule in rule files, before it is compiled.

use std::path::PathBuf;
use std::sync::Arc;

use gatepost_learning::bayes::{RuleFlags, RulePlace};

use crate::network::{LinkFlags, NetworkCall};
use crate::shortcircuit::Shortcircuit;

/// The position of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub(crate) file: Arc<PathBuf>,
    pub(crate) line: u32,
}

/// The part of a message that a pattern or function examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum View {
    Header,
    Body,
    RawBody,
    Full,
    Uri,
}

impl View {
    /// The prefix of a rule's description in reports.
    pub(crate) const fn report_prefix(self) -> &'static str {
        match self {
            Self::Header => "",
            Self::Body => "BODY: ",
            Self::RawBody => "RAW: ",
            Self::Full => "FULL: ",
            Self::Uri => "URI: ",
        }
    }
}

/// A comparison of a field with a pattern: `From:addr =~ /x/ [if-unset: y]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldTest {
    pub(crate) selector: String,
    pub(crate) pattern: Vec<u8>,
    pub(crate) negated: bool,
    pub(crate) if_unset: Option<Vec<u8>>,
}

/// The test of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RuleTest {
    /// `header NAME Field =~ /pattern/`.
    Header(FieldTest),
    /// `header NAME exists:Field`.
    Exists { selector: String },
    /// `mimeheader NAME Field =~ /pattern/`.
    MimeHeader(FieldTest),
    /// `body`, `rawbody`, `full` and `uri` with a pattern.
    Pattern { view: View, pattern: Vec<u8> },
    /// `uri_detail NAME key =~ /pattern/ …`.
    UriDetail { conditions: String },
    /// `… eval:function(arguments)`.
    Eval {
        view: View,
        function: String,
        arguments: Vec<String>,
    },
    /// `meta NAME expression`.
    Meta { expression: String },
    /// A rule that needs DNS.
    Network(NetworkCall),
}

/// The flags in `tflags`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TestFlags {
    /// The rule needs DNS.
    pub(crate) net: bool,
    /// `a`, `ns`, `ips_only`, `domains_only`: the part of a link that is looked up.
    pub(crate) link: LinkFlags,
    /// The rule indicates ham: its score is usually negative.
    pub(crate) nice: bool,
    /// The rule needs Bayes.
    pub(crate) learn: bool,
    /// The effect of its score on automatic learning.
    pub(crate) autolearn: RuleFlags,
    /// Its score does not count in the sender's average.
    pub(crate) no_autolearn: bool,
    /// A message with this hit leaves the sender's average unchanged.
    pub(crate) no_awl: bool,
    /// Every match counts, not only the first.
    pub(crate) multiple: bool,
    /// The number of matches at which counting stops.
    pub(crate) hits_max: Option<u32>,
    /// Excludes the subject, which is the first line of the body.
    pub(crate) no_subject: bool,
    /// `mimeheader`: joins the fields of all parts.
    pub(crate) concat: bool,
    /// `mimeheader`: the first and the last part that the rule examines.
    pub(crate) range: Option<(u32, u32)>,
}

impl TestFlags {
    /// Parses the flags after `tflags NAME`.
    pub(crate) fn parse(words: &str) -> Self {
        let mut flags = Self::default();
        for word in words.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("net", _) => flags.net = true,
                ("a", _) => flags.link.by_address = true,
                ("ns", _) => flags.link.by_server = true,
                ("ips_only", _) => flags.link.ips_only = true,
                ("domains_only", _) => flags.link.domains_only = true,
                ("notrim", _) => flags.link.whole_host = true,
                ("nice", _) => flags.nice = true,
                ("learn", _) => {
                    flags.learn = true;
                    flags.autolearn.learner = true;
                }
                ("noautolearn", _) => {
                    flags.no_autolearn = true;
                    flags.autolearn.left_out = true;
                }
                ("userconf", _) => flags.autolearn.left_out = true,
                ("autolearn_force", _) => flags.autolearn.force = true,
                ("autolearn_header", _) => flags.autolearn.counts_as = Some(RulePlace::Head),
                ("autolearn_body", _) => flags.autolearn.counts_as = Some(RulePlace::Body),
                ("noawl", _) => flags.no_awl = true,
                ("multiple", _) => flags.multiple = true,
                ("maxhits", count) => flags.hits_max = count.parse().ok(),
                ("nosubject", _) => flags.no_subject = true,
                ("concat", _) => flags.concat = true,
                ("range", range) => {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    flags.range = first
                        .parse()
                        .ok()
                        .map(|first| (first, last.parse().unwrap_or(u32::MAX)));
                }
                // Other flags concern learning, DNS or the publication of rules, not a scan.
                _ => {}
            }
        }
        flags
    }
}

/// An example of a rule's author: `test NAME ok|fail TEXT`.
#[derive(Debug, Clone)]
pub(crate) struct RuleExample {
    pub(crate) source: SourceLine,
    pub(crate) rule: Arc<str>,
    pub(crate) should_hit: bool,
    pub(crate) text: Vec<u8>,
}

/// The definition of a rule.
#[derive(Debug, Clone)]
pub(crate) struct RuleDefinition {
    pub(crate) name: Arc<str>,
    /// `None` for a name that has only a score, description or flags.
    pub(crate) test: Option<RuleTest>,
    pub(crate) source: SourceLine,
    /// The scores in the four score sets: plain, network, Bayes, both.
    pub(crate) scores: Option<[f64; 4]>,
    pub(crate) description: Option<Arc<str>>,
    pub(crate) flags: TestFlags,
    pub(crate) priority: i32,
    /// Whether it ends the scan.
    pub(crate) shortcircuit: Option<Shortcircuit>,
    /// Its pattern contains tags to be replaced.
    pub(crate) replaces_tags: bool,
    /// The text before the subject when it hits.
    pub(crate) subject_prefix: Option<Arc<str>>,
}

impl RuleDefinition {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            test: None,
            source: SourceLine::default(),
            scores: None,
            description: None,
            flags: TestFlags::default(),
            priority: 0,
            shortcircuit: None,
            replaces_tags: false,
            subject_prefix: None,
        }
    }

    /// The score in one of the four sets; rules without a score count 1, rules on trial 0.01.
    pub(crate) fn score(&self, set: usize) -> f64 {
        if let Some(score) = self.scores.and_then(|scores| scores.get(set).copied()) {
            return score;
        }
        let score = if self.name.starts_with("T_") {
            0.01
        } else {
            1.0
        };
        if self.flags.nice { -score } else { score }
    }

    /// Names that begin with two underscores are sub-rules of metas and not reported.
    pub(crate) fn is_sub_rule(&self) -> bool {
        self.name.starts_with("__")
    }
}
