//! `/greylist`: defers the first mail of an unknown sender. Mail servers retry after some minutes;
//! most programs that send spam do not.
//!
//! A sender is known by its client, its address and the recipient. The client is the domain of the
//! sender if SPF permits the client's address, so that a domain may retry from any of its servers;
//! otherwise it is the client's network. A mail with several recipients is deferred until the delay
//! is over for all of them.
//!
//! Invariants: the table is bounded and ages by the store's time; a full table and a database that
//! fails admit mail; a mail is deferred with 4xx only, never rejected.

mod entry;
mod table;
mod triplet;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Action, Format, Message, Verdict};
use gatepost_rules::SpfLookup;
use gatepost_settings::{PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::host::{GreylistDecision, Resources};
use crate::procedure::{
    Needs, PendingJudgement, Procedure, ProcedureCall, ProcedureFailure, ProcedureResult, Wake,
};
use table::{GreylistOutcome, GreylistTable};
use triplet::Triplets;

/// `[procedure."/greylist"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct GreylistSettings {
    /// The time after the first attempt from which on a retry is admitted.
    pub delay: Period,
    /// The time after the first attempt in which a retry counts; a later one is a first attempt.
    pub retry_within: Period,
    /// The time for which an admitted sender, and a client that retries, are remembered after their
    /// last mail.
    pub remember: Period,
    /// A client (a network, or a domain that SPF confirms) is exempt after this many senders and
    /// recipients whose mail it has retried; 0 for never.
    pub exempt_after: u32,
    /// Whether the sender's domain is asked for its SPF record, so that its servers count as one
    /// client. Queries go to the servers of `procedures.dns`.
    pub spf: bool,
    /// The time limit of the SPF queries; afterwards the client's network counts.
    pub spf_timeout: Period,
    /// Clients that are never deferred: addresses and networks.
    #[serde(with = "crate::text_values::list")]
    pub exempt_networks: Vec<PeerNetwork>,
    /// Senders and clients that are remembered at once; when they are reached, unknown senders are
    /// admitted.
    pub entries_max: usize,
}

impl Default for GreylistSettings {
    fn default() -> Self {
        let local = [
            "127.0.0.0/8",
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "::1",
            "fc00::/7",
            "fe80::/10",
        ];
        Self {
            delay: Period::seconds(5 * 60),
            retry_within: Period::seconds(2 * 86_400),
            remember: Period::seconds(35 * 86_400),
            exempt_after: 5,
            spf: true,
            spf_timeout: Period::seconds(5),
            exempt_networks: local.iter().filter_map(|text| text.parse().ok()).collect(),
            entries_max: 50_000,
        }
    }
}

pub(crate) struct Greylist(Arc<GreylistCore>);

struct GreylistCore {
    settings: GreylistSettings,
    resources: Arc<Resources>,
}

impl Greylist {
    pub(crate) fn new(
        settings: GreylistSettings,
        resources: &Arc<Resources>,
    ) -> Result<Self, String> {
        let (delay, retry) = (settings.delay.duration(), settings.retry_within.duration());
        if delay >= retry {
            return Err("retry_within must be longer than delay".to_owned());
        }
        Ok(Self(Arc::new(GreylistCore {
            settings,
            resources: Arc::clone(resources),
        })))
    }
}

impl Procedure for Greylist {
    fn needs(&self) -> Needs {
        Needs::Size
    }

    fn start(&self, call: &ProcedureCall<'_>) -> ProcedureResult {
        let core = &self.0;
        let message = call.message;
        let (triplets, address) = match core.exemption(message) {
            Ok(applicable) => applicable,
            Err(decision) => return core.answer(GreylistOutcome::of(decision)),
        };
        let table = core.table();
        if let Some(known) = table.known(&triplets) {
            return core.answer(known);
        }
        let Some((local_part, domain)) = triplet::spf_identity(message) else {
            return core.judge(&triplets);
        };
        if triplet::has_passed_spf(call.so_far, domain) {
            return core.judge(&triplets.of_domain(domain));
        }
        if !core.settings.spf {
            return core.judge(&triplets);
        }
        let time_max = core.settings.spf_timeout.duration();
        let time_max = call.time_max.map_or(time_max, |left| left.min(time_max));
        let lookup = core.resources.dns.lookup(Instant::now() + time_max);
        let helo = message.envelope.client.as_deref().unwrap_or("unknown");
        let pending = Box::new(PendingGreylist {
            spf: SpfLookup::new(lookup, address, (local_part, domain), helo),
            triplets,
            core: Arc::clone(core),
        });
        pending.resume()
    }

    /// Without a database, mail is not deferred.
    fn on_failure(&self) -> Action {
        Action::Accept
    }
}

impl GreylistCore {
    fn table(&self) -> GreylistTable<'_> {
        let values = &self.resources.host.values;
        GreylistTable::new(values, &self.settings, values.time())
    }

    /// The parts of the message that count and the client's address, or the reason for which the
    /// message is exempt.
    fn exemption(&self, message: &Message) -> Result<(Triplets, IpAddr), GreylistDecision> {
        let envelope = &message.envelope;
        let networks = &self.settings.exempt_networks;
        let allowed = self.resources.host.memory.allowed_senders.get();
        if message.format != Format::Mail {
            return Err(GreylistDecision::NotApplicable);
        }
        if envelope.user.is_some() {
            return Err(GreylistDecision::LoggedIn);
        }
        let Some((triplets, address)) = Triplets::of(envelope) else {
            return Err(GreylistDecision::NotApplicable);
        };
        if networks.iter().any(|network| network.holds(Some(address))) {
            return Err(GreylistDecision::ExemptNetwork);
        }
        let sender = envelope.sender.as_deref().unwrap_or_default();
        if allowed.is_some_and(|allowed| allowed.has(sender)) {
            return Err(GreylistDecision::AllowedSender);
        }
        Ok((triplets, address))
    }

    fn judge(&self, triplets: &Triplets) -> ProcedureResult {
        match self.table().judge(triplets) {
            Ok(outcome) => self.answer(outcome),
            Err(error) => ProcedureResult::Done(Err(ProcedureFailure(error.to_string()))),
        }
    }

    fn answer(&self, outcome: GreylistOutcome) -> ProcedureResult {
        self.resources.host.memory.greylist.count(outcome.decision);
        let verdict = Verdict::new(outcome.decision.action(), outcome.reason());
        ProcedureResult::Done(Ok(verdict.into()))
    }
}

/// A mail whose SPF queries are in progress.
struct PendingGreylist {
    spf: SpfLookup,
    triplets: Triplets,
    core: Arc<GreylistCore>,
}

impl PendingJudgement for PendingGreylist {
    fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        let progress = self.spf.progress();
        Box::new(move |wake| progress.then(wake))
    }

    fn resume(mut self: Box<Self>) -> ProcedureResult {
        match self.spf.passes() {
            None => ProcedureResult::Pending(self),
            Some(true) => {
                let triplets = self.triplets.of_domain(self.spf.domain());
                // The domain may be known while this network is not.
                match self.core.table().known(&triplets) {
                    Some(known) => self.core.answer(known),
                    None => self.core.judge(&triplets),
                }
            }
            Some(false) => self.core.judge(&self.triplets),
        }
    }
}
