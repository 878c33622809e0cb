//! Mail that no scope judges. The scopes of a config replace the default one, which judges mail: a
//! scope for sensors would end the filtering of mail unnoticed.

use gatepost_message::Listener;
use gatepost_procedures::ScopeSettings;

use crate::config::Config;

/// A line about the open listeners for mail to which no scope applies in general; `None` if there
/// is none.
pub(crate) fn note(config: &Config) -> Option<String> {
    let bindings = config.listeners.bindings();
    let open = bindings
        .iter()
        .filter(|binding| binding.addresses().next().is_some())
        .map(|binding| binding.listener)
        .filter(|listener| matches!(listener, Listener::Smtp | Listener::Lmtp | Listener::Milter));
    let is_judged = |listener| config.scope.iter().any(|scope| applies(scope, listener));
    let unjudged: Vec<String> = open
        .filter(|listener| !is_judged(*listener))
        .map(|listener| listener.to_string())
        .collect();
    (!unjudged.is_empty()).then(|| {
        format!(
            "no scope is for mail of {}: the default one exists only where no [[scope]] is \
             written; add path = \"/mail\", listeners = {unjudged:?}, \
             run = [\"/sizecheck\", \"/spamcheck\"]",
            unjudged.join(", ")
        )
    })
}

/// Whether the scope is meant for the listener: it names it, or all messages.
fn applies(scope: &ScopeSettings, listener: Listener) -> bool {
    let has_all = scope.listeners.is_empty() && scope.topics.is_empty();
    has_all || scope.listeners.contains(&listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note_of(scopes: &str) -> Option<String> {
        let listeners = "listeners.lmtp.bind = []\nlisteners.milter.bind = []\n";
        note(&toml::from_str(&format!("{listeners}{scopes}")).expect("a config"))
    }

    #[test]
    fn a_scope_of_other_messages_leaves_mail_unjudged() {
        let scope = |conditions: &str| {
            note_of(&format!(
                "[[scope]]\npath = \"/s\"\nrun = [\"/sizecheck\"]\n{conditions}"
            ))
        };
        assert_eq!(note_of(""), None, "the default scope");
        for judged in [
            "",
            "listeners = [\"smtp\", \"mqtt\"]",
            "recipients = [\"*@a.example\"]",
        ] {
            assert_eq!(scope(judged), None, "{judged}");
        }
        for other in [
            "topics = [\"sensors/#\"]",
            "listeners = [\"mqtt\"]",
            "listeners = [\"lmtp\"]",
        ] {
            let note = scope(other).expect(other);
            assert!(
                note.contains("mail of smtp: ") && note.contains("[\"smtp\"]"),
                "{note}"
            );
        }
        assert_eq!(note_of("listeners.smtp.bind = []\nscope = []\n"), None);
    }
}
