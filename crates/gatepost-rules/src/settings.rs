//! The settings of the rule engine, as they stand under `[rules]` in the config.

use std::path::PathBuf;

use gatepost_mail::MailLimits;
use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

use gatepost_learning::bayes::BayesLimits;
use gatepost_learning::reputation::BOOK_ENTRIES_MAX;

/// The settings under `[rules]`.
#[derive(Deserialize, Serialize, Clone, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct RulesSettings {
    /// Rule folders (or single files), read in this order; those that do not exist are passed
    /// over, and where none exists the embedded rule set is used.
    pub paths: Vec<PathBuf>,
    /// The language of reports, as `en_US` or `fr`: `lang` lines of the rule files for it apply.
    pub language: String,
    /// Use Bayes, as far as the rule files do not say `use_bayes 0`. It judges once enough was
    /// learned, see `gatepost learn`.
    pub bayes: bool,
    /// Keep an average score per sender, where a rule folder asks for it (AWL, TxRep).
    pub auto_welcomelist: bool,
    /// Run rules that ask the network: lists of relays and links, the sender's domain.
    pub network: bool,
    /// The DNS server to ask, as `ADDRESS` or `ADDRESS:PORT`; the system's first without one.
    pub dns_server: Option<String>,
    /// The time that all questions about one message have together.
    pub network_time_max: Period,
    /// Questions in a row that a DNS list leaves unanswered before it is not asked for a while; 0 for
    /// any number.
    pub list_unanswered_max: u32,
    /// How long such a list is not asked.
    pub list_pause: Period,
    /// Tokens that Bayes holds, 20 to 60 bytes each; beyond, new ones are not learned.
    pub bayes_tokens_max: usize,
    /// Learned messages that Bayes remembers, about 20 bytes each.
    pub bayes_messages_max: usize,
    /// Senders whose averages are kept.
    pub senders_max: usize,
    /// Overrides the folder's `required_score`.
    pub required_score: Option<f64>,
    /// Per-user preferences, read after the rule folders.
    pub preferences: Option<PathBuf>,
    /// A folder with a file of preferences for each user (`NAME`, or `NAME/user_prefs`): scores,
    /// the threshold, welcome lists, header fields. Where a request names its user they apply.
    pub user_preferences: Option<PathBuf>,
    /// From this size on a message is not scanned past its first so many bytes.
    pub max_size: ByteSize,
    /// How much of a message's structure is taken apart.
    pub mail: MailLimits,
    /// The processor time that one message's scan may take, so that a busy machine changes no
    /// verdict; rules that did not get their turn are reported.
    pub max_time: Period,
    /// What the rules `TIME_LIMIT_EXCEEDED` and `GATEPOST_GIVEN_UP` add to the score of a message that limits
    /// kept from being judged whole, where no `score` line of a rule file says.
    pub given_up_score: f64,
    /// A server scans a few messages of its own when it has loaded rules, so that nobody waits
    /// for what the first messages have compiled.
    pub warm_up: bool,
}

impl RulesSettings {
    /// What Bayes may take of memory.
    pub fn bayes_limits(&self) -> BayesLimits {
        BayesLimits {
            tokens_max: self.bayes_tokens_max,
            messages_max: self.bayes_messages_max,
        }
    }
}

impl Default for RulesSettings {
    fn default() -> Self {
        Self {
            paths: vec![
                PathBuf::from("/usr/share/spamassassin"),
                PathBuf::from("/etc/spamassassin"),
            ],
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
            senders_max: BOOK_ENTRIES_MAX,
            required_score: None,
            preferences: None,
            user_preferences: None,
            max_size: ByteSize::mebibytes(64),
            mail: MailLimits::default(),
            max_time: Period::milliseconds(1500),
            given_up_score: 0.001,
            warm_up: true,
        }
    }
}
