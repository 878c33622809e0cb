//! TextCat: the language of a text, by the frequency of its n-grams (Cavnar and Trenkle,
//! *N-Gram-Based Text Categorization*, 1994).
//!
//! The models are SpamAssassin's file `languages` in the rule folder: for each language its n-grams
//! by rank, then `0 NAME`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gatepost_mail::Directive;

use super::ScannedMail;
use super::{Entry, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_language", |_| plain(is_unwanted)),
    ("check_body_8bits", |_| plain(has_unexpected_bytes)),
];

/// The range of text lengths that are examined, in bytes; below the lower bound there is no result.
const TEXT_BYTES: std::ops::Range<usize> = 256..10_000;
/// The longest n-gram.
const RUN_BYTES_MAX: usize = 5;

/// The directives about languages.
#[derive(Clone, Debug)]
pub(crate) struct LanguageSettings {
    /// The path of the models.
    pub(crate) file: Option<PathBuf>,
    models: OnceLock<Arc<Vec<LanguageModel>>>,
    wanted: Vec<String>,
    inactive: Vec<String>,
    answers_max: usize,
    runs_max: usize,
    occurrences_min: usize,
    /// The factor by which a result may be worse than the best one.
    acceptable: f64,
}

#[derive(Debug)]
struct LanguageModel {
    language: String,
    ranks: HashMap<Vec<u8>, usize>,
}

