//! `askdns`: a query for a name that a template makes, and the responses for which its rule hits.

use gatepost_dns::{Question, QuestionOutcome, RecordType, ServerFailure};
use gatepost_pattern::{Modifiers, Pattern};

use super::subtest::Subtest;
use super::views::NetworkViews;
use crate::tags::{TagTemplatePart, pieces};

/// The types that are queried for `ANY`: servers refuse or shorten the response to a query for all
/// types (RFC 8482).
const ANY: [RecordType; 5] = [
    RecordType::A,
    RecordType::Aaaa,
    RecordType::Mx,
    RecordType::Ns,
    RecordType::Txt,
];

/// The names of response codes, by number (RFC 6895, section 2.3). Codes above these are not in
/// the head of a response.
const RESPONSE_CODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
    "NXRRSET", "NOTAUTH", "NOTZONE",
];
const RESPONSE_CODE_MAX: u8 = 15;

/// The query of an `askdns` rule.
#[derive(Debug)]
pub(crate) struct AskTest {
    template: String,
    /// Each is queried.
    kinds: Vec<RecordType>,
    filter: Option<AskFilter>,
}

/// The responses for which a rule hits; without one, each with a record.
#[derive(Debug)]
enum AskFilter {
    Record(Subtest),
    /// Response codes.
    Codes(Vec<u8>),
}

impl AskTest {
    /// The test of `TEMPLATE [TYPES [FILTER]]`; the error describes an invalid line.
    pub(super) fn of_arguments(arguments: &[&str]) -> Result<Self, String> {
        let (template, rest) = arguments
            .split_first()
            .ok_or("the name to ask for is missing")?;
        let filter = rest.get(1).map(|text| AskFilter::parse(text));
        Ok(Self {
            template: (*template).to_owned(),
            kinds: kinds(rest.first().copied().unwrap_or("A"))?,
            filter: filter.transpose()?,
        })
    }

    pub(super) fn questions<'a>(
        &self,
        views: &NetworkViews<'_, '_>,
        answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
    ) -> Vec<Question> {
        let names = views.fill(&self.template, answer);
        let of_name = |name: &String| -> Vec<Question> {
            let questions = self.kinds.iter().map(|kind| Question::new(name, *kind));
            questions.collect()
        };
        names.iter().flat_map(of_name).collect()
    }

    pub(super) fn hits<'a>(
        &self,
        views: &NetworkViews<'_, '_>,
        answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
    ) -> bool {
        let questions = self.questions(views, answer);
        let mut answers = questions.iter().filter_map(answer);
        answers.any(|answer| self.accepts(answer))
    }

    fn accepts(&self, answer: &QuestionOutcome) -> bool {
        match (&self.filter, answer) {
            (Some(AskFilter::Codes(codes)), answer) => {
                response_code(answer).is_some_and(|code| codes.contains(&code))
            }
            (None, QuestionOutcome::Records(records)) => !records.is_empty(),
            (Some(AskFilter::Record(filter)), QuestionOutcome::Records(records)) => {
                records.iter().any(|record| filter.fits(record))
            }
            _ => false,
        }
    }

    /// The tags whose values it queries.
    pub(super) fn tags(&self) -> Vec<&str> {
        let names = pieces(&self.template).filter_map(|piece| match piece {
            TagTemplatePart::Tag(tag) => Some(tag.name),
            TagTemplatePart::Text(_) => None,
        });
        names.collect()
    }

    /// The zone of the list that it queries.
    pub(super) fn zone(&self) -> Option<&str> {
        Some(self.template.rsplit_once('_')?.1.trim_matches('.'))
    }

    /// Whether the values of a tag follow from responses.
    pub(super) fn has_steps(&self) -> bool {
        let from_responses = ["_DKIMDOMAIN_", "_ASN_", "_ASNCIDR_"];
        from_responses.iter().any(|tag| self.template.contains(tag))
    }
}

/// The types of a list such as `A,AAAA`.
fn kinds(list: &str) -> Result<Vec<RecordType>, String> {
    let mut kinds = Vec::new();
    for name in list.split(',') {
        if name.eq_ignore_ascii_case("ANY") {
            kinds.extend(ANY);
        } else {
            let kind = RecordType::named(name);
            kinds.push(kind.ok_or_else(|| format!("{name} records cannot be queried"))?);
        }
    }
    let mut known = Vec::new();
    kinds.retain(|kind| {
        let is_new = !known.contains(kind);
        known.push(*kind);
        is_new
    });
    Ok(kinds)
}

