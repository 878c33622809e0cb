//! `/metrics`: Prometheus' text format. Names have the prefix `gatepost_` and base units; no label
//! names a client or a topic, since their number has no bound.

use std::fmt::Write;

use gatepost_bans::{BanTotals, Offence};
use gatepost_broker::{Broker, BrokerStats};
use gatepost_gateway::Gateway;
use gatepost_message::Action;
use gatepost_procedures::Status;
use gatepost_store::Store;
use gatepost_users::{Refusals, Users};

/// Appends the metrics of procedures, broker, store and, where there are any, users.
pub(crate) fn push(
    text: &mut String,
    gateway: &Gateway,
    broker: &Broker,
    store: &Store,
    users: Option<&Users>,
) {
    let mut page = Page(text);
    page.head(
        "gatepost_messages_total",
        "counter",
        "Messages judged, by listener and verdict.",
    );
    for counts in gateway.counters().by_listener() {
        for (action, count) in Action::ALL.iter().zip(counts.verdicts) {
            if count > 0 {
                let labels = format!("{{listener=\"{}\",verdict=\"{action}\"}}", counts.listener);
                page.value("gatepost_messages_total", &labels, count);
            }
        }
    }
    push_procedures(&mut page, gateway);
    push_broker(&mut page, broker, store);
    if let Some(users) = users {
        push_refusals(&mut page, users.refusals());
    }
}

/// Appends what is known of offences and bans.
pub(crate) fn push_bans(text: &mut String, totals: BanTotals) {
    let mut page = Page(text);
    for (name, kind, help, value) in [
        (
            "gatepost_bans",
            "gauge",
            "Networks that are banned.",
            totals.in_force as u64,
        ),
        (
            "gatepost_bans_total",
            "counter",
            "Bans imposed.",
            totals.imposed,
        ),
        (
            "gatepost_bans_refused_total",
            "counter",
            "Connections and requests refused because of a ban.",
            totals.refused,
        ),
    ] {
        page.head(name, kind, help);
        page.value(name, "", value);
    }
    page.head(
        "gatepost_offences_total",
        "counter",
        "Failed logins, unknown recipients, protocol faults and spam, of exempt peers too.",
    );
    for (offence, count) in Offence::ALL.iter().zip(totals.offences) {
        let labels = format!("{{kind=\"{}\"}}", offence.name());
        page.value("gatepost_offences_total", &labels, count);
    }
}

/// What access rules denied, over all protocols.
fn push_refusals(page: &mut Page<'_>, refusals: Refusals) {
    page.head(
        "gatepost_access_denied_total",
        "counter",
        "Publications and subscriptions that access rules denied.",
    );
    for (access, count) in [
        ("publish", refusals.publications),
        ("subscribe", refusals.subscriptions),
    ] {
        let labels = format!("{{access=\"{access}\"}}");
        page.value("gatepost_access_denied_total", &labels, count);
    }
}

fn push_procedures(page: &mut Page<'_>, gateway: &Gateway) {
    let status = gateway.procedures().status();
    page.head(
        "gatepost_procedure_requests_total",
        "counter",
        "Messages that a procedure judged.",
    );
    for one in &status.procedures {
        let labels = format!("{{procedure=\"{}\"}}", one.path);
        page.value("gatepost_procedure_requests_total", &labels, one.requests);
    }
    page.head(
        "gatepost_procedure_errors_total",
        "counter",
        "Of these, those that failed.",
    );
    for one in &status.procedures {
        let labels = format!("{{procedure=\"{}\"}}", one.path);
        page.value("gatepost_procedure_errors_total", &labels, one.errors);
    }
    page.head(
        "gatepost_procedure_cpu_seconds_total",
        "counter",
        "CPU time of a procedure.",
    );
    for one in &status.procedures {
        let labels = format!("{{procedure=\"{}\"}}", one.path);
        page.value(
            "gatepost_procedure_cpu_seconds_total",
            &labels,
            one.cpu_seconds,
        );
    }
    push_given_up(page, &status);
    push_network(page, &status);
}

