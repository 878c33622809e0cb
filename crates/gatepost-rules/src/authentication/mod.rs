//! Sender authentication: SPF (RFC 7208), DKIM (RFC 6376), ARC (RFC 8617) and DMARC (RFC 7489).
//!
//! This module sends no queries. A check evaluates the DNS responses that are [`DnsResponses`] so
//! far; if one is missing, the check records the question, returns [`AnswerPending`], and runs
//! again when more responses have arrived. So the queries of all checks are sent together with
//! those of all other rules, over the same socket and under the same deadline, and a test needs
//! only a table of responses.

pub(crate) mod arc;
pub(crate) mod dkim;
pub(crate) mod dmarc;
pub(crate) mod settings;
pub(crate) mod spf;

use std::cell::RefCell;

use gatepost_dns::{Question, QuestionOutcome, RecordData, RecordType};

/// A check cannot continue before a query is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerPending;

/// The response for a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordLookup<'a> {
    /// Records of the requested kind, at least one.
    Records(&'a [RecordData]),
    /// There are no records of this kind, and possibly no such name.
    Nothing {
        /// Whether the name exists.
        exists: bool,
    },
    /// The query failed, or the response was late.
    Failed,
}

/// The responses so far, and the open questions.
pub(crate) struct DnsResponses<'k, 'a> {
    answer: &'k dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
    wanted: RefCell<Vec<Question>>,
    /// The deadline has passed: no further responses arrive.
    is_final: bool,
}

impl<'k, 'a> DnsResponses<'k, 'a> {
    /// Uses a table of responses.
    pub(crate) fn new(
        answer: &'k dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
        is_final: bool,
    ) -> Self {
        Self {
            answer,
            wanted: RefCell::default(),
            is_final,
        }
    }

    /// The records of a kind for a name.
    pub(crate) fn lookup(
        &self,
        name: &str,
        kind: RecordType,
    ) -> Result<RecordLookup<'a>, AnswerPending> {
        let question = Question::new(name, kind);
        if !question.is_valid() {
            return Ok(RecordLookup::Nothing { exists: false });
        }
        match (self.answer)(&question) {
            Some(QuestionOutcome::Records(records)) if records.is_empty() => {
                Ok(RecordLookup::Nothing { exists: true })
            }
            Some(QuestionOutcome::Records(records)) => Ok(RecordLookup::Records(records)),
            Some(QuestionOutcome::NoSuchName) => Ok(RecordLookup::Nothing { exists: false }),
            Some(QuestionOutcome::Failed(_)) => Ok(RecordLookup::Failed),
            None if self.is_final => Ok(RecordLookup::Failed),
            None => {
                self.wanted.borrow_mut().push(question);
                Err(AnswerPending)
            }
        }
    }

    /// The questions for which checks are waiting.
    pub(crate) fn into_questions(self) -> Vec<Question> {
        self.wanted.into_inner()
    }
}

/// Authenticates the sender of any message with any records, for fuzzing: the message ends at the
/// first NUL, and the rest is the record of every name.
#[doc(hidden)]
pub fn check_any(data: &[u8]) {
    let end = memchr::memchr(0, data).unwrap_or(data.len());
    let (message, record) = data.split_at(end);
    let texts = QuestionOutcome::Records(vec![RecordData::Text(
        record.get(1..).unwrap_or_default().to_vec(),
    )]);
    let others = QuestionOutcome::Records(vec![
        RecordData::A([192, 0, 2, 7].into()),
        RecordData::Name("a.example".to_owned()),
    ]);
    let answer = |question: &Question| match question.kind {
        RecordType::Txt => Some(&texts),
        _ => Some(&others),
    };
    let known = DnsResponses::new(&answer, true);
    let message = dkim::with_line_ends(message);
    let mail = dkim::RawMail::read(&message);
    let signatures = dkim::read(&mail, 0);
    let all = signatures.iter().map(dkim::ReadSignature::signature);
    if let Ok(keys) = dkim::fetch_keys(all, &known) {
        dkim::verify(&mail, &signatures, &keys);
    }
    let chain = arc::ArcChain::read(&mail, 0);
    if let Ok(keys) = chain.fetch_keys(&known) {
        chain.verify(&mail, &keys);
    }
    let sender = spf::SpfSender {
        address: [192, 0, 2, 7].into(),
        local_part: "anna",
        domain: "a.example",
        helo: "b.example",
    };
    let _ = spf::check_host(&known, sender);
    let registered = |host: &str| host.to_owned();
    let _ = dmarc::verify(
        "a.example",
        &dmarc::AuthenticatedDomains::default(),
        &registered,
        &known,
    );
}

