//! Directives of rule files and preferences for Bayes: `use_bayes`, `bayes_…`.

use std::collections::HashSet;

use gatepost_mail::Directive;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

/// The words of SpamAssassin's English stop list: they occur in every message and only cost space.
/// They apply until a rule file contains lists of its own (`bayes_stopword_en`).
const ENGLISH_STOP_WORDS: &str = "able|already|all|and|any|are|because|both|can|come|each|mail|\
    even|\
    few|first|for|from|give|have|has|http|information|into|it's|just|know|like|long|look|made|\
    mailing|mailto|make|many|more|most|much|need|not|now|number|off|only|one|out|own|people|place|\
    right|same|see|such|that|this|through|the|time|using|web|where|why|without|with|world|work|\
    years|year|you're|your|you";

/// The settings of Bayes from rule files.
///
/// The parser of rule files passes every directive that it does not know itself to
/// [`BayesSettings::directive`], in the order of the files.
#[derive(Clone, Debug)]
pub struct BayesSettings {
    /// `use_bayes`: whether messages are learned and classified.
    pub enabled: bool,
    /// `use_bayes_rules`: classify; without it, learning continues.
    pub rules_enabled: bool,
    /// `bayes_min_spam_num`: the number of learned spam messages from which Bayes classifies.
    pub spam_min: u32,
    /// `bayes_min_ham_num`: the number of learned ham messages from which Bayes classifies.
    pub ham_min: u32,
    /// `bayes_use_hapaxes`: tokens seen only once count too.
    pub use_hapaxes: bool,
    /// `bayes_max_token_length`: longer words are cut, in bytes.
    pub token_bytes_max: usize,
    /// `bayes_token_sources`: the parts of a message that yield tokens.
    pub sources: TokenSources,
    /// `bayes_ignore_header`: fields that yield no tokens, in lower case.
    pub ignored_fields: HashSet<Vec<u8>>,
    /// `bayes_auto_expire`: remove old tokens when there are too many.
    pub auto_expire: bool,
    /// `bayes_expiry_max_db_size`: the number of tokens above which old ones are removed.
    pub tokens_max: usize,
    /// `bayes_auto_learn` and its thresholds.
    pub autolearn: AutolearnSettings,
    /// `bayes_stopword_languages` and `bayes_stopword_…`.
    stop_words: StopWords,
}

/// The parts of a message that yield tokens (`bayes_token_sources`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSources {
    /// Fields of the head.
    pub header: bool,
    /// Visible text.
    pub visible: bool,
    /// Text in HTML that is hidden from the reader.
    pub invisible: bool,
    /// Links.
    pub uri: bool,
    /// Digests of all parts.
    pub mimepart: bool,
}

/// The conditions under which a scanned message is learned automatically.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutolearnSettings {
    /// `bayes_auto_learn`.
    pub enabled: bool,
    /// `bayes_auto_learn_threshold_nonspam`: below this score, as ham.
    pub ham_below: f64,
    /// `bayes_auto_learn_threshold_spam`: from this score on, as spam.
    pub spam_from: f64,
    /// `bayes_auto_learn_on_error`: only messages that Bayes classified differently.
    pub on_error: bool,
}

#[derive(Clone, Debug)]
struct StopWords {
    /// The languages whose stop lists apply.
    languages: Vec<[u8; 2]>,
    lists: Vec<([u8; 2], Regex)>,
}

impl Default for BayesSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            rules_enabled: true,
            spam_min: 200,
            ham_min: 200,
            use_hapaxes: true,
            token_bytes_max: 15,
            sources: TokenSources {
                header: true,
                visible: true,
                invisible: true,
                uri: true,
                mimepart: false,
            },
            ignored_fields: HashSet::new(),
            auto_expire: true,
            tokens_max: 150_000,
            autolearn: AutolearnSettings {
                enabled: true,
                ham_below: 0.1,
                spam_from: 12.0,
                on_error: false,
            },
            stop_words: StopWords::default(),
        }
    }
}

impl Default for StopWords {
    fn default() -> Self {
        Self {
            languages: vec![*b"en"],
            lists: stop_list(ENGLISH_STOP_WORDS)
                .map(|list| (*b"en", list))
                .into_iter()
                .collect(),
        }
    }
}

impl BayesSettings {
    /// Processes one line of a rule file: the directive and the rest after the first blank.
    pub fn directive(&mut self, name: &str, value: &str) -> Directive {
        let value = value.trim();
        match name {
            "use_bayes" | "use_learner" => flag(value, &mut self.enabled),
            "use_bayes_rules" => flag(value, &mut self.rules_enabled),
            "bayes_min_spam_num" => number(value, &mut self.spam_min),
            "bayes_min_ham_num" => number(value, &mut self.ham_min),
            "bayes_use_hapaxes" => flag(value, &mut self.use_hapaxes),
            "bayes_max_token_length" => number(value, &mut self.token_bytes_max),
            "bayes_auto_expire" => flag(value, &mut self.auto_expire),
            "bayes_expiry_max_db_size" => number(value, &mut self.tokens_max),
            "bayes_auto_learn" => flag(value, &mut self.autolearn.enabled),
            "bayes_auto_learn_on_error" => flag(value, &mut self.autolearn.on_error),
            "bayes_auto_learn_threshold_nonspam" => number(value, &mut self.autolearn.ham_below),
            "bayes_auto_learn_threshold_spam" => number(value, &mut self.autolearn.spam_from),
            "bayes_token_sources" => self.sources.take(value),
            "bayes_ignore_header" if value.is_empty() => missing(),
            "bayes_ignore_header" => {
                let fields = value.split_ascii_whitespace();
                self.ignored_fields
                    .extend(fields.map(|field| field.to_ascii_lowercase().into_bytes()));
                Directive::Taken
            }
            "bayes_stopword_languages" => self.stop_words.choose(value),
            _ => match name.strip_prefix("bayes_stopword_") {
                Some(language) => self.stop_words.define(language, value),
                None => Directive::Unknown,
            },
        }
    }