/// Mails of which a part or a rule was given up.
fn push_given_up(page: &mut Page<'_>, status: &Status) {
    let name = "gatepost_messages_given_up_total";
    page.head(
        name,
        "counter",
        "Mails that limits of time, steps or size kept from being judged whole.",
    );
    page.value(name, "", status.given_up);
}

/// What waits for the network, and what does not answer there.
fn push_network(page: &mut Page<'_>, status: &Status) {
    page.head(
        "gatepost_messages_waiting_for_network",
        "gauge",
        "Messages that wait for answers of the network, without a judge.",
    );
    page.value(
        "gatepost_messages_waiting_for_network",
        "",
        status.waiting_for_network,
    );
    page.head(
        "gatepost_dns_list_questions_skipped",
        "gauge",
        "Questions not put to a DNS list since it stopped answering; only such lists are named.",
    );
    for (list, skipped) in &status.silent_lists {
        let labels = format!("{{list=\"{list}\"}}");
        page.value("gatepost_dns_list_questions_skipped", &labels, skipped);
    }
}

fn push_broker(page: &mut Page<'_>, broker: &Broker, store: &Store) {
    let stats = broker.stats(0, 0);
    for (name, kind, help, value) in [
        (
            "gatepost_publications_total",
            "counter",
            "Publications that came in.",
            stats.messages_in,
        ),
        (
            "gatepost_publication_bytes_total",
            "counter",
            "Their payload bytes.",
            stats.bytes_in,
        ),
        (
            "gatepost_deliveries_total",
            "counter",
            "Handed to subscribers.",
            stats.deliveries,
        ),
        (
            "gatepost_subscriptions",
            "gauge",
            "Subscriptions held.",
            stats.subscriptions as u64,
        ),
        (
            "gatepost_sessions",
            "gauge",
            "Sessions held.",
            stats.sessions as u64,
        ),
        (
            "gatepost_sessions_connected",
            "gauge",
            "Of these, connected.",
            stats.sessions_connected,
        ),
        (
            "gatepost_retained_messages",
            "gauge",
            "Retained messages held.",
            stats.retained as u64,
        ),
        (
            "gatepost_retained_bytes",
            "gauge",
            "Their bytes.",
            stats.retained_bytes as u64,
        ),
        (
            "gatepost_queued_messages",
            "gauge",
            "Publications that wait for sessions.",
            stats.stored,
        ),
        (
            "gatepost_store_waiting_bytes",
            "gauge",
            "Bytes that wait for the disk.",
            store.waiting_bytes() as u64,
        ),
        (
            "gatepost_store_ready",
            "gauge",
            "1 while messages can be stored.",
            u64::from(store.readiness().is_ok()),
        ),
        (
            "gatepost_store_damaged_rows_total",
            "counter",
            "Stored rows that do not fit their checksum.",
            store.damaged_rows(),
        ),
    ] {
        page.head(name, kind, help);
        page.value(name, "", value);
    }
    page.head(
        "gatepost_dropped_total",
        "counter",
        "Deliveries that did not happen, by cause.",
    );
    for (cause, count) in &stats.dropped {
        page.value(
            "gatepost_dropped_total",
            &format!("{{cause=\"{}\"}}", cause.name()),
            count,
        );
    }
    push_limits(page, &stats);
}

/// Bounds that were reached, by name.
fn push_limits(page: &mut Page<'_>, stats: &BrokerStats) {
    page.head(
        "gatepost_limit_reached_total",
        "counter",
        "How often a bound of the broker was reached.",
    );
    for (limit, count) in &stats.limits {
        let labels = format!("{{limit=\"{}\"}}", limit.name());
        page.value("gatepost_limit_reached_total", &labels, count);
    }
}

struct Page<'a>(&'a mut String);

impl Page<'_> {
    // Writing to a string cannot fail.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}
