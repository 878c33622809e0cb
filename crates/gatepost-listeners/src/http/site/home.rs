//! The page that users who are not administrators see instead of the dashboard: links to the pages
//! that every user may open.

use super::plain_page::PlainPage;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;

/// The pages for every user: address, name and purpose.
const PAGES: [(&str, &str, &str); 3] = [
    (
        "/senders",
        "Senders",
        "allow and block senders for your mailbox",
    ),
    (
        "/push",
        "Notifications",
        "receive messages of topics in this browser, also while the page is closed",
    ),
    ("/docs", "User guide", "how to use this server"),
];

/// The page, if a browser asks for one and its user is known.
pub(in crate::http) fn respond(request: &HttpRequest) -> Option<HttpResponse> {
    let user = request.user()?;
    let is_read = matches!(request.method(), "GET" | "HEAD");
    let accept = request.field("accept").unwrap_or_default();
    if !is_read || !accept.contains("text/html") {
        return None;
    }
    let mut page = PlainPage::begin("Your pages", "login", None);
    page.brand("Gatepost");
    page.markup("<p>You are logged in as <b dir=\"auto\">");
    page.text(user);
    page.markup("</b>. The dashboard is for administrators.</p>\n<ul class=\"pages\">\n");
    for (address, name, purpose) in PAGES {
        page.markup("<li><a href=\"");
        page.markup(address);
        page.markup("\">");
        page.markup(name);
        page.markup("</a> <span class=\"quiet\">");
        page.markup(purpose);
        page.markup("</span></li>\n");
    }
    page.markup("</ul>\n<p><a href=\"/gatepost/login\">Log in as another user</a></p>\n");
    if request.session.is_some() {
        page.markup(
            "<form method=\"post\" action=\"/gatepost/logout\">\
             <button type=\"submit\">Log out</button></form>\n",
        );
    }
    Some(page.end(200))
}