    /// Whether a word is in the stop list of any chosen language.
    pub(super) fn is_stop_word(&self, word: &[u8]) -> bool {
        let stop_words = &self.stop_words;
        stop_words.languages.iter().any(|language| {
            stop_words
                .lists
                .iter()
                .any(|(of, list)| of == language && list.is_match(word))
        })
    }
}

impl TokenSources {
    fn take(&mut self, value: &str) -> Directive {
        if value.is_empty() {
            return missing();
        }
        for word in value.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            let (name, on) = match word.strip_prefix("no") {
                Some("ne" | "all") => ("all", false),
                Some(name) => (name, false),
                None => (word.as_str(), true),
            };
            match name {
                "all" => {
                    *self = Self {
                        header: on,
                        visible: on,
                        invisible: on,
                        uri: on,
                        mimepart: on,
                    }
                }
                "header" => self.header = on,
                "visible" => self.visible = on,
                "invisible" => self.invisible = on,
                "uri" => self.uri = on,
                "mimepart" => self.mimepart = on,
                _ => return Directive::Invalid(format!("{word} is not a source of tokens")),
            }
        }
        Directive::Taken
    }
}

impl StopWords {
    fn choose(&mut self, value: &str) -> Directive {
        self.languages.clear();
        if value == "disable" {
            return Directive::Taken;
        }
        for language in value
            .split([',', ' ', '\t'])
            .filter(|word| !word.is_empty())
        {
            match language_code(language) {
                Some(language) => self.languages.push(language),
                None => return Directive::Invalid(format!("{language} is not a language code")),
            }
        }
        if self.languages.is_empty() {
            return missing();
        }
        Directive::Taken
    }

    fn define(&mut self, language: &str, value: &str) -> Directive {
        let Some(language) = language_code(language) else {
            return Directive::Unknown;
        };
        // Of several patterns the last one counts.
        let Some(pattern) = value.split_ascii_whitespace().last() else {
            return missing();
        };
        match stop_list(pattern) {
            Some(list) => {
                self.lists.retain(|(other, _)| *other != language);
                self.lists.push((language, list));
                Directive::Taken
            }
            None => Directive::Invalid("the pattern cannot be compiled".to_owned()),
        }
    }
}

fn language_code(text: &str) -> Option<[u8; 2]> {
    let lower = text.to_ascii_lowercase();
    <[u8; 2]>::try_from(lower.as_bytes())
        .ok()
        .filter(|code| code.iter().all(u8::is_ascii_lowercase))
}

/// Compiles a stop list: a pattern over bytes that must match the whole word, in either case.
fn stop_list(pattern: &str) -> Option<Regex> {
    // `(?^:` is how Perl prints a group with default flags.
    let pattern = format!("^(?:{})$", pattern.replace("(?^:", "(?:"));
    Regex::builder()
        .configure(Regex::config().utf8_empty(false))
        .syntax(
            syntax::Config::new()
                .unicode(false)
                .utf8(false)
                .case_insensitive(true),
        )
        .build(&pattern)
        .ok()
}

fn flag(value: &str, target: &mut bool) -> Directive {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => *target = true,
        "0" | "no" | "false" | "off" => *target = false,
        _ => return Directive::Invalid(format!("{value} is neither 0 nor 1")),
    }
    Directive::Taken
}

fn number<T: std::str::FromStr>(value: &str, target: &mut T) -> Directive {
    match value.parse() {
        Ok(number) => {
            *target = number;
            Directive::Taken
        }
        Err(_) => Directive::Invalid(format!("{value} is not a number that fits here")),
    }
}

fn missing() -> Directive {
    Directive::Invalid("a value is missing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_accepted_and_mistakes_reported() {
        let mut settings = BayesSettings::default();
        assert_eq!(settings.directive("use_bayes", "0"), Directive::Taken);
        assert!(!settings.enabled);
        assert_eq!(
            settings.directive("bayes_token_sources", "none header NoURI"),
            Directive::Taken
        );
        assert!(settings.sources.header && !settings.sources.visible);
        assert!(matches!(
            settings.directive("bayes_min_spam_num", "many"),
            Directive::Invalid(_)
        ));
        assert!(matches!(
            settings.directive("bayes_token_sources", "smoke"),
            Directive::Invalid(_)
        ));
        assert_eq!(settings.directive("score", "X 1"), Directive::Unknown);
    }

    #[test]
    fn stop_words_are_whole_words_of_the_chosen_languages() {
        let mut settings = BayesSettings::default();
        assert!(settings.is_stop_word(b"The") && settings.is_stop_word(b"it's"));
        assert!(!settings.is_stop_word(b"then") && !settings.is_stop_word(b"und"));
        let german = settings.directive("bayes_stopword_de", "(?^:aber|und|f\\xc3\\xbcr)");
        assert_eq!(german, Directive::Taken);
        assert!(!settings.is_stop_word(b"und"), "not chosen yet");
        let chosen = settings.directive("bayes_stopword_languages", "en, de");
        assert_eq!(chosen, Directive::Taken);
        assert!(settings.is_stop_word(b"und") && settings.is_stop_word("für".as_bytes()));
    }
}
