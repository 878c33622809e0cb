//! mosquitto's ACL file: `topic`, `user` and `pattern`.
//!
//! Topics before the first `user` apply to clients without a login; a pattern applies to all
//! clients, logged in or not, and `%u` and `%c` stand for the same in Gatepost's filters.

use std::path::Path;

use gatepost_users::{ANONYMOUS, Access, AccessSet, EVERYONE, Effect};

use crate::cli::import::ImportError;
use crate::cli::import::plan::{ImportPlan, ImportedRule};

pub(super) fn read(file: &Path, plan: &mut ImportPlan) -> Result<(), ImportError> {
    let text = std::fs::read_to_string(file).map_err(ImportError::at(file))?;
    let mut subject = AclSubject::Group(ANONYMOUS);
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", file.display(), number + 1);
        let (word, rest) = trimmed
            .split_once(char::is_whitespace)
            .unwrap_or((trimmed, ""));
        let rest = rest.trim();
        let taken = match word {
            "user" => {
                subject = AclSubject::User(rest.to_owned());
                Ok(())
            }
            "topic" => add(&subject, rest, plan),
            "pattern" => add(&AclSubject::Group(EVERYONE), rest, plan),
            _ => Err("unknown option, not imported".to_owned()),
        };
        if let Err(reason) = taken {
            plan.leave_out(&place, line, reason);
        }
    }
    Ok(())
}

/// The subject of a line. A user of mosquitto may have the name of a group of Gatepost.
enum AclSubject {
    Group(&'static str),
    User(String),
}

/// `[read|write|readwrite|deny] FILTER`
fn add(subject: &AclSubject, rest: &str, plan: &mut ImportPlan) -> Result<(), String> {
    let (first, filter) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let write = AccessSet::from(Access::Publish).with(Access::Retain.into());
    let read = AccessSet::from(Access::Subscribe);
    let (effect, access, filter) = match first {
        "read" => (Effect::Allow, read, filter),
        "write" => (Effect::Allow, write, filter),
        "readwrite" => (Effect::Allow, AccessSet::ALL, filter),
        "deny" => (Effect::Deny, AccessSet::ALL, filter),
        _ => (Effect::Allow, AccessSet::ALL, rest),
    };
    let filter = filter.trim();
    let subject = match subject {
        AclSubject::Group(name) => *name,
        AclSubject::User(name) => {
            let folded = name.to_lowercase();
            let is_known = |name: &str| name.to_lowercase() == folded;
            if !plan.users.iter().any(|user| is_known(&user.name)) {
                return Err(format!("{name} is not among the imported users"));
            }
            name
        }
    };
    gatepost_message::TopicFilter::new(filter).map_err(|error| error.to_string())?;
    plan.rules.push(ImportedRule {
        subject: subject.to_owned(),
        effect,
        access,
        filter: filter.to_owned(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_user_with_the_name_of_a_group_are_not_given_to_the_group() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("acl");
        let text = "topic news\nuser anonymous\ntopic #\nuser everyone\ntopic #\n";
        std::fs::write(&file, text).expect("written");
        let mut plan = ImportPlan::default();
        read(&file, &mut plan).expect("read");
        let rules: Vec<(&str, &str)> = plan
            .rules
            .iter()
            .map(|rule| (rule.subject.as_str(), rule.filter.as_str()))
            .collect();
        assert_eq!(rules, [(ANONYMOUS, "news")]);
        assert_eq!(plan.left_out_count(), 2);
    }
}