/// The texts among records.
pub(crate) fn texts(records: &[RecordData]) -> impl Iterator<Item = &[u8]> {
    records.iter().filter_map(|record| match record {
        RecordData::Text(text) => Some(text.as_slice()),
        _ => None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    //! A table of names for the checks' tests.

    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use gatepost_dns::ServerFailure;

    proptest! {
        #[test]
        fn no_message_and_no_record_breaks_a_check(
            message in "(DKIM-Signature|ARC-Seal|ARC-Message-Signature|From|x): [vabdhisxltc=;:/1 \
                a-z@.\r\n]{0,80}",
            record in "(v=spf1|v=DKIM1;|v=DMARC1;)( \
                [-+~?]?(a|mx|ip4|include|exists|redirect)[:=/%{}a-z0-9.]{0,12}|\
                [a-z]=[a-zA-Z0-9+/]{0,9};){0,6}",
        ) {
            check_any(format!("{message}\n\nx\0{record}").as_bytes());
        }
    }

    /// Responses from lines `NAME KIND VALUE`; a name without lines does not exist, and the value
    /// `SERVFAIL` is a failed query.
    pub(crate) struct Zone(HashMap<Question, QuestionOutcome>);

    impl Zone {
        pub(crate) fn read(lines: &str) -> Self {
            let mut table: HashMap<Question, QuestionOutcome> = HashMap::new();
            let mut names = Vec::new();
            for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let (name, rest) = line.split_once(' ').expect("a name");
                let (kind, value) = rest.split_once(' ').expect("a kind");
                let kind = RecordType::named(kind).expect("a known kind");
                let record = match kind {
                    RecordType::A => RecordData::A(value.parse().unwrap_or([0, 0, 0, 0].into())),
                    RecordType::Aaaa => RecordData::Aaaa(value.parse().expect("an address")),
                    RecordType::Txt => RecordData::Text(value.as_bytes().to_vec()),
                    RecordType::Mx => RecordData::Exchanger {
                        preference: 10,
                        name: value.to_owned(),
                    },
                    RecordType::Ns | RecordType::Ptr => RecordData::Name(value.to_owned()),
                    RecordType::Tlsa => panic!("no message is proved by it"),
                };
                names.push(name.to_owned());
                let answer = table
                    .entry(Question::new(name, kind))
                    .or_insert_with(|| QuestionOutcome::Records(Vec::new()));
                match answer {
                    _ if value == "SERVFAIL" => {
                        *answer = QuestionOutcome::Failed(ServerFailure::Server(2));
                    }
                    QuestionOutcome::Records(records) => records.push(record),
                    _ => {}
                }
            }
            for name in names {
                for kind in [
                    RecordType::A,
                    RecordType::Aaaa,
                    RecordType::Txt,
                    RecordType::Mx,
                    RecordType::Ns,
                    RecordType::Ptr,
                ] {
                    table
                        .entry(Question::new(&name, kind))
                        .or_insert_with(|| QuestionOutcome::Records(Vec::new()));
                }
            }
            Self(table)
        }

        pub(crate) fn answer(&self, question: &Question) -> &QuestionOutcome {
            self.0.get(question).unwrap_or(&QuestionOutcome::NoSuchName)
        }
    }

    #[test]
    fn unanswered_questions_are_repeated_until_the_deadline() {
        let nothing = |_: &Question| None;
        let known = DnsResponses::new(&nothing, false);
        assert_eq!(
            known.lookup("a.example", RecordType::A).unwrap_err(),
            AnswerPending
        );
        assert!(matches!(
            known.lookup("a..example", RecordType::A),
            Ok(RecordLookup::Nothing { exists: false })
        ));
        assert_eq!(
            known.into_questions(),
            [Question::new("a.example", RecordType::A)]
        );
        let known = DnsResponses::new(&nothing, true);
        assert!(matches!(
            known.lookup("a.example", RecordType::A),
            Ok(RecordLookup::Failed)
        ));
    }
}
