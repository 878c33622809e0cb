//! Rules about who really sent a message: SPF, DKIM, ARC, DMARC, and what they are worth together
//! with lists of welcome senders. As SpamAssassin's plugins of these names.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::time::{SystemTime, UNIX_EPOCH};

use super::wire::{Answer, Kind, Question};
use crate::authentication::arc::{self, Chain};
use crate::authentication::dkim::{self, Outcome, RawMail, Signed, with_line_ends};
use crate::authentication::dmarc::{self, DmarcResult, Policy, Proven};
use crate::authentication::spf::{self, Sender, SpfResult};
use crate::authentication::{Known, Looked, Wait, texts};
use crate::mail::{Mail, Relay, parse_ip};

/// What a rule asks of a sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SenderTest {
    /// `check_for_spf_pass` and its companions; of the greeting's name with `helo`.
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
    /// `check_dkim_dependable`: the message was not cut off.
    Dependable,
    /// `check_dkim_testing`.
    Testing,
    /// `check_dkim_adsp`: what the author's domain practises, of these domains if any are named.
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
    /// `check_dmarc_pass` and its companions.
    Dmarc(DmarcResult),
    /// What no domain practises any more.
    Never,
}

impl SenderTest {
    /// The test of a function, if it is one of these.
    pub(super) fn of_function(name: &str, arguments: &[&str]) -> Option<Self> {
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
            "check_dmarc_reject" => Self::Dmarc(DmarcResult::Fail(Policy::Reject)),
            "check_dmarc_quarantine" => Self::Dmarc(DmarcResult::Fail(Policy::Quarantine)),
            "check_dmarc_none" => Self::Dmarc(DmarcResult::Fail(Policy::None)),
            "check_dmarc_missing" => Self::Dmarc(DmarcResult::NoPolicy),
            _ => return None,
        })
    }

    /// What is still to be asked.
    pub(super) fn questions<'a>(
        &self,
        senders: &Senders<'_, '_>,
        answer: &dyn Fn(&Question) -> Option<&'a Answer>,
    ) -> Vec<Question> {
        let known = Known::new(answer, false);
        let _ = self.holds(senders, &known);
        known.into_wanted()
    }

    /// Whether the rule hits, by what is known now.
    pub(super) fn hits<'a>(
        &self,
        senders: &Senders<'_, '_>,
        answer: &dyn Fn(&Question) -> Option<&'a Answer>,
    ) -> bool {
        let known = Known::new(answer, true);
        self.holds(senders, &known).unwrap_or(false)
    }

    fn holds(&self, senders: &Senders<'_, '_>, known: &Known<'_, '_>) -> Result<bool, Wait> {
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
            Self::ChainPresent => senders.chain(known)? != Chain::None,
            Self::ChainValid => senders.chain(known)? == Chain::Pass,
            Self::Dmarc(result) => senders.dmarc(known)? == Some(*result),
            Self::Never => false,
        })
    }
}

/// What is known of a message's senders.
pub(super) struct Senders<'m, 'a> {
    mail: &'m Mail<'a>,
    /// The message with CRLF at the end of every line.
    text: OnceCell<Cow<'m, [u8]>>,
    signatures: OnceCell<Vec<Signed>>,
    chain: OnceCell<Chain>,
    /// Seconds since 1970, by which signatures end.
    now: u64,
}

