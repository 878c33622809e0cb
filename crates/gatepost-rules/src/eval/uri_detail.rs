//! URIDetail: rules about the elements and the text of a link.

use gatepost_mail::{MailPattern, Uri};

use super::{EvalCall, EvalProblem};

/// The part of a link that a condition examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UriComponent {
    Raw,
    Type,
    Cleaned,
    Text,
    Domain,
    Host,
}

struct UriCondition {
    target: UriComponent,
    negated: bool,
    pattern: MailPattern,
}

impl UriCondition {
    fn holds(&self, uri: &Uri) -> bool {
        let fits = |text: &[u8]| self.pattern.is_match(text) != self.negated;
        match self.target {
            UriComponent::Raw => fits(&uri.raw),
            UriComponent::Type => uri.types.iter().any(|kind| fits(kind.as_bytes())),
            UriComponent::Cleaned => uri.cleaned.iter().any(|form| fits(form)),
            UriComponent::Text => uri.anchor_text.iter().any(|text| fits(text.as_bytes())),
            UriComponent::Domain => uri.domains.iter().any(|domain| fits(domain.as_bytes())),
            UriComponent::Host => uri.hosts.iter().any(|(host, _)| fits(host.as_bytes())),
        }
    }
}

/// Prepares a `uri_detail` rule: the conditions after its name, such as `type =~ /^a$/ text =~
/// /click/i`. It hits if one link satisfies all of them.
pub fn prepare_uri_detail(conditions: &str) -> Result<EvalCall, EvalProblem> {
    let parsed = parse(conditions).map_err(|reason| EvalProblem::Arguments {
        name: "uri_detail".to_owned(),
        reason,
    })?;
    Ok(EvalCall {
        function: Box::new(move |mail| {
            let hit = mail
                .uri_list()
                .details
                .iter()
                .any(|uri| parsed.iter().all(|condition| condition.holds(uri)));
            u32::from(hit)
        }),
    })
}

fn parse(text: &str) -> Result<Vec<UriCondition>, String> {
    let mut conditions: Vec<UriCondition> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let word = rest
            .find(|letter: char| !letter.is_alphanumeric())
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(word);
        let target = match name {
            "raw" => UriComponent::Raw,
            "type" => UriComponent::Type,
            "cleaned" => UriComponent::Cleaned,
            "text" => UriComponent::Text,
            "domain" => UriComponent::Domain,
            "host" => UriComponent::Host,
            other => return Err(format!("{other} is not part of a link")),
        };
        let after = after.trim_start();
        let negated = after.starts_with("!~");
        let pattern = after
            .strip_prefix("=~")
            .or_else(|| after.strip_prefix("!~"))
            .ok_or_else(|| format!("=~ or !~ is missing after {name}"))?
            .trim_start();
        let length = pattern_length(pattern)
            .ok_or_else(|| format!("the pattern after {name} does not end"))?;
        let (pattern, after) = pattern.split_at(length);
        let pattern = MailPattern::compile(pattern)?;
        // Of two conditions for one part the later one counts.
        conditions.retain(|known| known.target != target);
        conditions.push(UriCondition {
            target,
            negated,
            pattern,
        });
        rest = after.trim_start();
    }
    if conditions.is_empty() {
        Err("there is no condition".to_owned())
    } else {
        Ok(conditions)
    }
}

/// The length of the pattern at the beginning of `text`: up to the delimiter before flags and a
/// blank.
fn pattern_length(text: &str) -> Option<usize> {
    let (start, delimiter) = match text.strip_prefix('m') {
        Some(rest) => (2, rest.chars().next()?),
        None => (1, text.chars().next().filter(|mark| *mark == '/')?),
    };
    let close = match delimiter {
        '{' => '}',
        '(' => ')',
        mark => mark,
    };
    text.char_indices()
        .skip(start)
        .filter(|(_, letter)| *letter == close)
        .find_map(|(at, _)| {
            let after = text.get(at + close.len_utf8()..)?;
            let flags = after
                .chars()
                .take_while(|letter| "imsx".contains(*letter))
                .count();
            let end = after
                .get(flags..)?
                .chars()
                .next()
                .is_none_or(char::is_whitespace);
            end.then_some(at + close.len_utf8() + flags)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::ScannedMail;

    #[test]
    fn one_link_must_meet_all_conditions() {
        let message = b"Content-Type: text/html\n\n\
            <a href=\"http://a.b/\">click here</a><img src=http://c.d/>";
        let mail = ScannedMail::parse(message);
        for (conditions, hits) in [
            ("type =~ /^a$/ text =~ /CLICK/i", 1),
            ("type =~ /^img$/ text =~ /click/i", 0),
            (r"raw !~ m{a\.b} type =~ /^img$/", 1),
            ("cleaned =~ m%^http://c\\.d/%", 1),
        ] {
            assert_eq!(
                prepare_uri_detail(conditions)
                    .expect("it parses")
                    .run(&mail),
                hits,
                "{conditions}"
            );
        }
        assert!(prepare_uri_detail("colour =~ /red/").is_err());
        assert!(prepare_uri_detail("raw =~ /red").is_err());
    }
}
