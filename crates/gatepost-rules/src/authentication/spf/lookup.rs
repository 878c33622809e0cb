//! A check of SPF alone, for callers that need no other rule.

use std::net::IpAddr;

use gatepost_dns::{Lookup, LookupProgress, Question, QuestionOptions};

use super::{SpfResult, SpfSender, check_host};
use crate::authentication::DnsResponses;

/// A check of SPF whose queries are in progress.
pub struct SpfLookup {
    address: IpAddr,
    local_part: String,
    domain: String,
    helo: String,
    lookup: Lookup,
}

impl SpfLookup {
    /// Checks whether `domain` permits `address` to send mail of `local_part`, with the queries of
    /// `lookup`, which end at its deadline.
    pub fn new(
        lookup: Lookup,
        address: IpAddr,
        (local_part, domain): (&str, &str),
        helo: &str,
    ) -> Self {
        Self {
            address,
            local_part: local_part.to_owned(),
            domain: domain.to_owned(),
            helo: helo.to_owned(),
            lookup,
        }
    }

    /// The domain that is checked.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Reports when [`SpfLookup::passes`] may know more.
    pub fn progress(&self) -> LookupProgress {
        self.lookup.progress()
    }

    /// Whether the domain permits the address; `None` while queries are open, of which it sends
    /// those that are needed next. A query that fails counts as "no".
    pub fn passes(&mut self) -> Option<bool> {
        self.lookup.take_arrived();
        match self.evaluate(false) {
            Ok(result) => return Some(result == SpfResult::Pass),
            Err(wanted) => {
                for question in &wanted {
                    let options = QuestionOptions {
                        leads_further: true,
                        ..QuestionOptions::default()
                    };
                    self.lookup.query(question, options);
                }
            }
        }
        // All have ended, and one of them without an answer.
        self.lookup.is_complete().then(|| {
            self.evaluate(true)
                .is_ok_and(|result| result == SpfResult::Pass)
        })
    }

    /// The result, or the questions that must be answered first.
    fn evaluate(&self, is_final: bool) -> Result<SpfResult, Vec<Question>> {
        let answer = |question: &Question| self.lookup.answer(question);
        let known = DnsResponses::new(&answer, is_final);
        let sender = SpfSender {
            address: self.address,
            local_part: &self.local_part,
            domain: &self.domain,
            helo: &self.helo,
        };
        check_host(&known, sender).map_err(|_| known.into_questions())
    }
}
