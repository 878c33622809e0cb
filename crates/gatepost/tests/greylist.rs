//! `/greylist` by SMTP, LMTP and milter, with swaks and a real Postfix as clients.

mod support;

use support::name_server::{NameServer, TXT, text};
use support::postfix::Postfix;
use support::{Gateway, await_some, run, swaks, text_of};

/// Clients of this machine are not exempt here.
const SETTINGS: &str = r#"
rules.paths = []
[[scope]]
path = "/mail"
listeners = ["smtp", "lmtp", "milter"]
run = ["/greylist"]
[procedure."/greylist"]
exempt_networks = []
"#;

fn settings(more: &str) -> String {
    format!("{SETTINGS}{more}\n")
}

fn send(server: &str, from: &str, more: &[&str]) -> String {
    text_of(&swaks(server, from, "alarms@localhost", more))
}

const DEFERRED: &str = "451 4.7.1 ";

/// Retries until the mail is admitted.
fn retry(server: &str, from: &str, more: &[&str]) {
    await_some("the mail is admitted", || {
        let transcript = send(server, from, more);
        if transcript.contains(DEFERRED) {
            assert!(transcript.contains("greylisted"), "{transcript}");
            return None;
        }
        assert!(transcript.contains("<-  250 2."), "{transcript}");
        Some(())
    });
}

fn metrics(gateway: &Gateway) -> String {
    text_of(&run("curl", &["-s", &gateway.url("/metrics")], b""))
}

#[test]
fn a_mail_server_that_retries_is_admitted_and_known_after_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings("delay = \"1s\"\nspf = false");
    let gateway = Gateway::start_in(folder.path(), &settings);
    let server = gateway.address("smtp").to_string();
    let transcript = send(&server, "bert@far.example", &[]);
    let reply = format!("{DEFERRED}greylisted: try again in 1 s");
    assert!(transcript.contains(&reply), "{transcript}");
    retry(&server, "bert@far.example", &[]);
    // A bounce is another sender.
    let transcript = send(&server, "<>", &[]);
    assert!(transcript.contains(&reply), "{transcript}");
    let log = gateway.log();
    assert!(log.contains("greylist: admitted after "), "{log}");
    let metrics = metrics(&gateway);
    for decision in ["first", "admitted"] {
        let sample = format!("gatepost_greylist_total{{decision=\"{decision}\"}}");
        assert!(metrics.contains(&sample), "{metrics}");
    }
    // Whatever was submitted before an acknowledged message is on disk with it.
    support::post(&gateway, "a", "x");
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), &settings);
    let server = gateway.address("smtp").to_string();
    let transcript = send(&server, "bert@far.example", &[]);
    assert!(transcript.contains("<-  250 2."), "{transcript}");
    assert!(gateway.log().contains("greylist: known-sender"));
    let transcript = send(&server, "carl@far.example", &[]);
    assert!(transcript.contains(DEFERRED), "{transcript}");
}

#[test]
fn a_domain_may_retry_from_each_network_that_its_spf_record_permits() {
    let names = NameServer::start();
    let record = text("v=spf1 ip4:127.0.0.0/8 -all");
    names.records("far.example", TXT, &[record], false);
    names.records("other.example", TXT, &[], false);
    let servers = format!("[procedures.dns]\nservers = [\"{}\"]", names.address);
    let gateway = Gateway::start(&settings(&format!("delay = \"1s\"\n{servers}")));
    let server = gateway.address("smtp").to_string();
    let from = |address: &'static str| ["--local-interface", address];
    for sender in ["bert@far.example", "bert@other.example"] {
        let transcript = send(&server, sender, &from("127.0.0.1"));
        assert!(transcript.contains(DEFERRED), "{sender}: {transcript}");
        retry(&server, sender, &from("127.0.0.1"));
    }
    let transcript = send(&server, "bert@far.example", &from("127.0.1.1"));
    assert!(transcript.contains("<-  250 2."), "{transcript}");
    let transcript = send(&server, "bert@other.example", &from("127.0.1.1"));
    assert!(transcript.contains(DEFERRED), "{transcript}");
}

