//! The eval functions of the SPF, DKIM and DMARC plugins, parsed to a [`SenderTest`].

use gatepost_dns::{Question, QuestionOutcome};

use super::Senders;
use crate::authentication::arc::ArcResult;
use crate::authentication::dmarc::{DmarcPolicy, DmarcResult};
use crate::authentication::spf::SpfResult;
use crate::authentication::{AnswerPending, DnsResponses};

/// A test of a rule about a sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SenderTest {
    /// `check_for_spf_pass` and similar functions; for the HELO name with `helo`.
    Spf { helo: bool, result: SpfResult },
    /// `check_spf_skipped_noenvfrom`.
    SpfSkipped,
    /// `check_for_spf_welcomelist_from`.
    WelcomeBySpf { by_default: bool },
    /// `check_dkim_signed`, by one of these domains if any are named.
    Signed(Vec<String>),
    /// `check_dkim_valid`, the same.
    Valid(Vec<String>),
    /// `check_dkim_valid_author_sig`, the same.
    ValidOfAuthor(Vec<String>),
    /// `check_dkim_valid_envelopefrom`.
    ValidOfEnvelope,
    /// `check_dkim_dependable`: the message was not truncated.
    Dependable,
    /// `check_dkim_testing`.
    Testing,
    /// `check_dkim_adsp`: the signing practice of the author's domain, for these domains if any are
    /// named.
    Practice {
        letters: String,
        domains: Vec<String>,
    },
    /// `check_for_dkim_welcomelist_from`.
    WelcomeByDkim { by_default: bool },
    /// `check_arc_signed`.
    ChainPresent,
    /// `check_arc_valid`.
    ChainValid,
    /// `check_dmarc_pass` and similar functions.
    Dmarc(DmarcResult),
    /// A practice that no domain publishes any more.
    Never,
}

impl SenderTest {
    /// The test of a function, if it is one of these.
    pub(in crate::network) fn of_function(name: &str, arguments: &[&str]) -> Option<Self> {
        let name = name.replace("whitelist", "welcomelist");
        let domains = || {
            arguments
                .iter()
                .map(|domain| domain.to_ascii_lowercase())
                .collect()
        };
        if let Some(result) = name.strip_prefix("check_for_spf_helo_") {
            let result = SpfResult::named(result)?;
            return Some(Self::Spf { helo: true, result });
        }
        if let Some(result) = name
            .strip_prefix("check_for_spf_")
            .and_then(SpfResult::named)
        {
            return Some(Self::Spf {
                helo: false,
                result,
            });
        }
        Some(match name.as_str() {
            "check_spf_skipped_noenvfrom" => Self::SpfSkipped,
            "check_for_spf_welcomelist_from" => Self::WelcomeBySpf { by_default: false },
            "check_for_def_spf_welcomelist_from" => Self::WelcomeBySpf { by_default: true },
            "check_dkim_signed" => Self::Signed(domains()),
            "check_dkim_valid" | "check_dkim_verified" => Self::Valid(domains()),
            "check_dkim_valid_author_sig" => Self::ValidOfAuthor(domains()),
            "check_dkim_valid_envelopefrom" => Self::ValidOfEnvelope,
            "check_dkim_dependable" => Self::Dependable,
            "check_dkim_testing" => Self::Testing,
            "check_dkim_signsome" => Self::Never,
            "check_dkim_signall" => Self::Practice {
                letters: "A".to_owned(),
                domains: Vec::new(),
            },
            "check_dkim_adsp" => Self::Practice {
                letters: match *arguments.first()? {
                    "*" => "NAD123".to_owned(),
                    letters => letters.to_owned(),
                },
                domains: arguments
                    .iter()
                    .skip(1)
                    .map(|domain| domain.to_ascii_lowercase())
                    .collect(),
            },
            "check_for_dkim_welcomelist_from" => Self::WelcomeByDkim { by_default: false },
            "check_for_def_dkim_welcomelist_from" => Self::WelcomeByDkim { by_default: true },
            "check_arc_signed" => Self::ChainPresent,
            "check_arc_valid" => Self::ChainValid,
            "check_dmarc_pass" => Self::Dmarc(DmarcResult::Pass),
            "check_dmarc_reject" => Self::Dmarc(DmarcResult::Fail(DmarcPolicy::Reject)),
            "check_dmarc_quarantine" => Self::Dmarc(DmarcResult::Fail(DmarcPolicy::Quarantine)),
            "check_dmarc_none" => Self::Dmarc(DmarcResult::Fail(DmarcPolicy::None)),
            "check_dmarc_missing" => Self::Dmarc(DmarcResult::NoPolicy),
            _ => return None,
        })
    }

    /// The queries that are still open.
    pub(in crate::network) fn questions<'a>(
        &self,
        senders: &Senders<'_, '_>,
        answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
    ) -> Vec<Question> {
        let known = DnsResponses::new(answer, false);
        let _ = self.holds(senders, &known);
        known.into_questions()
    }

    /// Whether the rule hits, according to the responses so far.
    pub(in crate::network) fn hits<'a>(
        &self,
        senders: &Senders<'_, '_>,
        answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
    ) -> bool {
        let known = DnsResponses::new(answer, true);
        self.holds(senders, &known).unwrap_or(false)
    }

    fn holds(
        &self,
        senders: &Senders<'_, '_>,
        known: &DnsResponses<'_, '_>,
    ) -> Result<bool, AnswerPending> {
        Ok(match self {
            Self::Spf { helo, result } => senders.spf(*helo, known)? == Some(*result),
            Self::SpfSkipped => senders.envelope_sender().is_none(),
            Self::WelcomeBySpf { by_default } => senders.is_welcome_by_spf(*by_default, known)?,
            Self::Signed(domains) => senders.signed_by(domains, known, |_| true)?,
            Self::Valid(domains) => {
                senders.signed_by(domains, known, |signed| senders.is_valid(signed))?
            }
            Self::ValidOfAuthor(domains) => {
                let authors = senders.author_domains();
                senders.signed_by(domains, known, |signed| {
                    senders.is_strong(signed) && authors.contains(&signed.identity_domain)
                })?
            }
            Self::ValidOfEnvelope => match senders.envelope_domain() {
                None => false,
                Some(domain) => {
                    senders.signed_by(&[domain], known, |signed| senders.is_strong(signed))?
                }
            },
            Self::Dependable => !senders.mail.head().truncated,
            Self::Testing => senders
                .signatures(known)?
                .iter()
                .any(|signed| signed.is_test),
            Self::Practice { letters, domains } => senders.practises(letters, domains, known)?,
            Self::WelcomeByDkim { by_default } => senders.is_welcome_by_dkim(*by_default, known)?,
            Self::ChainPresent => senders.chain(known)? != ArcResult::None,
            Self::ChainValid => senders.chain(known)? == ArcResult::Pass,
            Self::Dmarc(wanted) => match senders.dmarc(known)? {
                // As in SpamAssassin, a policy that cannot be looked up is missing.
                Some(DmarcResult::Unknown) => *wanted == DmarcResult::NoPolicy,
                result => result == Some(*wanted),
            },
            Self::Never => false,
        })
    }
}
