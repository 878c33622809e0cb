//! The frame of a page: search field, table of contents, contents. It needs no script.

use std::fmt::Write;

use crate::search::FoundSection;
use crate::{CHAPTERS, Page};

/// The whole of a page.
pub(crate) fn page(page: &Page) -> String {
    frame(page.title, page.address, "", page.html.text())
}

/// The page with the results of a search.
pub(crate) fn results(query: &str, found: &[FoundSection]) -> String {
    let mut html = String::from("<h1>Search</h1>");
    let count = found.len();
    let sections = if count == 1 { "section" } else { "sections" };
    // A write to a string succeeds.
    let _ = write!(
        html,
        "<p role=status>{count} {sections} for <b>{}</b></p><ol class=found>",
        escaped(query)
    );
    for one in found {
        let section = one.section;
        let fragment = match section.anchor {
            "" => String::new(),
            anchor => format!("#{anchor}"),
        };
        let _ = write!(
            html,
            "<li><a href=\"/docs/{}{fragment}\">{}</a> <small>{}</small><p>… {} …</p>",
            section.address,
            escaped(section.heading),
            escaped(section.page),
            escaped(one.excerpt.trim())
        );
    }
    html.push_str("</ol>");
    frame("Search", "search", query, &html)
}

fn frame(title: &str, address: &str, query: &str, contents: &str) -> String {
    let mut html = String::with_capacity(contents.len() + 8192);
    let _ = write!(
        html,
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">\
         <title>{} - Gatepost</title><link rel=stylesheet href=/docs/guide.css>\
         <link rel=icon href=/gatepost/icon.svg>\
         <a class=skip href=#contents>Skip to the contents</a>\
         <header><a class=brand href=/docs>Gatepost's user guide</a>\
         <form role=search action=/docs/search><label for=q>Search</label>\
         <input type=search id=q name=q maxlength={} value=\"{}\"></form>\
         <a href=/dashboard>Dashboard</a></header>\
         <div class=columns><nav aria-label=\"User guide\">",
        escaped(title),
        crate::QUERY_MAX,
        escaped(query)
    );
    for (chapter, links) in CHAPTERS {
        let _ = write!(html, "<h2>{}</h2><ul>", escaped(chapter));
        for (target, text) in *links {
            let current = if *target == address {
                " aria-current=page"
            } else {
                ""
            };
            let _ = write!(
                html,
                "<li><a href=\"/docs/{target}\"{current}>{}</a>",
                escaped(text)
            );
        }
        html.push_str("</ul>");
    }
    let _ = write!(
        html,
        "</nav><main id=contents tabindex=-1>{contents}</main></div></html>"
    );
    html
}

/// Text for HTML, also in quoted attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GuideDocument, PAGES, document, search_page};

    fn html(document: Option<GuideDocument>) -> String {
        match document {
            Some(GuideDocument::Html(html)) => html,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_link_of_the_guide_leads_to_a_document_of_it() {
        for page in PAGES {
            let html = html(document(page.address));
            for link in html.split("href=\"/docs/").skip(1) {
                let link = link.split(['"', '#']).next().unwrap_or_default();
                assert!(document(link).is_some(), "{}: {link}", page.address);
            }
        }
    }

    #[test]
    fn the_first_page_lists_chapters_and_every_page_has_a_title() {
        assert!(CHAPTERS.len() > 3, "{CHAPTERS:?}");
        assert!(PAGES.iter().all(|page| !page.title.is_empty()));
        assert!(html(document("")).contains("aria-label=\"User guide\""));
    }

    #[test]
    fn a_query_is_shown_as_text() {
        let html = html(Some(search_page("\"><script>x</script> topic")));
        assert!(!html.contains("<script>"), "{html}");
        assert!(html.contains("value=\"&quot;&gt;&lt;script&gt;"), "{html}");
    }

    #[test]
    fn files_outside_the_guide_are_not_served() {
        assert!(document("../README").is_none());
        assert!(document("defaults.toml").is_some());
        assert!(document("images/story.png").is_none());
    }
}
