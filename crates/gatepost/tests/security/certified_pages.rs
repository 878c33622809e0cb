//! The visitor of a page that a client certificate names.

use super::support::authority::Authority;
use super::support::{Gateway, add_user, await_some, run, text_of};

#[test]
fn a_page_knows_the_user_of_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let authority = Authority::new(folder.path(), "ca");
    authority.sign("server", "localhost", &["localhost"]);
    authority.sign("anna", "anna", &[]);
    authority.sign("stranger", "stranger", &[]);
    for (name, text) in [
        ("pages/user.html", "[{{ request.user }}]"),
        ("pages/called.html", "[{{ call('/visitor') }}]"),
        (
            "procedures/visitor.luau",
            "return function(message) return message.user or '' end",
        ),
    ] {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }
    let gateway = Gateway::start(&format!(
        "rules.paths = []\npages.path = '{}'\nprocedures.path = '{}'\n\
         [listeners.http.tls]\nbind = [\"127.0.0.1:0\"]\ncert = '{}'\nkey = '{}'\n\
         client_ca = '{}'\nclient_is_user = true\n",
        path("pages"),
        path("procedures"),
        path("server.pem"),
        path("server.key"),
        path("ca.pem"),
    ));
    let added = add_user(&gateway, "anna", "secret of anna", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    let port = gateway.port("http/tls");
    let visit = |who: &str, page: &str, version: &str| {
        let url = format!("https://localhost:{port}/{page}");
        let (ca, cert) = (path("ca.pem"), path(&format!("{who}.pem")));
        let key = path(&format!("{who}.key"));
        let shown = ["--cacert", &ca, "--cert", &cert, "--key", &key, &url];
        text_of(&run("curl", &[&["-s", version], &shown[..]].concat(), b""))
    };
    // The server looks for changes by commands once a second.
    await_some("the user is known", || {
        (visit("anna", "user", "--http1.1") == "[anna]").then_some(())
    });
    // A page that reads the request, and one whose procedure does; each from the disk, then from
    // memory.
    for page in ["user", "called"] {
        for version in ["--http1.1", "--http1.1", "--http2"] {
            assert_eq!(visit("anna", page, version), "[anna]", "{page} {version}");
            assert_eq!(visit("stranger", page, version), "[]", "{page} {version}");
        }
    }
}
