//! Mails with network rules: all rules of Debian, in Gatepost and in SpamAssassin, with the same
//! DNS server and the same zone.
//!
//! The mails are those of `tests/data`, and a sample of the public corpus if it was fetched. Known
//! differences are listed in `docs/notes/rules-differences.md` with their cause. Any other
//! difference fails the test, and so does a listed difference that no longer occurs.

use std::path::{Path, PathBuf};

use gatepost_rules::{RuleSet, RulesSettings};
use gatepost_settings::Period;

use super::comparison::{Demands, SpamAssassin, compare, corpus, ours};
use super::senders::sent_messages;
use super::server::Server;
use super::zone_file::ZoneFile;

const RULES: &str = "/usr/share/spamassassin";
const SITE: &str = "/etc/spamassassin";
const SUFFIXES: &str = "/usr/share/perl5/auto/share/dist/Mail-DMARC/public_suffix_list";
/// One mail of the corpus in so many.
const SAMPLE_STEP: usize = 15;
/// Both ask about all domains: SpamAssassin chooses some of many at random.
const FURTHER_SETTINGS: &str = "util_rb_tld example\nuridnsbl_max_domains 1000\n";
const DEMANDS: Demands = Demands {
    messages_min: 200,
    hits_agree_min: 0.997,
    verdicts_agree_min: 1.0,
    scores_differ_max: 0.02,
    section: "With network rules",
};

/// A zone and the keys of signatures.
fn zone() -> ZoneFile {
    let keys = include_str!("../data/authentication/keys.txt");
    let keys = keys
        .lines()
        .map(|line| line.replacen(" TXT ", " TXT 100 ", 1) + "\n");
    let zone = include_str!("../data/network/zone.txt");
    ZoneFile::parse(&(keys.collect::<String>() + zone))
}

/// The mails of this project, as files.
fn own_mails(folder: &Path) -> Vec<(String, PathBuf)> {
    let mails = include_str!("../data/network/mails.txt")
        .split("==== ")
        .skip(1);
    let mails = mails.map(|mail| mail.split_once('\n').expect("a name and a mail"));
    let mails = mails.map(|(name, mail)| (name, mail.to_owned()));
    let file = |(name, mail): (&str, String)| {
        let id = format!("own/{}", name.replace([',', ' '], "-"));
        let path = folder.join(id.replace('/', "_"));
        std::fs::write(&path, mail).expect("written");
        (id, path)
    };
    mails.chain(sent_messages()).map(file).collect()
}

/// Debian's settings with further ones.
fn site(folder: &Path) -> PathBuf {
    let site = folder.join("site");
    std::fs::create_dir(&site).expect("a folder");
    for entry in std::fs::read_dir(SITE).expect("the peer 'spamassassin' is installed") {
        let path = entry.expect("an entry").path();
        if path
            .extension()
            .is_some_and(|ending| ending == "pre" || ending == "cf")
        {
            let name = path.file_name().expect("a file");
            std::fs::copy(&path, site.join(name)).expect("copied");
        }
    }
    std::fs::write(site.join("zz_further.cf"), FURTHER_SETTINGS).expect("written");
    site
}

/// The settings of Mail::DMARC, which has its own list of suffixes.
fn dmarc(folder: &Path) -> PathBuf {
    let suffixes = folder.join("suffixes");
    let known = std::fs::read_to_string(SUFFIXES).expect("Mail::DMARC's list is installed");
    std::fs::write(&suffixes, format!("{known}\nexample\n")).expect("written");
    let path = folder.join("dmarc.ini");
    let text = format!(
        "[dns]\ntimeout = 5\npublic_suffix_list = {}\n",
        suffixes.display()
    );
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn mails_are_judged_with_the_network_as_by_spamassassin() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut mails = own_mails(folder.path());
    mails.extend(corpus().into_iter().step_by(SAMPLE_STEP));
    let server = Server::start(zone());
    let site = site(folder.path());
    let spamassassin = SpamAssassin {
        rules: Path::new(RULES),
        site: &site,
        server: Some(server.address),
        dmarc: Some(&dmarc(folder.path())),
        processes: 2,
    };
    let theirs = spamassassin.judge(&mails);
    let settings = RulesSettings {
        // On a busy machine no rule is to be given up.
        max_time: Period::seconds(600),
        ..server.settings()
    };
    let (rules, _) = RuleSet::load(&[RULES.into(), site], &settings);
    let ours = ours(&rules, &mails);
    DEMANDS.assert(&compare(&ours, &theirs, 5.0), &ours);
}