/// The code of a response; `None` if there is none.
fn response_code(answer: &QuestionOutcome) -> Option<u8> {
    match answer {
        QuestionOutcome::Records(_) => Some(0),
        QuestionOutcome::NoSuchName => Some(3),
        QuestionOutcome::Failed(ServerFailure::Server(code)) => Some(*code),
        QuestionOutcome::Failed(_) => None,
    }
}

impl AskFilter {
    /// A pattern, a text in quotes, response codes in brackets, or numbers.
    fn parse(text: &str) -> Result<Self, String> {
        let between = |open: char, close: char| -> Option<&str> {
            text.strip_prefix(open)?.strip_suffix(close)
        };
        if text.starts_with(['/', 'm']) {
            let (body, modifiers): (_, Modifiers) = Pattern::split(text.as_bytes())?;
            let pattern = Pattern::parse_bare(body, modifiers)?;
            return Ok(Self::Record(Subtest::Matches(pattern)));
        }
        if let Some(text) = between('"', '"').or_else(|| between('\'', '\'')) {
            return Ok(Self::Record(Subtest::Exactly(text.to_owned())));
        }
        if let Some(codes) = between('[', ']') {
            let codes = codes.split(',').map(|code| parse_code(code.trim()));
            return Ok(Self::Codes(codes.collect::<Result<_, _>>()?));
        }
        Subtest::of_links(text).map(Self::Record)
    }
}

fn parse_code(text: &str) -> Result<u8, String> {
    let named = RESPONSE_CODES
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text));
    let code = match named {
        Some(code) => u8::try_from(code).ok(),
        None => text.parse().ok().filter(|code| *code <= RESPONSE_CODE_MAX),
    };
    code.ok_or_else(|| format!("{text:?} is neither a response code up to 15 nor its name"))
}

#[cfg(test)]
mod tests {
    use gatepost_dns::RecordData;

    use super::*;

    #[track_caller]
    fn check(arguments: &[&str], answer: &QuestionOutcome, expected: bool) {
        let test = AskTest::of_arguments(arguments).expect("a test");
        assert_eq!(test.accepts(answer), expected, "{test:?} {answer:?}");
    }

    fn address(text: &str) -> QuestionOutcome {
        let address = text.parse().expect("an address");
        QuestionOutcome::Records(vec![RecordData::A(address)])
    }

    #[test]
    fn filters_of_all_kinds() {
        let text = QuestionOutcome::Records(vec![RecordData::Text(b"spam list".to_vec())]);
        let refused = QuestionOutcome::Failed(ServerFailure::Server(5));
        let (nothing, empty) = (
            QuestionOutcome::NoSuchName,
            QuestionOutcome::Records(Vec::new()),
        );
        check(&["x"], &address("192.0.2.1"), true);
        check(&["x"], &empty, false);
        check(&["x", "TXT", "\"spam list\""], &text, true);
        check(&["x", "TXT", "'spam'"], &text, false);
        check(&["x", "TXT", r"/\blist$/"], &text, true);
        check(&["x", "A", "'127.0.0.2'"], &address("127.0.0.2"), true);
        check(&["x", "A", "127.0.0.2"], &address("127.0.0.3"), false);
        check(&["x", "A", "[NXDOMAIN]"], &nothing, true);
        check(&["x", "A", "[FormErr, 5]"], &refused, true);
        check(&["x", "A", "[noerror]"], &empty, true);
        check(&["x", "A", "[noerror]"], &nothing, false);
        // A number is a mask of addresses in 127.0.0.0/8, as in SpamAssassin.
        check(&["x", "A", "0x2"], &address("127.0.0.2"), true);
        check(&["x", "A", "2"], &address("192.0.2.2"), false);
        check(&["x", "A", "192.0.2.2"], &address("192.0.2.2"), true);
        for arguments in [
            &["x", "SOA"][..],
            &["x", "A,"],
            &["x", "A", "moon"],
            &["x", "A", "[16]"],
            &["x", "A", "[]"],
            &[],
        ] {
            assert!(AskTest::of_arguments(arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn lists_of_types() {
        let list = |text| kinds(text).expect("types");
        assert_eq!(list("a,AAAA,A"), [RecordType::A, RecordType::Aaaa]);
        assert_eq!(list("TXT,ANY").len(), ANY.len());
    }
}
