//! Web Push ends with the login that subscribed, also where users may come from a JWT issuer.

use serde_json::Value;

use super::support::{Gateway, add_user, await_some, run, text_of};
use super::web_peer::WebPeer;
use super::web_push::{Browser, SETTINGS, subscribe, web_push_request};

const ROOT: &str = "root:secret of root";

/// A request to `/admin` by the administrator.
fn admin(gateway: &Gateway, method: &str, path: &str, body: &str) -> Value {
    let url = gateway.url(&format!("/admin{path}"));
    let mut arguments = vec!["-s", "-f", "-u", ROOT, "-X", method, &url];
    if !body.is_empty() {
        arguments.extend(["-H", "content-type: application/json", "-d", body]);
    }
    let output = run("curl", &arguments, b"");
    assert!(output.status.success(), "{path}: {}", text_of(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn await_subscriptions(gateway: &Gateway, count: usize) {
    let expected = format!("{count} subscriptions");
    await_some(&expected, || {
        let listed = admin(gateway, "GET", "/sinks", "").to_string();
        listed.contains(&expected).then_some(())
    });
}

#[test]
fn a_subscription_ends_with_its_token_and_with_its_user() {
    let peer = WebPeer::start(|_, _| "201 Created");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("issuer.key"), "k".repeat(32)).expect("written");
    let settings =
        format!("{SETTINGS}[[access.jwt]]\nalgorithm = \"HS256\"\nkey = \"issuer.key\"\n");
    let gateway = Gateway::start_in(folder.path(), &settings);
    add_user(&gateway, "root", "secret of root", &["--admin"]);
    add_user(&gateway, "ann", "secret of ann", &[]);
    add_user(&gateway, "bob", "secret of bob", &[]);
    let (ann, bob) = ("ann:secret of ann", "bob:secret of bob");
    await_some("the users are known", || {
        let status = |user| web_push_request(&gateway, user, "GET", &Value::Null).0;
        ([ROOT, ann, bob].map(status) == [200; 3]).then_some(())
    });
    let made = admin(&gateway, "POST", "/users/ann/tokens", "{\"label\":\"x\"}");
    let by_token = format!("ann:{}", made["token"].as_str().expect("a token"));
    let browser = Browser::new();
    for (user, path) in [(ann, "/a"), (by_token.as_str(), "/t"), (bob, "/b")] {
        let wanted = browser.subscription(&peer.url(path), &["alarms"]);
        subscribe(&gateway, user, &wanted);
    }
    await_subscriptions(&gateway, 3);
    admin(&gateway, "DELETE", "/users/bob", "");
    await_subscriptions(&gateway, 2);
    let listed = admin(&gateway, "GET", "/users/ann", "");
    let id = listed["tokens"][0]["id"].as_str().expect("an id");
    admin(&gateway, "DELETE", &format!("/tokens/{id}"), "");
    await_subscriptions(&gateway, 1);
    let url = gateway.url("/topics/alarms");
    run("curl", &["-s", "-u", ann, "-d", "smoke", &url], b"");
    let requests = peer.await_requests(1);
    assert_eq!(requests[0].path, "/a");
}
