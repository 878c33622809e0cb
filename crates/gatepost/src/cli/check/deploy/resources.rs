//! Checks of descriptors, memory and the clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_settings::ByteSize;
use rustix::process::{Resource, getrlimit};

use super::DeployReport;
use crate::config::Config;

/// The time at which this was written, in Unix seconds: a correct clock is later.
const WRITTEN: Duration = Duration::from_secs(1_760_000_000);
/// Descriptors besides those of connections: files, sockets, the database.
const OTHER_DESCRIPTORS: u64 = 200;
/// With less memory than this, few sessions fit beside the rules.
const MEMORY_MIN: u64 = 64 << 20;

pub(super) fn check(config: &Config, report: &mut DeployReport) {
    descriptors(config, report);
    memory(config, report);
    clock(config, report);
}

fn descriptors(config: &Config, report: &mut DeployReport) {
    // A start raises the soft limit to the hard one.
    let limit = getrlimit(Resource::Nofile).maximum;
    let Some(limit) = limit else {
        report.note("the number of open files is not limited");
        return;
    };
    let listeners = &config.listeners;
    let fixed = [
        listeners.smtp.connections_max,
        listeners.lmtp.connections_max,
        listeners.http.connections_max,
    ];
    let fixed: u64 = fixed.iter().map(|&count| u64::from(count)).sum();
    let wanted = fixed + OTHER_DESCRIPTORS;
    let words = format!(
        "{limit} open files are permitted; SMTP, LMTP and HTTP may have {fixed} connections"
    );
    if limit < wanted {
        report.warn(format!(
            "{words}: raise the limit (LimitNOFILE=), or lower connections_max"
        ));
    } else {
        report.note(format!(
            "{words}, MQTT gets the rest with connections_max = \"auto\""
        ));
    }
}

fn memory(config: &Config, report: &mut DeployReport) {
    let available = gatepost_broker::memory_available_bytes();
    let Some(available) = available.map(|bytes| bytes as u64) else {
        report.warn("/proc/meminfo cannot be read: broker.memory_max = 0 sets no limit here");
        return;
    };
    let wanted = config.broker.memory_max;
    let in_words = |bytes: u64| format!("{} MB", bytes / 1_000_000);
    let words = format!("{} of memory for this process", in_words(available));
    if available < MEMORY_MIN {
        report.warn(format!("{words}: little; see docs/sizing.md"));
    } else if wanted > ByteSize(available) {
        report.warn(format!(
            "{words}, and broker.memory_max permits {}: the kernel would end it first",
            in_words(wanted.bytes())
        ));
    } else {
        report.note(words);
    }
}

fn clock(config: &Config, report: &mut DeployReport) {
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since < WRITTEN {
        report.warn("the clock is years slow: certificates and DKIM signatures would be refused");
        return;
    }
    let database = config.data.join("gatepost.db");
    let written = std::fs::metadata(&database).and_then(|metadata| metadata.modified());
    match written {
        Ok(written) if written > now + Duration::from_mins(1) => {
            report.warn(
                "the database was changed at a later time than it is now: is the clock right?",
            );
        }
        _ => report.note("the clock is plausible; keep it by NTP"),
    }
}
