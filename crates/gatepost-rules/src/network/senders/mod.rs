//! Rules about sender authentication: SPF, DKIM, ARC, DMARC, and their combination with welcome
//! lists, as in SpamAssassin's plugins of these names.

mod recorded_results;
mod sender_test;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::time::{SystemTime, UNIX_EPOCH};

use gatepost_dns::{Question, QuestionOutcome, RecordType};
use gatepost_mail::{Relay, is_fully_qualified, parse_ip};

use crate::authentication::arc::{ArcChain, ArcResult};
use crate::authentication::dkim::{
    self, DkimResult, RawMail, ReadSignature, SignatureResult, with_line_ends,
};
use crate::authentication::dmarc::{self, AuthenticatedDomains, DmarcResult};
use crate::authentication::settings::SenderSettings;
use crate::authentication::spf::{self, SpfResult, SpfSender};
use crate::authentication::{AnswerPending, DnsResponses, RecordLookup, texts};
use crate::eval::ScannedMail;
use recorded_results::{recorded_results_in, unfold};
pub(crate) use sender_test::SenderTest;

/// The results so far for a message's senders.
pub(super) struct SenderFindings {
    /// The message with CRLF at the end of every line; `None` if it has them already.
    text: OnceCell<Option<Vec<u8>>>,
    /// The signatures and the chain as read: many rules ask for them after each response.
    read_signatures: OnceCell<Vec<ReadSignature>>,
    read_chain: OnceCell<ArcChain>,
    signatures: OnceCell<Vec<SignatureResult>>,
    chain: OnceCell<ArcResult>,
    /// The time in seconds since 1970, against which the expiry of signatures is checked.
    now: u64,
}

impl SenderFindings {
    pub(super) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            text: OnceCell::new(),
            read_signatures: OnceCell::new(),
            read_chain: OnceCell::new(),
            signatures: OnceCell::new(),
            chain: OnceCell::new(),
            now: now.map_or(0, |now| now.as_secs()),
        }
    }
}

/// The senders of a message: their addresses, and the results.
pub(super) struct Senders<'m, 'a> {
    mail: &'m ScannedMail<'a>,
    settings: &'m SenderSettings,
    found: &'m SenderFindings,
}

impl<'m, 'a> Senders<'m, 'a> {
    pub(super) const fn of(
        mail: &'m ScannedMail<'a>,
        settings: &'m SenderSettings,
        found: &'m SenderFindings,
    ) -> Self {
        Self {
            mail,
            settings,
            found,
        }
    }

