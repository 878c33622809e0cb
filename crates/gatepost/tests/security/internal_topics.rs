//! Topics of the server that show subjects and senders of all mail are for administrators, whatever
//! wildcard names them.

use super::support::{Gateway, add_user, await_some, run, text_of};

/// Filters that match the journal, as they are written in a URL.
const FILTERS: [&str; 5] = [
    "$SYS/gatepost/journal",
    "$SYS/%2B/journal",
    "$SYS/%2B/%2B",
    "$SYS/gatepost/%23",
    "$SYS/%23",
];

/// The status of a request for messages. A stream that begins is cut off by curl.
fn status(gateway: &Gateway, login: &str, filter: &str, accepted: &str) -> String {
    let url = gateway.url(&format!("/topics/{filter}"));
    let format = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "1"];
    let accepted = format!("Accept: {accepted}");
    let request = ["-u", login, "-H", &accepted, &url];
    let output = run("curl", &[&format[..], &request].concat(), b"");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The user may read every topic; the journal is not among them.
#[test]
fn no_wildcard_shows_the_journal_to_a_user() {
    let gateway = Gateway::start("rules.paths = []\naccess.default = \"allow\"\n");
    for (name, more) in [("root", &["--admin"][..]), ("anna", &[])] {
        let added = add_user(&gateway, name, "secret of theirs", more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    let (root, anna) = ("root:secret of theirs", "anna:secret of theirs");
    let stream = "text/event-stream";
    await_some("both are known", || {
        let known = [root, anna].map(|user| status(&gateway, user, "alarms/%23", stream));
        (known == ["200", "200"]).then_some(())
    });
    for filter in FILTERS {
        for accepted in [stream, "application/json", "*/*"] {
            let refused = status(&gateway, anna, filter, accepted);
            assert_eq!(refused, "403", "{filter} {accepted}");
        }
        assert_eq!(status(&gateway, root, filter, stream), "200", "{filter}");
    }
}
