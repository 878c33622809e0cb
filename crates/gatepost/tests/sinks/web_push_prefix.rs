//! Web Push for users whose topics have a prefix (`access.mount`), which they do not see.

use serde_json::{Value, json};

use super::support::{Gateway, add_user, await_some, run, text_of};
use super::web_peer::WebPeer;
use super::web_push::{Browser, SETTINGS, server_key, web_push_request};

fn publish_as(gateway: &Gateway, user: &str, topic: &str, payload: &str) {
    let url = gateway.url(&format!("/topics/{topic}"));
    let output = run("curl", &["-s", "-f", "-u", user, "-d", payload, &url], b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn users_with_a_prefix_get_their_own_messages_under_their_own_names() {
    let peer = WebPeer::start(|_, _| "201 Created");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{SETTINGS}access.mount = \"%u/\"\n");
    let gateway = Gateway::start_in(folder.path(), &settings);
    let (anna, otto, root) = ("anna:password-a", "otto:password-o", "root:password-r");
    for login in [anna, otto, root] {
        let (name, password) = login.split_once(':').expect("a login");
        let more: &[&str] = if name == "root" { &["--admin"] } else { &[] };
        assert!(add_user(&gateway, name, password, more).status.success());
    }
    await_some("the users are known", || {
        let statuses = ["", anna, otto, root]
            .map(|user| web_push_request(&gateway, user, "GET", &Value::Null).0);
        (statuses == [401, 200, 200, 200]).then_some(())
    });
    let (of_anna, of_otto) = (Browser::new(), Browser::new());
    for (user, browser, path) in [(anna, &of_anna, "/anna"), (otto, &of_otto, "/otto")] {
        let wanted = browser.subscription(&peer.url(path), &["#", "door"]);
        assert_eq!(web_push_request(&gateway, user, "POST", &wanted).0, 200);
        let (_, listed) = web_push_request(&gateway, user, "GET", &Value::Null);
        assert_eq!(listed["subscriptions"][0]["topics"], json!(["#", "door"]));
        for topic in ["$SYS/#", "$share/g/door"] {
            let refused = browser.subscription(&peer.url("/other"), &[topic]);
            let (status, _) = web_push_request(&gateway, user, "POST", &refused);
            assert!((400..500).contains(&status), "{topic}: {status}");
        }
    }
    publish_as(&gateway, root, "anna", "a topic that anna cannot name");
    publish_as(&gateway, root, "anna/%24SYS/a", "another one");
    publish_as(&gateway, anna, "door", "for anna");
    publish_as(&gateway, otto, "door", "for otto");
    peer.await_requests(2);
    // The prefix is part of the stored subscription.
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), &settings);
    publish_as(&gateway, root, "anna/hall/light", "on");
    let requests = await_some("the third message", || {
        let requests = peer.requests();
        let is_last = |path: &str| requests.iter().filter(|one| one.path == path).count();
        (is_last("/anna") >= 2 && is_last("/otto") >= 1).then(|| requests.clone())
    });
    let key = server_key(&gateway, root);
    for (browser, path, expected) in [
        (&of_anna, "/anna", &["door for anna", "hall/light on"][..]),
        (&of_otto, "/otto", &["door for otto"]),
    ] {
        let own = requests.iter().filter(|request| request.path == path);
        let own: Vec<_> = own.cloned().collect();
        let (shown, _) = browser.read(&own, &key);
        let text = |one: &Value, name: &str| one[name].as_str().expect("text").to_owned();
        let mut shown: Vec<_> = shown
            .iter()
            .map(|one| format!("{} {}", text(one, "topic"), text(one, "message")))
            .collect();
        // The crash may have repeated a message.
        shown.dedup();
        assert_eq!(shown, expected, "{path}");
    }
}
