//! One user has one name, however a peer spells it: in a JSON Web Token, over POP3 and in SMTP
//! AUTH.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::support::{Gateway, add_user, await_some, run, send_raw_greeted, swaks, text_of};

/// The key that the issuer of tokens shares with the server.
const ISSUER_KEY: &str = "0123456789abcdef0123456789abcdef";

/// A token for `user` that is valid until 2100, signed by HMAC-SHA256 (RFC 7515, appendix A.1).
fn signed_token(user: &str) -> String {
    let encoded = |part: serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let header = encoded(serde_json::json!({ "alg": "HS256", "typ": "JWT" }));
    let claims = encoded(serde_json::json!({ "sub": user, "exp": 4_102_444_800_u64 }));
    let signed = format!("{header}.{claims}");
    let arguments = ["dgst", "-sha256", "-hmac", ISSUER_KEY, "-binary"];
    let signature = run("openssl", &arguments, signed.as_bytes());
    assert!(signature.status.success(), "{}", text_of(&signature));
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.stdout))
}

/// The status of a publication with a token.
fn publish_with(gateway: &Gateway, token: &str, topic: &str) -> String {
    let login = format!("Authorization: Bearer {token}");
    let url = gateway.url(&format!("/topics/{topic}"));
    let format = ["-s", "-o", "/dev/null", "-w", "%{http_code}"];
    let request = ["-H", &login, "-d", "open", &url];
    text_of(&run("curl", &[&format[..], &request].concat(), b""))
}

/// Runs `gatepost user` on the server's database.
fn user_command(folder: &Path, arguments: &[&str]) {
    let data = format!("data={}", folder.join("gatepost-data").display());
    let arguments = [&["user"][..], arguments, &["--set", &data]].concat();
    let done = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"secret\n");
    assert!(done.status.success(), "{}", text_of(&done));
}

#[test]
fn users_do_not_differ_by_letter_case() {
    let gateway = Gateway::start("rules.paths = []\n");
    let added = add_user(&gateway, "anna", "secret", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    user_command(&gateway.folder, &["passwd", "ANNA"]);
    user_command(&gateway.folder, &["list", "ANNA"]);
    let other = add_user(&gateway, "Anna", "another secret", &[]);
    assert_eq!(other.status.code(), Some(65), "{}", text_of(&other));
    assert!(text_of(&other).contains("there is a user 'anna' already"));
    let short = add_user(&gateway, "otto", "x", &[]);
    assert_eq!(short.status.code(), Some(65), "{}", text_of(&short));
    assert!(text_of(&short).contains("too weak"));
}

/// The rules of a user that an issuer spells otherwise are those of the user's record.
#[test]
fn a_token_names_the_user_in_any_letter_case() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("issuer.key"), ISSUER_KEY).expect("written");
    user_command(folder.path(), &["add", "anna"]);
    user_command(folder.path(), &["grant", "anna", "publish", "home/%u/#"]);
    let gateway = Gateway::start_in(
        folder.path(),
        "rules.paths = []\n[[access.jwt]]\nalgorithm = \"HS256\"\nkey = \"issuer.key\"\n",
    );
    for spelling in ["anna", "Anna", "ANNA"] {
        let token = signed_token(spelling);
        assert_eq!(
            publish_with(&gateway, &token, "home/anna/door"),
            "200",
            "{spelling}"
        );
        assert_eq!(
            publish_with(&gateway, &token, "home/ANNA/door"),
            "403",
            "{spelling}"
        );
    }
}

/// POP3 opens the mailbox of the user's record, and SMTP AUTH lets her send as herself.
#[test]
fn mail_clients_reach_one_mailbox_in_any_letter_case() {
    let folder = tempfile::tempdir().expect("a folder");
    user_command(folder.path(), &["add", "anna"]);
    let gateway = Gateway::start_in(
        folder.path(),
        "rules.paths = []\nlisteners.smtp.domains = [\"people.example\"]\n\
         listeners.smtp.plain_login = true\n\
         [[listeners.smtp.routes]]\nrecipients = \"*@people.example\"\nmailbox = \"{user}\"\n",
    );
    let server = gateway.address("smtp").to_string();
    let login = ["--auth", "PLAIN", "--au", "Anna", "--ap", "secret"];
    let more = [&login[..], &["--header", "Subject: for anna"]].concat();
    let sent = swaks(&server, "anna@people.example", "ANNA@people.example", &more);
    assert!(sent.status.success(), "{}", text_of(&sent));
    assert!(text_of(&sent).contains(" 235 "), "{}", text_of(&sent));
    for spelling in ["anna", "Anna", "aNNA"] {
        let login = STANDARD.encode(format!("\0{spelling}\0secret"));
        let dialogue = format!("AUTH PLAIN {login}\r\nRETR 1\r\nQUIT\r\n");
        let answer = await_some("the mailbox is free again", || {
            let answer = send_raw_greeted(&gateway, "pop3", b"", dialogue.as_bytes());
            let answer = String::from_utf8_lossy(&answer).into_owned();
            (!answer.contains("[IN-USE]")).then_some(answer)
        });
        assert!(answer.contains("Subject: for anna"), "{spelling}: {answer}");
    }
}
