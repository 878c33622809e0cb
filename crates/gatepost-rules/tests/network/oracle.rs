//! SpamAssassin itself, with the rules of a test and asking the server of the test.

use std::io::Write as _;

use super::server::Server;

/// What SpamAssassin itself says with the same rules and the same server.
pub(crate) fn theirs(
    server: &Server,
    rules: &str,
    messages: &[(&str, String)],
) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["rules", "site", "state"] {
        std::fs::create_dir(path(name)).expect("a folder");
    }
    let plugins = [
        "Check", "DNSEval", "SPF", "DKIM", "ASN", "HashBL", "WLBLEval", "DMARC", "URIDNSBL",
        "AskDNS", "URIDNSBL", "AskDNS",
    ];
    let plugins = plugins.map(|name| format!("loadplugin Mail::SpamAssassin::Plugin::{name}\n"));
    let network = format!("dns_available yes\ndns_server {}\n", server.address);
    std::fs::write(path("site/init.pre"), plugins.concat()).expect("written");
    std::fs::write(path("rules/cases.cf"), format!("{network}{rules}")).expect("written");
    let suffixes = path("suffixes");
    std::fs::write(&suffixes, "example\n").expect("written");
    let dmarc = format!(
        "[dns]\ntimeout = 5\npublic_suffix_list = {}\n",
        suffixes.display()
    );
    std::fs::write(path("dmarc.ini"), dmarc).expect("written");
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hits.pl");
    let mut judge = std::process::Command::new("perl")
        .arg(script)
        .env("RULES", path("rules"))
        .env("SITE", path("site"))
        .env("STATE", path("state"))
        .env("NETWORK", "1")
        // Mail::DMARC asks by a resolver of its own, which these turn to ours, and knows `example`
        // for a top-level domain only with this file.
        .env("MAIL_DMARC_CONFIG_FILE", path("dmarc.ini"))
        .env("RES_NAMESERVERS", server.address.ip().to_string())
        .env("RES_OPTIONS", format!("port:{}", server.address.port()))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the peers 'perl' and 'spamassassin' are installed");
    let mut input = judge.stdin.take().expect("is piped");
    for (index, (_, message)) in messages.iter().enumerate() {
        let file = path(&format!("{index}.eml"));
        std::fs::write(&file, message).expect("written");
        writeln!(input, "{index}\t{}", file.display()).expect("SpamAssassin reads");
    }
    drop(input);
    let output = judge.wait_with_output().expect("SpamAssassin ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let names = text.lines().map(|line| {
        let names = line.rsplit('\t').next().unwrap_or_default().split(',');
        names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    });
    names.collect()
}
