//! Mail that is released from the quarantine of one node into mailboxes of all, with swaks,
//! curl and POP3.

use std::path::Path;

use serde_json::Value;

use super::mailboxes::{ANNA, SETTINGS, count, folder, folder_with_users, read, send};
use super::nats::{self, Nats};
use super::readyz;
use super::support::{Gateway, await_some, run};

const SCOPE: &str = "[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/judge\"]\n";

/// Starts a server that puts all mail into quarantine, with these settings before the others.
pub(super) fn start_judging(folder: &Path, own: &str) -> Gateway {
    let settings = SETTINGS.replace("scope = []\n", "");
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let judge = "return function() return 'quarantine' end";
    std::fs::write(procedures.join("judge.luau"), judge).expect("written");
    let gateway = Gateway::start_in(folder, &format!("{own}{settings}{SCOPE}"));
    await_some("the server has what it needs", || {
        (!readyz(&gateway).contains("degraded")).then_some(())
    });
    gateway
}

pub(super) fn administer(gateway: &Gateway, method: &str, path: &str) -> Value {
    let url = gateway.url(path);
    let arguments = ["-sS", "-u", "bert:secret", "-X", method, &url];
    let output = run("curl", &arguments, b"");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn a_mail_that_is_released_is_in_its_mailbox_on_all_nodes() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder_with_users(), folder()];
    let one = start_judging(folders[0].path(), &nats.settings(1));
    let two = start_judging(folders[1].path(), &nats.settings(2));
    let said = send(&one, ANNA, "suspicious");
    assert!(said.contains(" taken"), "{said}");
    assert_eq!(count(&two, "anna"), 0);
    let id = await_some("the other node shows it", || {
        let list = administer(&two, "GET", "/admin/quarantine");
        let id = list["messages"].get(0)?["id"].as_str();
        id.map(str::to_owned)
    });
    let path = format!("/admin/quarantine/{id}/release");
    let released = administer(&two, "POST", &path);
    assert_eq!(released["verdict"], "accept", "{released}");
    for gateway in [&one, &two] {
        assert_eq!(count(gateway, "anna"), 1);
        assert!(String::from_utf8_lossy(&read(gateway, "anna", 1)).contains("suspicious"));
    }
    let list = administer(&one, "GET", "/admin/quarantine");
    assert_eq!(list["total"], 0, "{list}");
}
