//! The recipes for Postfix. `milter.rs` and `forward/` test the effect of each verdict; this module
//! uses the lines of the recipes.

use crate::support::postfix::{DOMAIN, Postfix};
use crate::support::{Gateway, free_port};
use crate::{block, proxy_settings, recipe, send, write_rules};

fn assert_judged(postfix: &Postfix) {
    let server = postfix.address().to_string();
    let anna = format!("anna@{DOMAIN}");
    let good = send(&server, &anna, "good news", &[]);
    assert!(good.contains("<-  250 2.0.0 Ok: queued as"), "{good}");
    let bad = send(&server, &anna, "BAD news", &[]);
    assert!(bad.contains("<** 550 5.7.1"), "{bad}");
    let mail = postfix.await_mail("anna", 1);
    assert!(mail[0].contains("Subject: good news"), "{mail:?}");
}

#[test]
fn postfix_asks_by_milter() {
    let home = tempfile::tempdir().expect("a folder");
    write_rules(home.path());
    let gateway = Gateway::start_in(home.path(), "rules.paths = [\"rules.cf\"]\n");
    let recipe = recipe("Postfix, by milter").replace("8891", &gateway.port("milter"));
    assert_judged(&Postfix::start(&recipe));
}

#[test]
fn postfix_asks_by_a_proxy() {
    let home = tempfile::tempdir().expect("a folder");
    write_rules(home.path());
    let after_proxy = free_port();
    let gateway = Gateway::start_in(home.path(), &proxy_settings(after_proxy));
    let services = block("Postfix, by a proxy before its queue", "")
        .replace("127.0.0.1:10026", &format!("127.0.0.1:{after_proxy}"))
        .replace("127.0.0.1:10025", &gateway.address("smtp").to_string());
    assert_judged(&Postfix::start_with("", &services));
}
