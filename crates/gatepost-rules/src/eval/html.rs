//! HTMLEval and HTTPSMismatch: facts about rendered HTML parts: tags, images, links, visible text.

use gatepost_mail::{HtmlFacts, ip_is};

use super::ScannedMail;
use super::{Entry, bound, locale, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("html_tag_balance", |arguments| {
        let (tag, compare) = (
            arguments.text(0)?.to_owned(),
            Comparison::parse(arguments.text(1)?)?,
        );
        bound(move |mail| {
            mail.html_all().any(|html| {
                html.open
                    .get(&tag)
                    .is_some_and(|open| compare.holds(open as f64))
            })
        })
    }),
    ("html_image_only", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            mail.html_all().any(|html| {
                html.open.contains("img")
                    && html
                        .number("length")
                        .is_some_and(|length| range.holds_above(length))
            })
        })
    }),
    ("html_image_ratio", |arguments| {
        let range = arguments.range(0)?;
        bound(move |mail| {
            mail.html_all().any(|html| {
                match (html.number("non_space_len"), html.number("image_area")) {
                    (Some(letters), Some(area)) if area > 0.0 => range.holds_above(letters / area),
                    _ => false,
                }
            })
        })
    }),
    ("html_charset_faraway", |_| plain(charset_faraway)),
    ("html_tag_exists", |arguments| {
        let tag = arguments.text(0)?.to_owned();
        bound(move |mail| mail.html_all().any(|html| html.open.contains(&tag)))
    }),
    ("html_test", |arguments| {
        let test = arguments.text(0)?.to_owned();
        bound(move |mail| {
            mail.html_all()
                .any(|html| html.number(&test).is_some_and(|value| value != 0.0))
        })
    }),
    ("html_eval", |arguments| {
        let (test, compare) = (
            arguments.text(0)?.to_owned(),
            Comparison::parse(arguments.text(1)?)?,
        );
        bound(move |mail| {
            mail.html_all()
                .any(|html| html.number(&test).is_some_and(|value| compare.holds(value)))
        })
    }),
    ("html_text_match", |arguments| {
        let (name, pattern) = (arguments.text(0)?.to_owned(), arguments.pattern(1)?);
        bound(move |mail| {
            mail.html_all().any(|html| {
                html.texts(&name)
                    .any(|text| pattern.is_match(text.as_bytes()))
            })
        })
    }),
    ("html_text_not_match", |arguments| {
        let (name, pattern) = (arguments.text(0)?.to_owned(), arguments.pattern(1)?);
        bound(move |mail| {
            mail.html_all().any(|html| {
                html.texts(&name)
                    .any(|text| !pattern.is_match(text.as_bytes()))
            })
        })
    }),
    ("html_title_subject_ratio", |arguments| {
        let ratio = arguments.number(0)?;
        bound(move |mail| {
            let Some(subject) = mail
                .header_text("Subject")
                .filter(|subject| !subject.is_empty())
            else {
                return false;
            };
            let longest = |html: &HtmlFacts| {
                html.titles
                    .iter()
                    .map(|title| title.chars().count())
                    .max()
                    .unwrap_or(0)
            };
            mail.html_all()
                .any(|html| longest(html) as f64 / subject.len() as f64 > ratio)
        })
    }),
    ("html_range", |arguments| {
        let (test, range) = (arguments.text(0)?.to_owned(), arguments.range(1)?);
        bound(move |mail| {
            mail.html_all().any(|html| {
                html.number(&test)
                    .is_some_and(|value| range.holds_above(value))
            })
        })
    }),
    ("check_iframe_src", |_| {
        plain(|mail| {
            mail.html_all().any(|html| {
                html.links
                    .iter()
                    .any(|link| link.elements.contains(&"iframe"))
            })
        })
    }),
    ("check_https_http_mismatch", |arguments| {
        let (low, high) = (
            arguments.limit(0)?.filter(|&low| low > 0.0).unwrap_or(1.0),
            arguments.limit(1)?,
        );
        bound(move |mail| {
            mail.html_all().any(|html| {
                let (hit, anchors) = https_mismatch(mail, html);
                hit && anchors as f64 >= low && high.is_none_or(|high| (anchors as f64) < high)
            })
        })
    }),
    ("check_https_ip_mismatch", |_| plain(https_ip_mismatch)),
];

