//! Mail for a next hop that was quarantined and is released: Postfix is the next hop.

use super::support::postfix::Postfix;
use super::support::{Gateway, run, text_of};
use super::{gateway, json, send, smtp};

fn release(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let url = gateway.url("");
    let arguments = [&["quarantine", "release"], arguments, &["--url", &url]].concat();
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    (output.status.success(), text_of(&output))
}

fn quarantined(gateway: &Gateway, to: &str) -> String {
    let server = gateway.address("smtp").to_string();
    let asked = ["--header", "X-Verdict: quarantine"];
    let transcript = send(&server, to, &asked);
    assert!(transcript.contains("250 2.0.0"), "{transcript}");
    let kept = json(gateway, "/admin/quarantine?count=1");
    kept["messages"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

#[test]
fn a_released_message_goes_to_the_next_hop_and_stays_if_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let next_hop = Postfix::start("");
    let gateway = gateway(folder.path(), &smtp(&next_hop), "");
    let id = quarantined(&gateway, "anna@boxes.example");
    let (done, said) = release(&gateway, &[&id]);
    assert!(done, "{said}");
    assert!(
        said.contains("released to next hop anna@boxes.example"),
        "{said}"
    );
    let mail = next_hop.await_mail("anna", 1);
    assert!(mail[0].contains("\nX-Verdict: quarantine\n"), "{mail:?}");
    let story = json(&gateway, &format!("/admin/messages/{id}"));
    assert_eq!(story["action"], "accept", "{story}");
    assert_eq!(story["steps"][0]["outcome"], "handed_on", "{story}");

    // Other recipients: the first is unknown there, the second gets it as an attachment.
    let id = quarantined(&gateway, "anna@boxes.example");
    let (done, said) = release(&gateway, &[&id, "--to", "unknown@boxes.example"]);
    assert!(!done && said.contains("550 5.1.1"), "{said}");
    assert!(said.contains("stays in quarantine"), "{said}");
    let (done, said) = release(&gateway, &[&id, "--to", "bert@elsewhere.example"]);
    assert!(!done && said.contains("not a relay"), "{said}");
    let (done, said) = release(&gateway, &[&id, "--to", "bert@boxes.example", "--attached"]);
    assert!(done, "{said}");
    let mail = next_hop.await_mail("bert", 1);
    assert!(
        mail[0].contains("Subject: Released from quarantine: hello"),
        "{mail:?}"
    );
    assert!(mail[0].contains("Content-Type: message/rfc822"), "{mail:?}");
    let kept = json(&gateway, "/admin/quarantine");
    assert_eq!(kept["total"], 0, "{kept}");
    assert_eq!(next_hop.mailbox("anna").len(), 1);
}
