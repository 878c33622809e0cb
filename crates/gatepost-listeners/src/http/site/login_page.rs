//! The pages of `/gatepost/login`. They work without scripts; `login.js` only keeps the position
//! within the page to which the user returns, and goes there immediately if the browser is logged
//! in already.

use super::plain_page::PlainPage;
use crate::http::response::HttpResponse;

/// The form of a login.
pub(super) struct LoginForm<'a> {
    /// The address to which one returns.
    pub next: &'a str,
    /// The name that was entered before.
    pub user: &'a str,
    /// The reason why the login before was refused.
    pub refusal: Option<&'a str>,
    /// Whether others can read the connection's data.
    pub is_exposed: bool,
}

/// The page with the form.
pub(super) fn form(form: &LoginForm<'_>) -> HttpResponse {
    let mut page = begin();
    if let Some(refusal) = form.refusal {
        page.markup("<p class=\"notice-line wrong\" id=\"refusal\" role=\"alert\">");
        page.text(refusal);
        page.markup("</p>\n");
    }
    let described = match form.refusal {
        Some(_) => " aria-describedby=\"refusal\"",
        None => "",
    };
    page.markup("<form method=\"post\" action=\"/gatepost/login\" id=\"login\">\n");
    page.hidden("next", form.next);
    page.markup(
        "<label><span>User</span><input name=\"user\" autocomplete=\"username\" \
         autocapitalize=\"off\" spellcheck=\"false\" required",
    );
    focus(&mut page, form.user.is_empty());
    page.markup(described);
    page.markup(" value=\"");
    page.text(form.user);
    page.markup(
        "\"></label>\n<label><span>Password or token</span><input name=\"password\" \
         type=\"password\" autocomplete=\"current-password\" required",
    );
    focus(&mut page, !form.user.is_empty());
    page.markup(described);
    page.markup("></label>\n<button type=\"submit\" class=\"main\">Log in</button>\n</form>\n");
    if form.is_exposed {
        page.markup(
            "<p class=\"quiet\">This connection is not encrypted: others on the network can read \
             the password.</p>\n",
        );
    }
    page.end(200)
}

/// The page for a browser that is logged in already.
pub(super) fn logged_in(user: &str, can_log_out: bool, next: &str) -> HttpResponse {
    let mut page = begin();
    page.markup("<p>You are logged in as <b dir=\"auto\">");
    page.text(user);
    page.markup("</b>.</p>\n<p><a href=\"");
    page.text(next);
    page.markup("\">Continue</a></p>\n");
    if can_log_out {
        page.markup(
            "<form method=\"post\" action=\"/gatepost/logout\">\
             <button type=\"submit\">Log out</button></form>\n",
        );
    }
    page.end(200)
}

/// The page of a server without users.
pub(super) fn no_user() -> HttpResponse {
    let mut page = begin();
    page.markup(
        "<p>There is no user yet. <code>gatepost user add NAME --admin</code> on the server adds \
         the first one; until then, the server is open to programs of its own machine \
         only.</p>\n<p><a href=\"/\">Dashboard</a></p>\n",
    );
    page.end(200)
}

fn begin() -> PlainPage {
    let mut page = PlainPage::begin("Log in", "login", Some("login.js"));
    page.brand("Gatepost");
    page
}

fn focus(page: &mut PlainPage, has_focus: bool) {
    if has_focus {
        page.markup(" autofocus");
    }
}