impl<'m, 'a> Senders<'m, 'a> {
    pub(super) fn of(mail: &'m Mail<'a>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            mail,
            text: OnceCell::new(),
            signatures: OnceCell::new(),
            chain: OnceCell::new(),
            now: now.map_or(0, |now| now.as_secs()),
        }
    }

    fn raw(&self) -> RawMail<'_> {
        RawMail::read(self.text.get_or_init(|| with_line_ends(self.mail.full())))
    }

    /// The server that gave us the message.
    pub(super) fn relay(&self) -> Option<&Relay> {
        self.mail.relays().external.first()
    }

    /// The domain of the first author.
    pub(super) fn author_domain(&self) -> Option<String> {
        domain_of(&text(&self.mail.first_of("From:first:addr")?))
    }

    fn author_domains(&self) -> Vec<String> {
        let authors = self.mail.values_of("From:addr");
        authors
            .iter()
            .filter_map(|address| domain_of(&text(address)))
            .collect()
    }

    /// The envelope's sender, where the server that noted it can be believed.
    pub(super) fn envelope_sender(&self) -> Option<String> {
        if let Some(sender) = self.relay().and_then(|relay| relay.envelope_from.clone()) {
            return Some(sender.to_ascii_lowercase());
        }
        let settings = &self.mail.configuration().senders;
        if !self.mail.relays().trusted.is_empty() && !settings.trusts_envelope_sender {
            return None;
        }
        self.mail
            .first_of("EnvelopeFrom:addr")
            .map(|address| text(&address))
    }

    fn envelope_domain(&self) -> Option<String> {
        domain_of(&text(&self.mail.first_of("EnvelopeFrom:addr")?))
    }

    /// What SPF says of the envelope's sender, or of the greeting's name.
    pub(super) fn spf(&self, helo: bool, known: &Known<'_, '_>) -> Result<Option<SpfResult>, Wait> {
        if let Some(noted) = self.noted_spf(helo) {
            return Ok(Some(noted));
        }
        let Some(relay) = self.relay() else {
            return Ok(None);
        };
        let Some(address) = parse_ip(relay.ip.as_bytes()) else {
            return Ok(None);
        };
        let identity = if helo {
            Some(relay.helo.to_ascii_lowercase())
        } else {
            self.envelope_sender()
        };
        let Some(identity) = identity.filter(|identity| !identity.is_empty()) else {
            return Ok(None);
        };
        // The reader of Received fields writes the brackets of an address as exclamation marks.
        let bare = identity.trim_matches(['[', ']', '!']);
        let is_literal = parse_ip(bare.as_bytes()).is_some();
        if helo && (is_literal || !identity.contains('.')) {
            return Ok(None);
        }
        let (local_part, domain) = identity.rsplit_once('@').unwrap_or(("", &identity));
        let sender = Sender {
            address,
            local_part,
            domain,
            helo: if relay.helo.is_empty() {
                "unknown"
            } else {
                &relay.helo
            },
        };
        spf::check_host(known, sender).map(Some)
    }

    /// What a server of ours noted already, in `Received-SPF` or `Authentication-Results`.
    fn noted_spf(&self, helo: bool) -> Option<SpfResult> {
        let settings = &self.mail.configuration().senders;
        if settings.ignores_received_spf {
            return None;
        }
        let all = self.mail.values_of("ALL-INTERNAL");
        let mut noted = all
            .iter()
            .flat_map(|fields| unfold(&text(fields)))
            .filter_map(|field| noted_in(&field, helo));
        if settings.newest_received_spf {
            noted.next()
        } else {
            noted.next_back()
        }
    }

    fn is_welcome_by_spf(&self, by_default: bool, known: &Known<'_, '_>) -> Result<bool, Wait> {
        let Some(sender) = self.envelope_sender().filter(|sender| !sender.is_empty()) else {
            return Ok(false);
        };
        let names = if by_default {
            ["def_welcomelist_from_spf", "def_welcomelist_auth"]
        } else {
            ["welcomelist_from_spf", "welcomelist_auth"]
        };
        if !names.iter().any(|name| self.is_listed(name, &sender)) {
            return Ok(false);
        }
        Ok(self.spf(false, known)? == Some(SpfResult::Pass))
    }

    fn is_listed(&self, list: &str, address: &str) -> bool {
        let list = self.mail.configuration().lists.address_list(list);
        list.is_some_and(|list| list.contains(address.as_bytes()))
    }

    pub(super) fn signatures(&self, known: &Known<'_, '_>) -> Result<&[Signed], Wait> {
        if let Some(signatures) = self.signatures.get() {
            return Ok(signatures);
        }
        let signatures = dkim::verify(&self.raw(), known, self.now)?;
        Ok(self.signatures.get_or_init(|| signatures))
    }

    /// The domains of good signatures, as far as all keys are known; `None` before.
    pub(super) fn signer_domains<'x>(
        &self,
        answer: &dyn Fn(&Question) -> Option<&'x Answer>,
    ) -> Option<Vec<String>> {
        let known = Known::new(answer, false);
        let signatures = self.signatures(&known).ok()?;
        let valid = signatures.iter().filter(|signed| self.is_valid(signed));
        Some(valid.map(|signed| signed.domain.clone()).collect())
    }

    #[allow(clippy::unused_self)]
    fn is_valid(&self, signed: &Signed) -> bool {
        signed.outcome == Outcome::Pass
    }

    /// Good, and not by a key that is too short.
    fn is_strong(&self, signed: &Signed) -> bool {
        let least = self.mail.configuration().senders.key_bits_min;
        self.is_valid(signed) && signed.key_bits.is_none_or(|bits| bits >= least)
    }

    fn signed_by(
        &self,
        domains: &[String],
        known: &Known<'_, '_>,
        counts: impl Fn(&Signed) -> bool,
    ) -> Result<bool, Wait> {
        let signatures = self.signatures(known)?;
        let mut counting = signatures.iter().filter(|signed| counts(signed));
        Ok(counting.any(|signed| {
            domains.is_empty()
                || domains
                    .iter()
                    .any(|domain| is_domain(&signed.identity_domain, domain))
        }))
    }

    fn is_welcome_by_dkim(&self, by_default: bool, known: &Known<'_, '_>) -> Result<bool, Wait> {
        let settings = &self.mail.configuration().senders;
        let (signers, list) = if by_default {
            (&settings.default_signers, "def_welcomelist_auth")
        } else {
            (&settings.signers, "welcomelist_auth")
        };
        for author in self.mail.values_of("From:addr") {
            let author = text(&author);
            let own = domain_of(&author).unwrap_or_default();
            let listed = signers
                .iter()
                .filter(|signer| signer.author.is_match(author.as_bytes()));
            let mut wanted: Vec<&str> = listed.map(|signer| signer.signer.as_str()).collect();
            if self.is_listed(list, &author) {
                wanted.push("");
            }
            for wanted in wanted {
                let wanted = wanted.rsplit('@').next().unwrap_or_default();
                let domain = if wanted.is_empty() { &own } else { wanted };
                let strictly_below = domain
                    .strip_prefix("*.")
                    .or_else(|| domain.strip_prefix('.'));
                let fits = |signed: &Signed| match strictly_below {
                    Some(domain) => signed
                        .identity_domain
                        .strip_suffix(domain)
                        .is_some_and(|before| before.ends_with('.')),
                    None => signed.identity_domain == *domain,
                };
                if self.signed_by(&[], known, |signed| self.is_strong(signed) && fits(signed))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Author domain signing practices, RFC 5617: historic, but rules ask for them, and files
    /// override them.
    fn practises(
        &self,
        letters: &str,
        domains: &[String],
        known: &Known<'_, '_>,
    ) -> Result<bool, Wait> {
        let mut found = false;
        let authors = self.author_domains();
        for author in authors.iter().filter(|domain| domain.contains('.')) {
            let own = |signed: &&Signed| signed.identity_domain == *author;
            let signatures = self.signatures(known)?;
            let is_proven = signatures
                .iter()
                .filter(own)
                .any(|signed| self.is_strong(signed));
            let is_open = signatures
                .iter()
                .filter(own)
                .any(|signed| signed.outcome == Outcome::TemporaryFailure);
            if !is_proven && !is_open {
                found |= letters.contains(self.practice(author, known)?);
            }
        }
        let is_meant = |author: &String| domains.iter().any(|domain| is_domain(author, domain));
        Ok(found && (domains.is_empty() || authors.iter().any(is_meant)))
    }

    fn practice(&self, domain: &str, known: &Known<'_, '_>) -> Result<char, Wait> {
        let overrides = &self.mail.configuration().senders.practices;
        if let Some(practice) = overrides.get(domain) {
            return Ok(*practice);
        }
        let mut rest = domain;
        while let Some((_, parent)) = rest.split_once('.') {
            if let Some(practice) = overrides.get(&format!("*.{parent}")) {
                return Ok(*practice);
            }
            rest = parent;
        }
        let published = known.look(&format!("_adsp._domainkey.{domain}"), Kind::Txt);
        let exists = known.look(domain, Kind::Mx);
        if let Looked::Records(records) = published? {
            let practice = texts(records).find_map(|text| dkim::Tags::parse(text)?.text("dkim"));
            match practice.as_deref() {
                Some("all") => return Ok('A'),
                Some("discardable") => return Ok('D'),
                Some(_) => return Ok('U'),
                None => {}
            }
        }
        Ok(match exists? {
            Looked::Nothing { exists: false } => 'N',
            _ => 'U',
        })
    }

    fn chain(&self, known: &Known<'_, '_>) -> Result<Chain, Wait> {
        if let Some(chain) = self.chain.get() {
            return Ok(*chain);
        }
        let chain = arc::verify(&self.raw(), known, self.now)?;
        Ok(*self.chain.get_or_init(|| chain))
    }

    pub(super) fn dmarc(&self, known: &Known<'_, '_>) -> Result<Option<DmarcResult>, Wait> {
        let Some(relay) = self.relay() else {
            return Ok(None);
        };
        let Some(author) = self.author_domain() else {
            return Ok(None);
        };
        let boundaries = &self.mail.configuration().boundaries;
        let registered = |host: &str| boundaries.registered(host);
        // All at once: what is asked does not depend on what is proven.
        let _ = dmarc::verify(&author, &Proven::default(), &registered, known);
        let (by_sender, by_greeting) = (self.spf(false, known), self.spf(true, known));
        let signatures = self.signatures(known)?;
        let (by_sender, by_greeting) = (by_sender?, by_greeting?);
        let sender = self.envelope_domain().unwrap_or_else(|| author.clone());
        let mut proven = Proven::default();
        if by_sender == Some(SpfResult::Pass) {
            proven.senders.push(&sender);
        }
        if by_greeting == Some(SpfResult::Pass) {
            proven.senders.push(&relay.helo);
        }
        let valid = signatures.iter().filter(|signed| self.is_valid(signed));
        proven
            .signers
            .extend(valid.map(|signed| signed.domain.as_str()));
        dmarc::verify(&author, &proven, &registered, known).map(Some)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_ascii_lowercase()
}

fn domain_of(address: &str) -> Option<String> {
    let (_, domain) = address.rsplit_once('@')?;
    Some(domain.trim_matches(['>', '.', ' ']).to_owned()).filter(|domain| !domain.is_empty())
}

/// `wanted` is a domain, or `*.domain` or `.domain` for it and all below.
fn is_domain(domain: &str, wanted: &str) -> bool {
    let with_below = wanted
        .strip_prefix("*.")
        .or_else(|| wanted.strip_prefix('.'));
    match with_below {
        None => domain == wanted,
        Some(wanted) => domain
            .strip_suffix(wanted)
            .is_some_and(|before| before.is_empty() || before.ends_with('.')),
    }
}

/// Fields one by one, each on one line.
fn unfold(fields: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in fields.lines() {
        match all.last_mut() {
            Some(field) if line.starts_with([' ', '\t']) => field.push_str(line),
            _ => all.push(line.to_owned()),
        }
    }
    all
}

/// The result that a field (in lower case) notes for the identity that is asked about.
fn noted_in(field: &str, helo: bool) -> Option<SpfResult> {
    let word = |text: &str| -> String {
        let end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-';
        text.split(end).next().unwrap_or_default().to_owned()
    };
    let (result, identity) = if let Some(value) = field.strip_prefix("received-spf:") {
        let identity = value.split_once("identity=").map(|(_, rest)| word(rest));
        (word(value.trim_start()), identity)
    } else {
        let value = field
            .strip_prefix("arc-")
            .unwrap_or(field)
            .strip_prefix("authentication-results:")?;
        let clause = value.split(';').map(str::trim).find_map(|clause| {
            let rest = clause.strip_prefix("spf")?.trim_start().strip_prefix('=')?;
            Some(rest.trim_start())
        })?;
        let identity = clause.split_once("smtp.").map(|(_, rest)| word(rest));
        (word(clause), identity)
    };
    let is_of_greeting = match identity.as_deref() {
        None | Some("mfrom" | "mailfrom") => false,
        Some("helo") => true,
        Some(_) => return None,
    };
    (is_of_greeting == helo).then(|| SpfResult::named(&result))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_servers_noted() {
        for (field, helo, expected) in [
            (
                "received-spf: pass (mx: domain of a@b.example) identity=mailfrom; client-ip=192.0.2.1",
                false,
                Some(SpfResult::Pass),
            ),
            (
                "received-spf: softfail identity=helo; x",
                true,
                Some(SpfResult::SoftFail),
            ),
            ("received-spf: softfail identity=helo; x", false, None),
            ("received-spf: fail", false, Some(SpfResult::Fail)),
            ("received-spf: moon", false, None),
            ("received-spf: pass identity=pra", false, None),
            (
                "authentication-results: mx; dkim=pass; spf=hardfail smtp.mailfrom=x",
                false,
                Some(SpfResult::Fail),
            ),
            (
                "arc-authentication-results: i=1; spf=none smtp.helo=x",
                true,
                Some(SpfResult::None),
            ),
            ("subject: spf=pass", false, None),
        ] {
            assert_eq!(noted_in(field, helo), expected, "{field}");
        }
    }
}
