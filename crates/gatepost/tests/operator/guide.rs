//! The user guide, served at `/docs`.

use super::support::Gateway;
use super::{STATUS, curl};

#[test]
fn the_guide_is_served_with_a_search_and_without_scripts() {
    let gateway = Gateway::start("rules.paths = []\n");
    let first = curl(&gateway, "/docs", &["-i"]);
    assert!(first.contains("<h1 id=\"user-guide\">"), "{first}");
    assert!(first.contains("default-src 'none'; style-src 'self'"));
    assert!(!first.contains("<script"));
    assert!(first.contains("href=\"/docs/tutorials/mail-to-phone\""));
    let page = curl(&gateway, "/docs/tutorials/mail-to-phone", &[]);
    assert!(page.contains("href=\"/docs/tls\""), "{page}");
    let found = curl(&gateway, "/docs/search?q=Slow+subscribers", &[]);
    assert!(
        found.contains("href=\"/docs/mqtt#slow-subscribers\""),
        "{found}"
    );
    let sheet = curl(&gateway, "/docs/guide.css", &["-i"]);
    assert!(sheet.contains("text/css"), "{sheet}");
    let types = curl(&gateway, "/docs/gatepost.d.luau", &["-i"]);
    assert!(types.contains("text/plain"), "{types}");
    for path in ["/docs/none", "/docs/../Cargo.toml", "/docsx"] {
        let status = curl(&gateway, path, &[&STATUS[..], &["--path-as-is"]].concat());
        assert_eq!(status, "404", "{path}");
    }
    let foreign = [&STATUS[..], &["-H", "Host: evil.example"]].concat();
    assert_eq!(curl(&gateway, "/docs", &foreign), "403");
}

#[test]
fn the_guide_can_be_switched_off_and_replaced() {
    let gateway = Gateway::start("rules.paths = []\nlisteners.http.docs = false\n");
    assert_eq!(curl(&gateway, "/docs", &STATUS), "404");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("pages")).expect("a folder");
    let own = folder.path().join("pages/docs.html");
    std::fs::write(own, "our own").expect("written");
    let gateway = Gateway::start_in(folder.path(), "rules.paths = []\n");
    assert_eq!(curl(&gateway, "/docs", &[]), "our own");
}