    fn raw(&self) -> RawMail<'_> {
        let full = self.mail.full();
        let converted = self.found.text.get_or_init(|| match with_line_ends(full) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        });
        RawMail::read(converted.as_deref().unwrap_or(full))
    }

    /// The server that delivered the message to us.
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

    /// The envelope sender that the server that delivered the message to us named, if it is
    /// known: the given one without a trusted server between, otherwise the one that the trusted
    /// server recorded.
    pub(super) fn envelope_sender(&self) -> Option<String> {
        let is_direct = self.mail.relays().trusted.is_empty();
        if is_direct && let Some(sender) = self.mail.given_envelope_sender() {
            return Some(text(sender));
        }
        if let Some(sender) = self.relay().and_then(|relay| relay.envelope_from.clone()) {
            return Some(sender.to_ascii_lowercase());
        }
        let settings = self.settings;
        if !is_direct && !settings.trusts_envelope_sender {
            return None;
        }
        self.mail
            .first_of("EnvelopeFrom:addr")
            .map(|address| text(&address))
    }

    fn envelope_domain(&self) -> Option<String> {
        domain_of(&text(&self.mail.first_of("EnvelopeFrom:addr")?))
    }

    /// The envelope sender that [`Self::spf`] has the result for. A result that a trusted server
    /// recorded is for the sender that this server received.
    pub(super) fn spf_sender(&self) -> Option<String> {
        if self.noted_spf(false).is_none() {
            return self.envelope_sender();
        }
        let sender = self.mail.first_of("EnvelopeFrom:addr");
        sender.map(|address| text(&address))
    }

    /// The SPF result for the envelope sender, or for the HELO name.
    pub(super) fn spf(
        &self,
        helo: bool,
        known: &DnsResponses<'_, '_>,
    ) -> Result<Option<SpfResult>, AnswerPending> {
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
        // The parser of Received fields replaces the brackets of an address by exclamation marks.
        let bare = identity.trim_matches(['[', ']', '!']);
        let is_literal = parse_ip(bare.as_bytes()).is_some();
        if helo && (is_literal || !identity.contains('.')) {
            return Ok(None);
        }
        let (local_part, domain) = identity.rsplit_once('@').unwrap_or(("", &identity));
        let sender = SpfSender {
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

    /// The result that a trusted server already recorded in `Received-SPF` or
    /// `Authentication-Results`.
    fn noted_spf(&self, helo: bool) -> Option<SpfResult> {
        let settings = self.settings;
        if settings.ignores_received_spf {
            return None;
        }
        let all = self.mail.values_of("ALL-INTERNAL");
        let mut noted = all
            .iter()
            .flat_map(|fields| unfold(&text(fields)))
            .filter_map(|field| recorded_results_in(&field, helo));
        if settings.newest_received_spf {
            noted.next()
        } else {
            noted.next_back()
        }
    }

    fn is_welcome_by_spf(
        &self,
        by_default: bool,
        known: &DnsResponses<'_, '_>,
    ) -> Result<bool, AnswerPending> {
        let Some(sender) = self.spf_sender().filter(|sender| !sender.is_empty()) else {
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
        let list = self.mail.settings().address_list(list);
        list.is_some_and(|list| list.contains(address.as_bytes()))
    }

    pub(super) fn signatures(
        &self,
        known: &DnsResponses<'_, '_>,
    ) -> Result<&[SignatureResult], AnswerPending> {
        if let Some(signatures) = self.found.signatures.get() {
            return Ok(signatures);
        }
        let found = self.found;
        let read = found
            .read_signatures
            .get_or_init(|| dkim::read(&self.raw(), found.now));
        let keys = dkim::fetch_keys(read.iter().map(ReadSignature::signature), known)?;
        Ok(found
            .signatures
            .get_or_init(|| dkim::verify(&self.raw(), read, &keys)))
    }

    /// The domains of valid signatures, once all keys are known; `None` before.
    pub(super) fn signer_domains<'x>(
        &self,
        answer: &dyn Fn(&Question) -> Option<&'x QuestionOutcome>,
    ) -> Option<Vec<String>> {
        let known = DnsResponses::new(answer, false);
        let signatures = self.signatures(&known).ok()?;
        let valid = signatures.iter().filter(|signed| self.is_valid(signed));
        Some(valid.map(|signed| signed.domain.clone()).collect())
    }

    #[allow(clippy::unused_self)]
    fn is_valid(&self, signed: &SignatureResult) -> bool {
        signed.outcome == DkimResult::Pass
    }

    /// Valid, and with a key that is long enough.
    fn is_strong(&self, signed: &SignatureResult) -> bool {
        let least = self.settings.key_bits_min;
        self.is_valid(signed) && signed.key_bits.is_none_or(|bits| bits >= least)
    }

    fn signed_by(
        &self,
        domains: &[String],
        known: &DnsResponses<'_, '_>,
        counts: impl Fn(&SignatureResult) -> bool,
    ) -> Result<bool, AnswerPending> {
        let signatures = self.signatures(known)?;
        let mut counting = signatures.iter().filter(|signed| counts(signed));
        Ok(counting.any(|signed| {
            domains.is_empty()
                || domains
                    .iter()
                    .any(|domain| is_domain(&signed.identity_domain, domain))
        }))
    }

    fn is_welcome_by_dkim(
        &self,
        by_default: bool,
        known: &DnsResponses<'_, '_>,
    ) -> Result<bool, AnswerPending> {
        let settings = self.settings;
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
                let fits = |signed: &SignatureResult| match strictly_below {
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

    /// Author domain signing practices, RFC 5617: historic, but rules use them, and rule files
    /// override them.
    fn practises(
        &self,
        letters: &str,
        domains: &[String],
        known: &DnsResponses<'_, '_>,
    ) -> Result<bool, AnswerPending> {
        let mut found = false;
        let authors = self.author_domains();
        for author in authors.iter().filter(|domain| domain.contains('.')) {
            let own = |signed: &&SignatureResult| signed.identity_domain == *author;
            let signatures = self.signatures(known)?;
            let is_proven = signatures
                .iter()
                .filter(own)
                .any(|signed| self.is_strong(signed));
            let is_open = signatures
                .iter()
                .filter(own)
                .any(|signed| signed.outcome == DkimResult::TemporaryFailure);
            if !is_proven && !is_open {
                found |= letters.contains(self.practice(author, known)?);
            }
        }
        let is_meant = |author: &String| domains.iter().any(|domain| is_domain(author, domain));
        Ok(found && (domains.is_empty() || authors.iter().any(is_meant)))
    }

    fn practice(&self, domain: &str, known: &DnsResponses<'_, '_>) -> Result<char, AnswerPending> {
        let overrides = &self.settings.practices;
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
        let published = known.lookup(&format!("_adsp._domainkey.{domain}"), RecordType::Txt);
        let exists = known.lookup(domain, RecordType::Mx);
        if let RecordLookup::Records(records) = published? {
            let practice = texts(records).find_map(|text| dkim::Tags::parse(text)?.text("dkim"));
            match practice.as_deref() {
                Some("all") => return Ok('A'),
                Some("discardable") => return Ok('D'),
                Some(_) => return Ok('U'),
                None => {}
            }
        }
        Ok(match exists? {
            RecordLookup::Nothing { exists: false } => 'N',
            _ => 'U',
        })
    }

    fn chain(&self, known: &DnsResponses<'_, '_>) -> Result<ArcResult, AnswerPending> {
        if let Some(chain) = self.found.chain.get() {
            return Ok(*chain);
        }
        let found = self.found;
        let read = found
            .read_chain
            .get_or_init(|| ArcChain::read(&self.raw(), found.now));
        let keys = read.fetch_keys(known)?;
        Ok(*found.chain.get_or_init(|| read.verify(&self.raw(), &keys)))
    }

    pub(super) fn dmarc(
        &self,
        known: &DnsResponses<'_, '_>,
    ) -> Result<Option<DmarcResult>, AnswerPending> {
        let Some(relay) = self.relay() else {
            return Ok(None);
        };
        let boundaries = &self.mail.view_settings().boundaries;
        let is_name =
            |host: &String| boundaries.is_valid(host) && is_fully_qualified(host.as_bytes());
        let Some(author) = self.author_domain().filter(is_name) else {
            return Ok(None);
        };
        let registered = |host: &str| boundaries.registered(host);
        // All at once: the queries do not depend on the results.
        let _ = dmarc::verify(
            &author,
            &AuthenticatedDomains::default(),
            &registered,
            known,
        );
        let (by_sender, by_greeting) = (self.spf(false, known), self.spf(true, known));
        let signatures = self.signatures(known)?;
        let (by_sender, by_greeting) = (by_sender?, by_greeting?);
        // RFC 7489, section 3.1.2: the domain that SPF authenticated, and no other.
        let sender = self.spf_sender().as_deref().and_then(domain_of);
        let mut proven = AuthenticatedDomains::default();
        if by_sender == Some(SpfResult::Pass) {
            proven.senders.extend(sender.as_deref());
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

/// `wanted` is a domain, or `*.domain` or `.domain` for it and its subdomains.
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
