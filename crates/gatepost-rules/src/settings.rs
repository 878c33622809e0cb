//! The section `[rules]` of the configuration.

use std::path::PathBuf;

use gatepost_learning::bayes::BayesLimits;
use gatepost_learning::reputation::REPUTATION_ENTRIES_MAX;
use gatepost_mail::MailLimits;
use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

/// The settings under `[rules]`.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct RulesSettings {
    /// Rule folders (or single files), read in this order; paths that do not exist are skipped, and
    /// if none exists the embedded rule set is used.
    pub paths: Vec<PathBuf>,
    /// The folder of `sa-update`: what it has for the highest version of SpamAssassin is read
    /// instead of `/usr/share/spamassassin`. Empty for none.
    pub updates: PathBuf,
    /// The language of reports, as `en_US` or `fr`: `lang` lines of the rule files for it apply.
    pub language: String,
    /// Use Bayes, as far as the rule files do not say `use_bayes 0`. It judges once enough was
    /// learned, see `gatepost learn`.
    pub bayes: bool,
    /// Keep an average score per sender, if a rule folder uses it (AWL, TxRep).
    pub auto_welcomelist: bool,
    /// Run rules that need DNS: lists of relays and links, the sender's domain.
    pub network: bool,
    /// The DNS server, as `ADDRESS` or `ADDRESS:PORT`; by default the system's first.
    pub dns_server: Option<String>,
    /// The total time for all DNS queries about one message.
    pub network_time_max: Period,
    /// The number of consecutive queries without a response after which a DNS list is suspended; 0
    /// for any number.
    pub list_unanswered_max: u32,
    /// The time for which such a list is suspended.
    pub list_pause: Period,
    /// The most tokens of Bayes, 20 to 60 bytes each; beyond this, new ones are not learned.
    pub bayes_tokens_max: usize,
    /// The most learned messages that Bayes remembers, about 20 bytes each.
    pub bayes_messages_max: usize,
    /// The most senders with averages.
    pub senders_max: usize,
    /// Overrides the folder's `required_score`.
    pub required_score: Option<f64>,
    /// Per-user preferences, read after the rule folders.
    pub preferences: Option<PathBuf>,
    /// The scores that administrators set, read last; the server determines the file, which may be
    /// missing.
    #[serde(skip)]
    pub scores: Option<PathBuf>,
    /// A folder with a file of preferences for each user (`NAME`, or `NAME/user_prefs`): scores,
    /// the threshold, welcome lists, header fields. They apply if a request names its user.
    pub user_preferences: Option<PathBuf>,
    /// The number of bytes from the start of a message that are scanned.
    pub max_size: ByteSize,
    /// Limits on how much of a message's structure is parsed.
    pub mail: MailLimits,
    /// The processor time of one message's scan, so a busy machine changes no verdict; rules that
    /// did not run are reported.
    pub max_time: Period,
    /// The scores of `TIME_LIMIT_EXCEEDED` and `GATEPOST_GIVEN_UP`, for a message that limits kept
    /// from being scanned completely, if no `score` line of a rule file sets them.
    pub given_up_score: f64,
    /// Scan a few built-in messages after rules are loaded, so that the first real message does not
    /// wait for the compilation of patterns.
    pub warm_up: bool,
    /// Use pages of 2 MB where the rules fill them for the most part, with Linux 6.1 or later: a
    /// scan is up to a tenth faster, and the rules take a few MB more.
    pub huge_pages: bool,
}

impl RulesSettings {
    /// The limits on the memory of Bayes.
    pub fn bayes_limits(&self) -> BayesLimits {
        BayesLimits {
            tokens_max: self.bayes_tokens_max,
            messages_max: self.bayes_messages_max,
        }
    }

    /// The rule files that are read after the folders, in this order.
    pub(crate) fn files_after_folders(&self) -> Vec<PathBuf> {
        let scores = self.scores.iter().filter(|file| file.exists());
        self.preferences.iter().chain(scores).cloned().collect()
    }
}

impl Default for RulesSettings {
    fn default() -> Self {
        Self {
            paths: vec![
                PathBuf::from("/usr/share/spamassassin"),
                PathBuf::from("/etc/spamassassin"),
            ],
            updates: PathBuf::from("/var/lib/spamassassin"),
            language: "en_US".to_owned(),
            bayes: true,
            auto_welcomelist: true,
            network: false,
            dns_server: None,
            network_time_max: Period::seconds(5),
            list_unanswered_max: 10,
            list_pause: Period::seconds(60),
            bayes_tokens_max: BayesLimits::default().tokens_max,
            bayes_messages_max: BayesLimits::default().messages_max,
            senders_max: REPUTATION_ENTRIES_MAX,
            required_score: None,
            preferences: None,
            scores: None,
            user_preferences: None,
            max_size: ByteSize::mebibytes(64),
            mail: MailLimits::default(),
            max_time: Period::milliseconds(1500),
            given_up_score: 0.001,
            warm_up: true,
            huge_pages: true,
        }
    }
}