/// A comparison such as `> 0` or `!= -1`.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    operator: Operator,
    value: f64,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    fn parse(text: &str) -> Result<Self, String> {
        const OPERATORS: [(&str, Operator); 6] = [
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let text = text.trim();
        let parsed = OPERATORS.iter().find_map(|&(sign, operator)| {
            let value = text.strip_prefix(sign)?.trim().parse().ok()?;
            Some(Self { operator, value })
        });
        parsed.ok_or_else(|| format!("{text} is not a comparison"))
    }

    fn holds(self, value: f64) -> bool {
        match self.operator {
            Operator::Less => value < self.value,
            Operator::LessOrEqual => value <= self.value,
            Operator::Greater => value > self.value,
            Operator::GreaterOrEqual => value >= self.value,
            Operator::Equal => (value - self.value).abs() < f64::EPSILON,
            Operator::NotEqual => (value - self.value).abs() >= f64::EPSILON,
        }
    }
}

fn charset_faraway(mail: &ScannedMail<'_>) -> bool {
    let locales = &mail.settings().locales;
    !locale::is_any(locales)
        && mail.html_all().any(|html| {
            let charsets = || html.charsets.split_ascii_whitespace();
            let bad = charsets()
                .filter(|charset| !locale::is_expected(charset, locales))
                .count();
            bad > 0 && bad * 2 >= charsets().count()
        })
}

pattern!(WEB_HOST, r"^https?://([^/:?#]+)", "i");
pattern!(SECURE_HOST, r"https://([^\s/:?#]+)", "i");

/// Whether a link's text shows another domain than its target, and the number of anchors.
fn https_mismatch(mail: &ScannedMail<'_>, html: &HtmlFacts) -> (bool, usize) {
    let boundaries = &mail.view_settings().boundaries;
    let domain_of = |host: &[u8]| {
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        boundaries.registered(&host)
    };
    let (mut hit, mut anchors) = (false, 0);
    for link in html.links.iter().filter(|link| !link.anchors.is_empty()) {
        let Some(host) = WEB_HOST
            .group(link.target.as_bytes(), 1)
            .filter(|host| !ip_is(host))
        else {
            continue;
        };
        let domain = domain_of(host);
        if boundaries
            .of_link(domain.as_bytes())
            .is_none_or(|(domain, _)| !boundaries.is_valid(&domain))
        {
            continue;
        }
        anchors += 1;
        for text in html.anchors_of(link) {
            let Some(shown) = SECURE_HOST.group(text.as_bytes(), 1) else {
                continue;
            };
            let shown = if ip_is(shown) {
                String::from_utf8_lossy(shown).into_owned()
            } else {
                domain_of(shown)
            };
            if (ip_is(shown.as_bytes()) || boundaries.is_valid(&shown)) && shown != domain {
                hit = true;
                break;
            }
        }
    }
    (hit, anchors)
}

pattern!(IP_LINK, r"^https?:/*(?:[^@/]+@)?\d+\.\d+\.\d+\.\d+", "i");
pattern!(
    SECURE_IP_TEXT,
    r"^https:/*(?:[^@/]+@)?\d+\.\d+\.\d+\.\d+",
    "i"
);

fn https_ip_mismatch(mail: &ScannedMail<'_>) -> bool {
    mail.html_all().any(|html| {
        html.links
            .iter()
            .filter(|link| !link.anchors.is_empty() && IP_LINK.is_match(link.target.as_bytes()))
            .any(|link| {
                html.anchors_of(link).any(|text| {
                    !SECURE_IP_TEXT.is_match(text.as_bytes())
                        && text.to_ascii_lowercase().contains("https:")
                })
            })
    })
}