#[test]
fn lmtp_and_postfix_keep_the_mail_and_retry() {
    let gateway = Gateway::start(&settings("delay = \"1s\"\nspf = false"));
    let lmtp = gateway.address("lmtp").to_string();
    let by_lmtp = ["--protocol", "LMTP"];
    let transcript = send(&lmtp, "bert@far.example", &by_lmtp);
    assert!(transcript.contains(DEFERRED), "{transcript}");
    retry(&lmtp, "bert@far.example", &by_lmtp);
    let port = gateway.port("milter");
    let milter = format!("smtpd_milters = inet:127.0.0.1:{port}\nmilter_default_action = accept\n");
    let postfix = Postfix::start(&milter);
    let server = postfix.address().to_string();
    let once = || {
        text_of(&swaks(
            &server,
            "dora@far.example",
            "anna@boxes.example",
            &[],
        ))
    };
    let transcript = once();
    assert!(transcript.contains("451 4.7.1 greylisted"), "{transcript}");
    await_some("Postfix accepts the mail", || {
        once().contains("250 2.0.0").then_some(())
    });
    postfix.await_mail("anna", 1);
}

#[test]
fn local_networks_and_allowed_senders_are_exempt() {
    let gateway = Gateway::start(&settings("").replace("exempt_networks = []", ""));
    let server = gateway.address("smtp").to_string();
    let transcript = send(&server, "bert@far.example", &[]);
    assert!(transcript.contains("<-  250 2."), "{transcript}");
    assert!(gateway.log().contains("greylist: exempt-network"));
    let gateway = Gateway::start(&settings("spf = false"));
    let server = gateway.address("smtp").to_string();
    let url = gateway.url("/admin/senders/Bert@far.example");
    let allowed = run("curl", &["-sS", "-f", "-X", "PUT", &url], b"");
    assert!(allowed.status.success(), "{}", text_of(&allowed));
    let transcript = send(&server, "bert@FAR.example", &[]);
    assert!(transcript.contains("<-  250 2."), "{transcript}");
    assert!(gateway.log().contains("greylist: allowed-sender"));
    let transcript = send(&server, "carl@far.example", &[]);
    assert!(transcript.contains(DEFERRED), "{transcript}");
}

#[test]
fn a_deferred_mail_is_not_learned_from() {
    const GATEPOST: &str = env!("CARGO_BIN_EXE_gatepost");
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let text = "bayes_auto_learn 1\nbayes_auto_learn_threshold_nonspam 4.0\n";
    std::fs::write(rules.join("local.cf"), text).expect("written");
    let with_delay = |delay: &str| {
        settings(&format!("delay = \"{delay}\"\nspf = false"))
            .replace("paths = []", "paths = [\"rules\"]")
            .replace("[\"/greylist\"]", "[\"/greylist\", \"/spamcheck\"]")
    };
    let data = format!("data={}", folder.path().join("gatepost-data").display());
    let learned = || {
        let arguments = [
            "learn",
            "--status",
            "--set",
            &data,
            "--set",
            "rules.paths=[]",
        ];
        text_of(&run(GATEPOST, &arguments, b""))
    };
    let gateway = Gateway::start_in(folder.path(), &with_delay("1h"));
    let server = gateway.address("smtp").to_string();
    for _ in 0..3 {
        let transcript = send(&server, "bert@far.example", &[]);
        assert!(transcript.contains(DEFERRED), "{transcript}");
    }
    assert!(learned().contains("0 spam, 0 ham"), "{}", learned());
    // The store writes the first attempts before this message is acknowledged.
    support::post(&gateway, "a", "x");
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), &with_delay("1s"));
    retry(
        &gateway.address("smtp").to_string(),
        "bert@far.example",
        &[],
    );
    await_some("the admitted mail is learned", || {
        learned().contains("0 spam, 1 ham").then_some(())
    });
    let config = folder.path().join("other.toml");
    let other = with_delay("1h").replace(
        "[\"/greylist\", \"/spamcheck\"]",
        "[\"/spamcheck\", \"/greylist\"]",
    );
    std::fs::write(&config, other).expect("written");
    let path = config.to_str().expect("UTF-8");
    let checked = text_of(&run(GATEPOST, &["check", "--config", path], b""));
    assert!(checked.contains("write /greylist first"), "{checked}");
}
