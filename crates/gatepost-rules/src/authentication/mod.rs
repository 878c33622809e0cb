//! Who a message really comes from: SPF (RFC 7208), DKIM (RFC 6376), ARC (RFC 8617) and DMARC
//! (RFC 7489).
//!
//! Nothing here asks the network. A check runs on the answers that are [`Known`] so far; where one
//! is missing, it notes the question and says [`Wait`], and runs anew when more was answered. So the
//! questions of all checks go out together with those of all other rules, over the same socket and
//! under the same deadline, and a test needs no server but a table.

pub(crate) mod arc;
pub(crate) mod dkim;
pub(crate) mod dmarc;
pub(crate) mod settings;
pub(crate) mod spf;

use std::cell::RefCell;

use crate::network::{Answer, Kind, Question, Record};

/// A check cannot go on before a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait;

/// What is known of a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Looked<'a> {
    /// Records of the kind that was asked for, at least one.
    Records(&'a [Record]),
    /// There are none of this kind; perhaps there is not even such a name.
    Nothing {
        /// Whether the name exists.
        exists: bool,
    },
    /// The server could not say, or not in time.
    Failed,
}

/// The answers so far, and the questions that are still open.
pub(crate) struct Known<'k, 'a> {
    answer: &'k dyn Fn(&Question) -> Option<&'a Answer>,
    wanted: RefCell<Vec<Question>>,
    /// The time is over: what was not answered never will be.
    is_final: bool,
}

impl<'k, 'a> Known<'k, 'a> {
    /// With a table of answers.
    pub(crate) fn new(
        answer: &'k dyn Fn(&Question) -> Option<&'a Answer>,
        is_final: bool,
    ) -> Self {
        Self {
            answer,
            wanted: RefCell::default(),
            is_final,
        }
    }

    /// What a name has of a kind of records.
    pub(crate) fn look(&self, name: &str, kind: Kind) -> Result<Looked<'a>, Wait> {
        let question = Question::new(name, kind);
        if !question.can_be_asked() {
            return Ok(Looked::Nothing { exists: false });
        }
        match (self.answer)(&question) {
            Some(Answer::Records(records)) if records.is_empty() => {
                Ok(Looked::Nothing { exists: true })
            }
            Some(Answer::Records(records)) => Ok(Looked::Records(records)),
            Some(Answer::NoSuchName) => Ok(Looked::Nothing { exists: false }),
            Some(Answer::Failed) => Ok(Looked::Failed),
            None if self.is_final => Ok(Looked::Failed),
            None => {
                self.wanted.borrow_mut().push(question);
                Err(Wait)
            }
        }
    }

    /// The questions that checks are waiting for.
    pub(crate) fn into_wanted(self) -> Vec<Question> {
        self.wanted.into_inner()
    }
}

/// The texts among records.
pub(crate) fn texts(records: &[Record]) -> impl Iterator<Item = &[u8]> {
    records.iter().filter_map(|record| match record {
        Record::Text(text) => Some(text.as_slice()),
        _ => None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    //! A table of names for the checks' tests.

    use std::collections::HashMap;

    use super::*;

    /// Answers from lines `NAME KIND VALUE`; a name without any does not exist, and the value
    /// `SERVFAIL` is a server that cannot say.
    pub(crate) struct Zone(HashMap<Question, Answer>);

    impl Zone {
        pub(crate) fn read(lines: &str) -> Self {
            let mut table: HashMap<Question, Answer> = HashMap::new();
            let mut names = Vec::new();
            for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let (name, rest) = line.split_once(' ').expect("a name");
                let (kind, value) = rest.split_once(' ').expect("a kind");
                let kind = Kind::named(kind).expect("a known kind");
                let record = match kind {
                    Kind::A => Record::A(value.parse().unwrap_or([0, 0, 0, 0].into())),
                    Kind::Aaaa => Record::Aaaa(value.parse().expect("an address")),
                    Kind::Txt => Record::Text(value.as_bytes().to_vec()),
                    _ => Record::Name(value.to_owned()),
                };
                names.push(name.to_owned());
                let answer = table
                    .entry(Question::new(name, kind))
                    .or_insert_with(|| Answer::Records(Vec::new()));
                match answer {
                    _ if value == "SERVFAIL" => *answer = Answer::Failed,
                    Answer::Records(records) => records.push(record),
                    _ => {}
                }
            }
            for name in names {
                for kind in [Kind::A, Kind::Aaaa, Kind::Txt, Kind::Mx, Kind::Ns, Kind::Ptr] {
                    table
                        .entry(Question::new(&name, kind))
                        .or_insert_with(|| Answer::Records(Vec::new()));
                }
            }
            Self(table)
        }

        pub(crate) fn answer(&self, question: &Question) -> Option<&Answer> {
            Some(self.0.get(question).unwrap_or(&Answer::NoSuchName))
        }
    }

    #[test]
    fn what_is_not_answered_is_asked_until_the_time_is_over() {
        let nothing = |_: &Question| None;
        let known = Known::new(&nothing, false);
        assert_eq!(known.look("a.example", Kind::A).unwrap_err(), Wait);
        assert!(matches!(
            known.look("a..example", Kind::A),
            Ok(Looked::Nothing { exists: false })
        ));
        assert_eq!(known.into_wanted(), [Question::new("a.example", Kind::A)]);
        let known = Known::new(&nothing, true);
        assert!(matches!(known.look("a.example", Kind::A), Ok(Looked::Failed)));
    }
}
