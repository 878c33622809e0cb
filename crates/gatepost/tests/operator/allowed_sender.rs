//! An entry of the operator's list allows a sender only if the network does not disprove it: every
//! client can write any envelope sender.

use super::support::name_server::{NameServer, TXT, text};
use super::support::{Gateway, swaks, text_of};
use super::{STATUS, curl};

/// A rule that makes spam of the mail, and one that queries SPF.
const RULES: &str = "body WINNER /lottery winner/\nscore WINNER 1000\n\
    header SPF_FAIL eval:check_for_spf_fail()\nscore SPF_FAIL 0.1\n";
const SENDER: &str = "anna@author.example";

#[test]
fn an_allowed_sender_that_spf_disproves_is_judged_like_any_other() {
    let names = NameServer::start();
    let record = text("v=spf1 ip4:192.0.2.7 -all");
    names.records("author.example", TXT, &[record], false);
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules.cf");
    std::fs::write(&rules, RULES).expect("written");
    let settings = format!(
        "rules.paths = [\"{}\"]\nrules.network = true\nrules.dns_server = \"{}\"\n\
         listeners.smtp.trusted = [\"127.0.0.1\"]\n\
         [[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/spamcheck\"]\n",
        rules.display(),
        names.address
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let server = gateway.address("smtp").to_string();
    let send = |address: &str| {
        let client = format!("ADDR={address} NAME=mail.author.example HELO=mail.author.example");
        let more = ["--xclient", &client, "--body", "a lottery winner"];
        text_of(&swaks(&server, SENDER, "alarms@localhost", &more))
    };
    let (genuine, forged) = ("192.0.2.7", "198.51.100.1");
    for address in [genuine, forged] {
        let said = send(address);
        assert!(said.contains("<** 550 5.7.1"), "before the entry: {said}");
    }
    let path = format!("/admin/senders/{SENDER}");
    let allow = [&STATUS[..], &["-X", "PUT"]].concat();
    assert_eq!(curl(&gateway, &path, &allow), "204");
    let said = send(genuine);
    assert!(said.contains("<-  250 2."), "{said}");
    let said = send(forged);
    assert!(said.contains("<** 550 5.7.1"), "{said}");
}
