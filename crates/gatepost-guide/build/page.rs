//! One page of the guide: its HTML with anchors, its sections for the search, and the links below
//! each of its headings, of which the guide's first page makes the table of contents.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// The path of the guide.
const ROOT: &str = "/docs/";

/// A page.
pub(crate) struct RenderedPage {
    /// Its first heading.
    pub(crate) title: String,
    /// Its contents.
    pub(crate) html: String,
    /// Its sections, in order.
    pub(crate) sections: Vec<PageSection>,
    /// Its headings of the second level with their links to other pages.
    pub(crate) chapters: Vec<Chapter>,
}

/// The text below a heading.
#[derive(Default)]
pub(crate) struct PageSection {
    /// The anchor of the heading; empty for the page itself.
    pub(crate) anchor: String,
    /// The heading.
    pub(crate) heading: String,
    /// The text without markup.
    pub(crate) text: String,
}

/// A heading of the second level.
pub(crate) struct Chapter {
    /// Its text.
    pub(crate) title: String,
    /// Address and text of each link to a page.
    pub(crate) links: Vec<(String, String)>,
}

/// The address below `/docs/` of the page of this file; `None` for other files.
pub(crate) fn address(file: &str) -> Option<String> {
    let name = file.strip_suffix(".md")?;
    Some(if name == "README" { "" } else { name }.to_owned())
}

/// Renders the text of this file.
pub(crate) fn render(file: &str, markdown: &str) -> RenderedPage {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut events: Vec<Event> = Parser::new_ext(markdown, options).collect();
    let mut reader = Reader::default();
    for index in 0..events.len() {
        let heading = match &events[index] {
            Event::Start(Tag::Heading { .. }) => text_until_end(&events[index..]),
            _ => String::new(),
        };
        reader.read(file, &mut events[index], &heading);
    }
    let without_target = drop_links_outside(events);
    let mut rendered = String::new();
    html::push_html(&mut rendered, without_target.into_iter());
    RenderedPage {
        title: reader.title,
        html: rendered,
        sections: reader.sections,
        chapters: reader.chapters,
    }
}

/// The state while the events of a page are read.
#[derive(Default)]
struct Reader {
    title: String,
    sections: Vec<PageSection>,
    chapters: Vec<Chapter>,
    /// The page that the current link leads to.
    link: Option<String>,
    is_heading: bool,
}

impl Reader {
    /// Reads an event, gives headings their anchors, and links the addresses of pages.
    fn read(&mut self, file: &str, event: &mut Event, heading: &str) {
        match event {
            Event::Start(Tag::Heading { level, id, .. }) => {
                self.is_heading = true;
                let is_title = *level == HeadingLevel::H1;
                let anchor = anchor(heading);
                if is_title {
                    heading.clone_into(&mut self.title);
                }
                self.sections.push(PageSection {
                    anchor: if is_title {
                        String::new()
                    } else {
                        anchor.clone()
                    },
                    heading: heading.to_owned(),
                    text: String::new(),
                });
                if *level == HeadingLevel::H2 {
                    let title = heading.to_owned();
                    let links = Vec::new();
                    self.chapters.push(Chapter { title, links });
                }
                *id = Some(anchor.into());
            }
            Event::End(TagEnd::Heading(_)) => self.is_heading = false,
            Event::Start(Tag::Link { dest_url, .. }) => {
                *dest_url = served(file, dest_url).into();
                self.link = dest_url.strip_prefix(ROOT).map(str::to_owned);
                if let (Some(address), Some(chapter)) = (&self.link, self.chapters.last_mut()) {
                    chapter.links.push((address.clone(), String::new()));
                }
            }
            Event::End(TagEnd::Link) => self.link = None,
            Event::Text(text) | Event::Code(text) => self.text(text),
            Event::End(TagEnd::TableCell | TagEnd::Paragraph | TagEnd::Item)
            | Event::SoftBreak
            | Event::HardBreak => self.text(&CowStr::Borrowed(" ")),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.link.is_some()
            && let Some((_, name)) = self
                .chapters
                .last_mut()
                .and_then(|one| one.links.last_mut())
        {
            name.push_str(text);
        }
        if let Some(section) = self.sections.last_mut().filter(|_| !self.is_heading) {
            section.text.push_str(text);
        }
    }
}

/// The text of a heading whose start is the first event.
fn text_until_end(events: &[Event]) -> String {
    let until_end = events
        .iter()
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    until_end
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A link's target as it is served; empty for a file outside the guide.
fn served(file: &str, target: &str) -> String {
    if target.contains("://") || target.starts_with('#') {
        return target.to_owned();
    }
    let (path, fragment) = match target.split_once('#') {
        Some((path, fragment)) => (path, format!("#{fragment}")),
        None => (target, String::new()),
    };
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." if parts.pop().is_none() => return String::new(),
            "." | ".." => {}
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let path = address(&path).unwrap_or(path);
    format!("{ROOT}{path}{fragment}")
}

/// Leaves the text of links without a target, and of pictures, which are not served.
fn drop_links_outside(events: Vec<Event>) -> Vec<Event> {
    let mut is_dropped = false;
    let mut kept = Vec::with_capacity(events.len());
    for event in events {
        match event {
            Event::Start(Tag::Link { ref dest_url, .. }) if dest_url.is_empty() => {
                is_dropped = true;
            }
            Event::End(TagEnd::Link) if is_dropped => is_dropped = false,
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => {}
            event => kept.push(event),
        }
    }
    kept
}
