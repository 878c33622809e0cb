//! The list of users, as text or as JSON.

use std::fmt::Write;

use gatepost_users::{
    ANONYMOUS, AccessRuleSummary, EVERYONE, Effect, TokenSummary, UserSummary, Users, UsersError,
};

/// Prints all users, or one; with the rules for everyone if all are requested.
pub(super) fn print(users: &Users, name: Option<&str>, json: bool) -> Result<(), UsersError> {
    let mut list = users.list();
    if let Some(name) = name {
        // Letter case does not distinguish users.
        let folded = name.to_lowercase();
        list.retain(|user| user.name.to_lowercase() == folded);
        if list.is_empty() {
            return Err(UsersError::NoUser(name.to_owned()));
        }
    }
    if json {
        let text = serde_json::to_string_pretty(&list).unwrap_or_default();
        println!("{text}");
        return Ok(());
    }
    let mut text = String::new();
    for user in &list {
        put_user(&mut text, user);
    }
    if name.is_none() {
        for group in [EVERYONE, ANONYMOUS] {
            let rules = users.rules(group);
            if !rules.is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{group}");
                put_rules(&mut text, "  ", &rules);
            }
        }
        if list.is_empty() {
            text.push_str("there is no user; gatepost user add NAME makes one\n");
        }
    }
    print!("{text}");
    Ok(())
}

fn put_user(text: &mut String, user: &UserSummary) {
    let mut notes = Vec::new();
    if user.admin {
        notes.push("administrator");
    }
    if user.disabled {
        notes.push("switched off");
    }
    if user.rules.is_empty() && !user.admin {
        notes.push("no rules of its own");
    }
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!(" ({})", notes.join(", "))
    };
    let _ = writeln!(text, "{}{notes}", user.name);
    put_rules(text, "  ", &user.rules);
    for token in &user.tokens {
        put_token(text, token);
    }
}

fn put_rules(text: &mut String, indent: &str, rules: &[AccessRuleSummary]) {
    for rule in rules {
        let effect = match rule.effect {
            Effect::Allow => "allow",
            Effect::Deny => "deny",
        };
        let _ = writeln!(text, "{indent}{effect:<5} {} {}", rule.access, rule.filter);
    }
}

fn put_token(text: &mut String, token: &TokenSummary) {
    let end = token.expires.map_or_else(
        || "until lifted".to_owned(),
        |expires| {
            let now = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs());
            match expires.checked_sub(now) {
                Some(seconds) if seconds >= 2 * 86_400 => {
                    format!("for {} more days", seconds / 86_400)
                }
                Some(seconds) if seconds > 0 => format!("for {} more minutes", seconds / 60),
                _ => "expired".to_owned(),
            }
        },
    );
    let label = if token.label.is_empty() {
        String::new()
    } else {
        format!(" \"{}\"", token.label)
    };
    let _ = writeln!(text, "  token {}{label}, {end}", token.id);
    if let Some(scope) = &token.scope {
        put_rules(text, "    ", scope);
    }
}
