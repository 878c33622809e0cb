//! Pages that the server writes itself, for browsers without scripts too.

use gatepost_pages::push_escaped;

use super::assets;
use crate::http::response::HttpResponse;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n\
<link rel=\"icon\" href=\"/gatepost/icon.svg\" type=\"image/svg+xml\">\n\
<link rel=\"stylesheet\" href=\"/gatepost/dashboard.css\">\n";

/// A page that is being written.
pub(super) struct PlainPage(Vec<u8>);

impl PlainPage {
    /// A page with this title, in which a card of `class` is open, and with a script of
    /// `/gatepost/`.
    pub(super) fn begin(title: &str, class: &str, script: Option<&str>) -> Self {
        let mut page = Self(HEAD.as_bytes().to_vec());
        page.markup("<title>");
        page.text(title);
        page.markup(" · Gatepost</title>\n");
        if let Some(script) = script {
            page.markup("<script src=\"/gatepost/");
            page.markup(script);
            page.markup("\" type=\"module\"></script>\n");
        }
        page.markup("</head>\n<body class=\"");
        page.markup(class);
        page.markup("\">\n<main class=\"card\">\n");
        page
    }

    /// The icon of the server, and a title.
    pub(super) fn brand(&mut self, title: &str) {
        self.markup(
            "<div class=\"brand\"><img src=\"/gatepost/icon.svg\" alt=\"\" width=\"32\" \
             height=\"32\"><h1>",
        );
        self.text(title);
        self.markup("</h1></div>\n");
    }

    pub(super) fn markup(&mut self, markup: &str) {
        self.0.extend_from_slice(markup.as_bytes());
    }

    /// Foreign text, escaped.
    pub(super) fn text(&mut self, text: &str) {
        push_escaped(&mut self.0, text);
    }

    pub(super) fn hidden(&mut self, name: &str, value: &str) {
        self.markup("<input type=\"hidden\" name=\"");
        self.text(name);
        self.markup("\" value=\"");
        self.text(value);
        self.markup("\">\n");
    }

    pub(super) fn end(mut self, status: u16) -> HttpResponse {
        self.markup("</main>\n</body>\n</html>\n");
        let mut page = assets::page(self.0);
        page.status = status;
        for (name, value) in &mut page.fields {
            if name == "Cache-Control" {
                *value = "no-store".into();
            }
        }
        page
    }
}
