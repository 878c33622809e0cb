//! The autonomous system (ASN) and route from which a message came: SpamAssassin's ASN plugin.
//!
//! Zones respond with a text, as `"64496 | 192.0.2.0/24 | …"` or `"64496" "192.0.2.0" "24"`. It
//! becomes tags of templates and the field `X-ASN` of header rules.

use gatepost_dns::{Question, QuestionOutcome, RecordData, RecordType};
use gatepost_mail::{Mail, ip, parse_ip};

use crate::authentication::settings::{NetworkZone, SenderSettings};

/// The query to each zone about the server that delivered the message to us.
fn zone_questions<'m>(
    mail: &Mail<'_>,
    settings: &'m SenderSettings,
) -> Vec<(&'m NetworkZone, Question)> {
    let Some(relay) = mail
        .relays()
        .external
        .first()
        .filter(|relay| !relay.ip_private)
    else {
        return Vec::new();
    };
    let Some(address) = parse_ip(relay.ip.as_bytes()) else {
        return Vec::new();
    };
    let zones = if address.is_ipv4() {
        &settings.networks_v4
    } else {
        &settings.networks_v6
    };
    let question = |zone: &NetworkZone| {
        Question::new(
            &format!("{}.{}", ip::reversed(address), zone.zone),
            RecordType::Txt,
        )
    };
    zones.iter().map(|zone| (zone, question(zone))).collect()
}

/// The questions to all zones.
pub(super) fn questions(mail: &Mail<'_>, settings: &SenderSettings) -> Vec<Question> {
    zone_questions(mail, settings)
        .into_iter()
        .map(|(_, question)| question)
        .collect()
}

/// The tags with the responses: numbers with the prefix, and routes.
pub(super) fn tags<'a>(
    mail: &Mail<'_>,
    settings: &SenderSettings,
    answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
) -> Vec<(String, String)> {
    let prefix = &settings.network_prefix;
    let mut tags: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |tag: &str, value: String| match tags.iter_mut().find(|(known, _)| known == tag) {
        Some((_, values)) if values.contains(&value) => {}
        Some((_, values)) => values.push(value),
        None => tags.push((tag.to_owned(), vec![value])),
    };
    for (zone, question) in zone_questions(mail, settings) {
        for (numbers, routes) in read(answer(&question)) {
            for number in numbers {
                add(&zone.number_tag, format!("{prefix}{number}"));
            }
            for route in routes {
                add(&zone.route_tag, route);
            }
        }
    }
    tags.into_iter()
        .map(|(tag, values)| (tag, values.join(" ")))
        .collect()
}

/// The field `X-ASN`: the numbers only.
pub(super) fn field<'a>(
    mail: &Mail<'_>,
    settings: &SenderSettings,
    answer: &dyn Fn(&Question) -> Option<&'a QuestionOutcome>,
) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for (_, question) in zone_questions(mail, settings) {
        for number in read(answer(&question))
            .into_iter()
            .flat_map(|(numbers, _)| numbers)
        {
            if !all.contains(&number) {
                all.push(number);
            }
        }
    }
    (!all.is_empty()).then(|| all.join(" "))
}

/// The numbers and routes of each record.
fn read(answer: Option<&QuestionOutcome>) -> Vec<(Vec<String>, Vec<String>)> {
    let Some(QuestionOutcome::Records(records)) = answer else {
        return Vec::new();
    };
    let texts = records.iter().filter_map(|record| match record {
        RecordData::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    });
    texts.map(|text| read_text(&text)).collect()
}

fn read_text(text: &str) -> (Vec<String>, Vec<String>) {
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let without_prefix = |word: &str| -> String {
        let has_prefix = word
            .get(..2)
            .is_some_and(|start| start.eq_ignore_ascii_case("AS"));
        word.get(if has_prefix { 2 } else { 0 }..)
            .unwrap_or_default()
            .to_owned()
    };
    let numbers = |text: &str| -> Option<Vec<String>> {
        let all: Vec<String> = text.split_whitespace().map(without_prefix).collect();
        let is_number =
            |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        (!all.is_empty() && all.iter().all(is_number)).then_some(all)
    };
    let columns: Vec<&str> = text.split('|').map(str::trim).collect();
    let column = |index: usize| columns.get(index).copied().unwrap_or_default();
    let (mut found, mut routes) = match (numbers(column(0)), numbers(column(1))) {
        (Some(found), _) => (found, words(column(1))),
        (None, Some(found)) => (found, words(column(0))),
        (None, None) => (Vec::new(), Vec::new()),
    };
    // The number of no network, and the default route.
    found.retain(|number| number != "0" && number != "4294967295");
    routes.retain(|route| {
        !route
            .rsplit_once('/')
            .is_some_and(|(_, bits)| bits.bytes().all(|bit| bit == b'0'))
    });
    (found, routes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_their_two_orders() {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        for (text, numbers, routes) in [
            (
                "64496 | 192.0.2.0/24 | ZZ | x",
                &["64496"][..],
                &["192.0.2.0/24"][..],
            ),
            (
                "192.0.2.0/24 | AS64496 64497",
                &["64496", "64497"],
                &["192.0.2.0/24"],
            ),
            ("4294967295 | 0.0.0.0/0", &[], &[]),
            ("no such thing", &[], &[]),
        ] {
            assert_eq!(read_text(text), (words(numbers), words(routes)), "{text}");
        }
    }
}
