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
    let mut subject = ANONYMOUS.to_owned();
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
                rest.clone_into(&mut subject);
                Ok(())
            }
            "topic" => add(&subject, rest, plan),
            "pattern" => add(EVERYONE, rest, plan),
            _ => Err("unknown option, not imported".to_owned()),
        };
        if let Err(reason) = taken {
            plan.leave_out(&place, line, reason);
        }
    }
    Ok(())
}

/// `[read|write|readwrite|deny] FILTER`
fn add(subject: &str, rest: &str, plan: &mut ImportPlan) -> Result<(), String> {
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
    let is_group = subject == ANONYMOUS || subject == EVERYONE;
    let folded = subject.to_lowercase();
    let is_known = |name: &str| name.to_lowercase() == folded;
    if !is_group && !plan.users.iter().any(|user| is_known(&user.name)) {
        return Err(format!("{subject} is not among the imported users"));
    }
    gatepost_message::TopicFilter::new(filter).map_err(|error| error.to_string())?;
    plan.rules.push(ImportedRule {
        subject: subject.to_owned(),
        effect,
        access,
        filter: filter.to_owned(),
    });
    Ok(())
}
