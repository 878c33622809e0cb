//! The tag `_RBL_`: the DNS blocklist responses for the relays and senders of a message.

use std::collections::BTreeMap;

use gatepost_dns::{Question, QuestionOutcome, RecordData, RecordType};

/// Its text, if a list answered: a line for each question, `<dns:NAME?type=TXT> [ANSWER, ANSWER]`,
/// without the type for addresses. Sorted by question; SpamAssassin's order is by chance.
pub(super) fn rbl_tag<'a>(
    questions: impl Iterator<Item = Question>,
    answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
) -> Option<String> {
    let mut lines = BTreeMap::new();
    for question in questions {
        let Some(QuestionOutcome::Records(records)) = answer(&question) else {
            continue;
        };
        let mut texts: Vec<String> = Vec::new();
        for text in records.iter().filter_map(text_of) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        if !texts.is_empty() {
            let kind = if question.kind == RecordType::Txt {
                "?type=TXT"
            } else {
                ""
            };
            lines.insert(format!("<dns:{}{kind}>", question.name), texts.join(", "));
        }
    }
    let lines = lines
        .into_iter()
        .map(|(question, texts)| format!("{question} [{texts}]"));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn text_of(record: &RecordData) -> Option<String> {
    match record {
        RecordData::A(address) => Some(address.to_string()),
        RecordData::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}
