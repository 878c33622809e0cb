//! Checks that certificates remain valid for a while and match the server's name, and that their
//! keys are private.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gatepost_listeners::tls::CertificateFacts;
use gatepost_message::Listener;
use time::OffsetDateTime;

use super::DeployReport;
use crate::config::{Config, ListenerBinding};

/// A certificate that ends sooner should have been renewed.
const DAYS_LEFT_MIN: i64 = 14;
/// Permission bits of others.
const OTHERS: u32 = 0o007;

pub(super) fn check(config: &Config, report: &mut DeployReport) {
    for binding in config.listeners.bindings() {
        let tls = binding.tls;
        if tls.cert.as_os_str().is_empty() {
            continue;
        }
        let more = tls.more.iter().map(|files| &files.cert);
        let certificates: Vec<CertificateFacts> = std::iter::once(&tls.cert)
            .chain(more)
            .filter_map(|file| certificate(&binding, file, report))
            .collect();
        hostname(config, &binding, &certificates, report);
        for key in tls.key_files() {
            key_mode(key, report);
        }
    }
}

/// Checks the validity of one certificate, which is returned if it can be read.
fn certificate(
    binding: &ListenerBinding<'_>,
    file: &Path,
    report: &mut DeployReport,
) -> Option<CertificateFacts> {
    let name = format!("{}: {}", binding.listener, file.display());
    let facts = match CertificateFacts::of_file(file) {
        Ok(facts) => facts,
        Err(error) => {
            report.warn(format!("{}: {error}", binding.listener));
            return None;
        }
    };
    let now = OffsetDateTime::now_utc();
    let days = (facts.ends - now).whole_days();
    if facts.begins > now {
        report.warn(format!(
            "{name} is not valid before {}",
            facts.begins.date()
        ));
    } else if facts.ends < now {
        report.warn(format!("{name} expired on {}", facts.ends.date()));
    } else if days < DAYS_LEFT_MIN {
        report.warn(format!("{name} expires in {days} days: check its renewal"));
    } else {
        report.note(format!(
            "{name} is valid for {days} days, for {}",
            facts.names.join(", ")
        ));
    }
    Some(facts)
}

/// Checks that a certificate of a mail listener is for the name that it greets with.
fn hostname(
    config: &Config,
    binding: &ListenerBinding<'_>,
    certificates: &[CertificateFacts],
    report: &mut DeployReport,
) {
    let hostname = match binding.listener {
        Listener::Smtp => config.listeners.smtp.hostname.as_str(),
        Listener::Lmtp => config.listeners.lmtp.hostname.as_str(),
        _ => "",
    };
    let is_for = |facts: &CertificateFacts| facts.is_for(hostname);
    if hostname.is_empty() || certificates.is_empty() || certificates.iter().any(is_for) {
        return;
    }
    report.warn(format!(
        "{}: {} is not for {hostname}, the name that the listener greets with",
        binding.listener,
        binding.tls.cert.display()
    ));
}

fn key_mode(key: &Path, report: &mut DeployReport) {
    // A certificate that is missing or cannot be read is an error of the config.
    let Ok(metadata) = std::fs::metadata(key) else {
        return;
    };
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS != 0 {
        let shown = key.display();
        report.warn(format!(
            "{shown}: other users can read the key (mode {mode:04o}): chmod o= {shown}"
        ));
    }
}