impl Default for LanguageSettings {
    fn default() -> Self {
        let inactive = "bs cy eo et eu fy ga gd is la lt lv rm sa sco sl yi";
        Self {
            file: None,
            models: OnceLock::new(),
            wanted: vec!["all".to_owned()],
            inactive: words(inactive),
            answers_max: 3,
            runs_max: 400,
            occurrences_min: 0,
            acceptable: 1.02,
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl LanguageSettings {
    /// Processes one line of a rule file; `None` if the directive belongs to another module.
    pub(crate) fn directive(&mut self, name: &str, value: &str) -> Option<Directive> {
        let number = value.trim().parse::<usize>();
        let target = match name {
            "ok_languages" => {
                self.wanted = words(value);
                return Some(Directive::Taken);
            }
            "inactive_languages" => {
                self.inactive = words(value);
                return Some(Directive::Taken);
            }
            "textcat_acceptable_score" => match value.trim().parse() {
                Ok(score) => {
                    self.acceptable = score;
                    return Some(Directive::Taken);
                }
                Err(_) => return Some(Directive::Invalid("it is not a number".to_owned())),
            },
            "textcat_max_languages" => &mut self.answers_max,
            "textcat_max_ngrams" => &mut self.runs_max,
            "textcat_optimal_ngrams" => &mut self.occurrences_min,
            _ => return None,
        };
        Some(match number {
            Ok(number) => {
                *target = number;
                Directive::Taken
            }
            Err(_) => Directive::Invalid("it is not a number".to_owned()),
        })
    }

    fn models(&self) -> &[LanguageModel] {
        self.models.get_or_init(|| {
            let text = self.file.as_ref().and_then(|file| std::fs::read(file).ok());
            Arc::new(read(&text.unwrap_or_default()))
        })
    }

    /// The possible languages of a text; none if there are too many.
    fn classify(&self, text: &[u8]) -> Vec<String> {
        let runs = runs(text, self.occurrences_min, self.runs_max);
        let mut distances: Vec<(String, usize)> = Vec::new();
        for model in self.models() {
            let short = model.language.split('.').next().unwrap_or_default();
            if self.inactive.iter().any(|name| name == short)
                && !self.wanted.iter().any(|name| name == short)
            {
                continue;
            }
            let of_run = |(index, run): (usize, &Vec<u8>)| {
                model
                    .ranks
                    .get(run)
                    .map_or(self.runs_max, |rank| rank.abs_diff(index))
            };
            let distance = runs.iter().enumerate().map(of_run).sum();
            let name = if model.language.contains(".utf8") {
                short
            } else {
                &model.language
            };
            match distances.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = (*known).min(distance),
                None => distances.push((name.to_owned(), distance)),
            }
        }
        distances.sort_by(|one, other| one.1.cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
        let Some(best) = distances.first().map(|(_, distance)| *distance as f64) else {
            return Vec::new();
        };
        let near = distances
            .iter()
            .enumerate()
            .take_while(|(index, (_, distance))| {
                *index == 0 || (*distance as f64) < self.acceptable * best
            });
        let answers: Vec<String> = near.map(|(_, (name, _))| name.clone()).collect();
        if answers.len() > self.answers_max {
            Vec::new()
        } else {
            answers
        }
    }
}

fn read(text: &[u8]) -> Vec<LanguageModel> {
    let mut models = Vec::new();
    let mut ranks: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut rank = 1;
    for line in text.split(|&byte| byte == b'\n') {
        if let Some(name) = line.strip_prefix(b"0 ").filter(|name| !name.is_empty()) {
            let language = String::from_utf8_lossy(name).into_owned();
            models.push(LanguageModel {
                language,
                ranks: std::mem::take(&mut ranks),
            });
            rank = 1;
        } else {
            ranks.insert(line.to_vec(), rank);
            rank += 1;
        }
    }
    models
}

fn is_letter(byte: u8) -> bool {
    !byte.is_ascii_digit()
        && !byte.is_ascii_whitespace()
        && byte != 0x0b
        && !br##"-!"#$%&()*+,./:;<=>?@[\]^_`{|}~"##.contains(&byte)
}

/// The n-grams of a text, most frequent first.
fn runs(text: &[u8], occurrences_min: usize, runs_max: usize) -> Vec<Vec<u8>> {
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    for word in text
        .split(|&byte| !is_letter(byte))
        .filter(|word| !word.is_empty())
    {
        let mut framed = vec![0];
        framed.extend_from_slice(word);
        framed.push(0);
        if has_four_letters(word) && word.iter().any(u8::is_ascii_uppercase) {
            lower(&mut framed);
        }
        for start in 0..framed.len() {
            for length in 1..=RUN_BYTES_MAX.min(framed.len() - start) {
                let run = framed.get(start..start + length).unwrap_or_default();
                match counts.get_mut(run) {
                    Some(count) => *count += 1,
                    None => {
                        counts.insert(run.to_vec(), 1);
                    }
                }
            }
        }
    }
    let mut runs: Vec<(Vec<u8>, usize)> = counts
        .into_iter()
        .filter(|(_, count)| *count > occurrences_min)
        .collect();
    runs.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    runs.truncate(runs_max);
    runs.into_iter().map(|(run, _)| run).collect()
}

/// Four adjacent Latin-1 letters: not an abbreviation.
fn has_four_letters(word: &[u8]) -> bool {
    let is_latin = |byte: &u8| {
        byte.is_ascii_alphabetic()
            || *byte >= 0xc0 && *byte != 0xd7 && *byte != 0xf7 && *byte != 0xdf && *byte != 0xff
    };
    word.windows(4).any(|window| window.iter().all(is_latin))
}

fn lower(word: &mut [u8]) {
    for byte in word {
        if byte.is_ascii_uppercase() || (0xc0..=0xde).contains(byte) && *byte != 0xd7 {
            *byte += 0x20;
        }
    }
}

pattern!(FIELD_NAMES, r"^(?:[a-z]{2,12}:\s*){1,10}", "i");
pattern!(
    LINK,
    r"https?(?::\/\/|:&#x2F;&#x2F;|%3A%2F%2F)\S{1,1024}",
    "s"
);
pattern!(ADDRESS, r"\S{1,64}?@[a-zA-Z]\S{1,128}", "s");
pattern!(HOST, r"\bwww\.\S{1,128}", "s");

/// The text without the parts that have no language.
fn plain_text(mail: &ScannedMail<'_>) -> Vec<u8> {
    let lines: Vec<&[u8]> = mail.body().iter().collect();
    let text = lines.join(&b'\n');
    let start = FIELD_NAMES.spans(&text).next().map_or(0, |(_, end)| end);
    let mut text = text.get(start..).unwrap_or_default().to_vec();
    for pattern in [&*LINK, &*ADDRESS, &*HOST] {
        let mut out = Vec::with_capacity(text.len());
        let mut from = 0;
        for (start, end) in pattern.spans(&text) {
            out.extend_from_slice(text.get(from..start).unwrap_or_default());
            out.push(b' ');
            from = end;
        }
        out.extend_from_slice(text.get(from..).unwrap_or_default());
        text = out;
    }
    text.truncate(TEXT_BYTES.end);
    text
}

fn is_unwanted(mail: &ScannedMail<'_>) -> bool {
    let languages = &mail.settings().languages;
    if languages.wanted.iter().any(|name| name == "all") {
        return false;
    }
    let text = plain_text(mail);
    if text.len() < TEXT_BYTES.start {
        return false;
    }
    let answers = languages.classify(&text);
    // Short Scots resembles English.
    let is_short = text.len() < 1024 * answers.len();
    let meant = |name: &str| {
        if is_short && name == "sco" {
            "en".to_owned()
        } else {
            name.to_owned()
        }
    };
    let is_wanted = |answer: &String| {
        let short = meant(answer.split('.').next().unwrap_or_default());
        languages.wanted.iter().any(|wanted| meant(wanted) == short)
    };
    !answers.is_empty() && !answers.iter().any(is_wanted)
}

/// Languages whose text contains adjacent bytes beyond ASCII.
const WITH_OTHER_LETTERS: [&str; 25] = [
    "am", "ar", "be", "bg", "cs", "el", "et", "fa", "fi", "he", "hi", "hy", "is", "ja", "ka", "ko",
    "mr", "pt", "ru", "ta", "th", "tr", "uk", "vi", "yi",
];

fn has_unexpected_bytes(mail: &ScannedMail<'_>) -> bool {
    let wanted = &mail.settings().languages.wanted;
    let is_written_so = |name: &String| {
        name == "all" || name == "zh" || WITH_OTHER_LETTERS.contains(&name.as_str())
    };
    if wanted.iter().any(is_written_so) {
        return false;
    }
    mail.body().iter().any(|line| {
        line.windows(8)
            .any(|window| window.iter().all(|byte| *byte >= 0x80))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_by_their_number() {
        assert_eq!(
            runs(b"aa", 0, 3),
            [b"\0".to_vec(), b"a".to_vec(), b"\0a".to_vec()]
        );
        let models = read(b"a\nb\n0 xx\nb\n0 yy.utf8\n");
        assert_eq!(models[1].language, "yy.utf8");
        assert_eq!(models[0].ranks[&b"b"[..]], 2);
    }
}
