//! SpamAssassin itself, with the rules and the DNS server of a test.

use std::path::PathBuf;

use super::comparison::SpamAssassin;
use super::server::Server;

/// The result of SpamAssassin itself with the same rules and the same server.
pub(crate) fn theirs(
    server: &Server,
    rules: &str,
    messages: &[(&str, String)],
) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["rules", "site"] {
        std::fs::create_dir(path(name)).expect("a folder");
    }
    let plugins = [
        "Check", "DNSEval", "SPF", "DKIM", "ASN", "HashBL", "WLBLEval", "DMARC", "URIDNSBL",
        "AskDNS", "URIDNSBL", "AskDNS",
    ];
    let plugins = plugins.map(|name| format!("loadplugin Mail::SpamAssassin::Plugin::{name}\n"));
    std::fs::write(path("site/init.pre"), plugins.concat()).expect("written");
    std::fs::write(path("rules/cases.cf"), rules).expect("written");
    // Mail::DMARC knows `example` for a top-level domain only with this file.
    let suffixes = path("suffixes");
    std::fs::write(&suffixes, "example\n").expect("written");
    let dmarc = format!(
        "[dns]\ntimeout = 5\npublic_suffix_list = {}\n",
        suffixes.display()
    );
    std::fs::write(path("dmarc.ini"), dmarc).expect("written");
    let spamassassin = SpamAssassin {
        rules: &path("rules"),
        site: &path("site"),
        server: Some(server.address),
        dmarc: Some(&path("dmarc.ini")),
        processes: 1,
    };
    let files: Vec<(String, PathBuf)> = messages
        .iter()
        .enumerate()
        .map(|(index, (_, message))| {
            let file = path(&format!("{index}.eml"));
            std::fs::write(&file, message).expect("written");
            (index.to_string(), file)
        })
        .collect();
    let mut judgements = spamassassin.judge(&files);
    let hits = |(id, _): &(String, PathBuf)| {
        let judgement = judgements.remove(id).expect("it is judged");
        judgement.hits.into_iter().collect()
    };
    files.iter().map(hits).collect()
}
