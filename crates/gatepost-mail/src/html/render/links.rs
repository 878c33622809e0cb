//! The links of a document, with the elements that contain them.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Renderer;
use crate::html::entity::{EntityContext, decode};
use crate::html::facts::HtmlLink;
use crate::html::target::resolve;
use crate::html::tokens::Attributes;

/// The longest link that is kept, in bytes.
const LINK_LENGTH_MAX: usize = 8192;
/// The most different links of a document.
const LINKS_MAX: usize = 20_000;

impl Renderer {
    pub(super) fn link(&mut self, target: String) -> Option<&mut HtmlLink> {
        let index = match self.link_index.get(target.as_str()) {
            Some(&index) => index,
            None if self.facts.links.len() < LINKS_MAX => {
                let index = self.facts.links.len();
                let target = Arc::<str>::from(target);
                self.facts.links.push(HtmlLink {
                    target: Arc::clone(&target),
                    elements: SmallVec::new(),
                    anchors: SmallVec::new(),
                });
                self.link_index.insert(target, index);
                index
            }
            None => {
                self.facts.link_truncated = true;
                return None;
            }
        };
        self.facts.links.get_mut(index)
    }

    /// The link without white space around it, cut to the maximum length.
    pub(super) fn trimmed_link<'b>(&mut self, link: &'b str) -> &'b str {
        let link = link.trim_matches(|letter: char| letter.is_whitespace());
        if link.len() <= LINK_LENGTH_MAX {
            return link;
        }
        self.facts.link_truncated = true;
        let mut end = LINK_LENGTH_MAX;
        while !link.is_char_boundary(end) {
            end -= 1;
        }
        link.get(..end).unwrap_or_default()
    }

    pub(super) fn push_link(&mut self, element: &'static str, link: &str) {
        let link = self.trimmed_link(link);
        if link.is_empty() {
            return;
        }
        let absolute = ["data:", "mailto:", "file:", "cid:", "tel:"]
            .iter()
            .any(|scheme| {
                link.get(..scheme.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            });
        let target = if absolute {
            link.to_owned()
        } else {
            resolve(self.base.as_deref().unwrap_or_default(), link)
        };
        if target.is_empty() {
            return;
        }
        if let Some(link) = self.link(target)
            && !link.elements.contains(&element)
        {
            link.elements.push(element);
        }
    }

    pub(super) fn push_attribute(
        &mut self,
        element: &'static str,
        attributes: &Attributes<'_>,
        name: &str,
    ) {
        if let Some(value) = attributes.get(name) {
            let value = decode(value, EntityContext::Attribute).0;
            self.push_link(element, &value);
        }
    }

    pub(super) fn links(&mut self, tag: &str, attributes: &Attributes<'_>) {
        match element_name(tag) {
            Some(tag @ ("body" | "table" | "tr" | "td")) => {
                self.push_attribute(tag, attributes, "background");
            }
            Some(tag @ ("a" | "area" | "link")) => {
                if let Some(value) = sloppy_attribute(attributes, "href") {
                    let value = decode(value, EntityContext::Attribute)
                        .0
                        .replace('\u{feff}', "");
                    self.push_link(tag, &value);
                }
                self.push_attribute(tag, attributes, "data-saferedirecturl");
            }
            Some(tag @ ("img" | "frame" | "iframe" | "embed" | "script" | "bgsound")) => {
                if let Some(value) = sloppy_attribute(attributes, "src") {
                    let value = decode(value, EntityContext::Attribute).0;
                    self.push_link(tag, &value);
                }
            }
            Some("form") => self.push_attribute("form", attributes, "action"),
            Some("base") => self.base_link(attributes),
            Some("meta") => self.refresh_link(attributes),
            _ => {}
        }
    }

    /// `<base href>`, against which relative links are resolved.
    pub(super) fn base_link(&mut self, attributes: &Attributes<'_>) {
        let Some(value) = attributes
            .get("href")
            .filter(|value| !value.is_empty() && *value != "0")
        else {
            return;
        };
        let value = decode(value, EntityContext::Attribute).0;
        let link = self.trimmed_link(&value).to_owned();
        self.push_link("base", &link);
        let lower = link.to_ascii_lowercase();
        let Some(scheme) = ["http:", "https:", "ftp:"]
            .into_iter()
            .find(|scheme| lower.starts_with(scheme))
        else {
            return;
        };
        let mut base = without_file_name(&link, scheme.len()).to_owned();
        if !base.ends_with('/') {
            base.push('/');
        }
        self.base = Some(base);
    }

    /// `<meta http-equiv=refresh content="0; url=…">`.
    pub(super) fn refresh_link(&mut self, attributes: &Attributes<'_>) {
        let (Some(kind), Some(content)) = (attributes.get("http-equiv"), attributes.get("content"))
        else {
            return;
        };
        if !kind.to_ascii_lowercase().contains("refresh") {
            return;
        }
        let content = decode(content, EntityContext::Attribute).0;
        let lower = content.to_ascii_lowercase();
        let mut found = None;
        for (at, _) in lower.match_indices("url") {
            let boundary = !lower
                .get(..at)
                .unwrap_or_default()
                .ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
            let rest = lower.get(at + 3..).unwrap_or_default().trim_start();
            if boundary && rest.starts_with('=') {
                found = Some(lower.len() - rest.len() + 1);
            }
        }
        if let Some(link) = found.and_then(|start| content.get(start..)) {
            let link = link.trim_start();
            let link = link.split(';').next().unwrap_or_default().trim_end();
            self.push_link("meta", link);
        }
    }
}

/// The constant that is equal to `tag`, for elements that contain links.
fn element_name(tag: &str) -> Option<&'static str> {
    const LINKING: [&str; 17] = [
        "a", "area", "base", "bgsound", "body", "embed", "form", "frame", "iframe", "img", "link",
        "meta", "script", "table", "td", "tr", "th",
    ];
    LINKING.into_iter().find(|known| *known == tag)
}

/// The attribute, even if its name is preceded by a slash, as in `<a/href=…>`.
pub(super) fn sloppy_attribute<'a>(attributes: &Attributes<'a>, name: &str) -> Option<&'a str> {
    let sloppy = attributes.iter().find(|(known, _)| {
        let known = known.to_ascii_lowercase();
        known.match_indices(name).any(|(at, _)| {
            let before = known.get(..at).unwrap_or_default();
            before.strip_suffix('/').is_some_and(|before| {
                before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
            })
        })
    });
    match sloppy {
        Some((_, value)) => Some(value),
        None => attributes.get(name),
    }
}

/// A base link without its file name, if it ends in a name with an extension.
fn without_file_name(link: &str, scheme_length: usize) -> &str {
    let rest = link.get(scheme_length..).unwrap_or_default();
    let host_start = link.len()
        - rest
            .trim_start_matches('/')
            .len()
            .max(rest.len().saturating_sub(2));
    let Some(slash) = link
        .get(host_start..)
        .and_then(|host| host.find('/'))
        .map(|at| at + host_start)
    else {
        return link;
    };
    let Some(dot) = link.rfind('.').filter(|&dot| dot > slash) else {
        return link;
    };
    let extension = link.get(dot + 1..).unwrap_or_default();
    if !(2..=4).contains(&extension.len()) || extension.contains('/') {
        return link;
    }
    let name_start = link
        .get(..dot)
        .and_then(|head| head.rfind(['/', '.']))
        .map_or(0, |at| at + 1);
    if name_start == dot {
        link
    } else {
        link.get(..name_start.max(slash + 1)).unwrap_or(link)
    }
}
