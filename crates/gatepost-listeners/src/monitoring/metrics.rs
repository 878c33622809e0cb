//! `/metrics`: the counters of procedures, broker, store, users and bans. No label names a client
//! or a topic, since their number has no bound.

use gatepost_alarms::AlarmStatus;
use gatepost_bans::{BanTotals, Offence};
use gatepost_broker::{Broker, BrokerStats};
use gatepost_gateway::{AttachmentFigures, Gateway};
use gatepost_message::Action;
use gatepost_procedures::Status;
use gatepost_sinks::SinkStatus;
use gatepost_store::Store;
use gatepost_users::{Refusals, Users};

use super::node_metrics::push_nodes;
use super::prometheus::{MetricsPage, counter, gauge};

/// Appends the metrics of procedures, broker, store and, where there are any, users.
pub(crate) fn push(
    text: &mut String,
    gateway: &Gateway,
    broker: &Broker,
    store: &Store,
    users: Option<&Users>,
) {
    let mut page = MetricsPage(text);
    let mut judged = Vec::new();
    for counts in gateway.counters().by_listener() {
        for (action, count) in Action::ALL.iter().zip(counts.verdicts) {
            if count > 0 {
                let listener = counts.listener;
                judged.push((
                    format!("listener=\"{listener}\",verdict=\"{action}\""),
                    count,
                ));
            }
        }
    }
    page.by_labels(
        counter(
            "gatepost_messages_total",
            "Messages judged, by listener and verdict.",
        ),
        judged,
    );
    let delayed = gateway.delayed(0, 0);
    page.value(
        gauge(
            "gatepost_delayed_messages",
            "Messages that wait for their time.",
        ),
        delayed.total as u64,
    );
    page.value(
        gauge("gatepost_delayed_bytes", "Their bytes."),
        delayed.bytes as u64,
    );
    if let Some(attachments) = gateway.attachments() {
        push_attachments(&mut page, attachments.figures());
    }
    push_procedures(&mut page, gateway);
    push_broker(&mut page, broker);
    if let Some(nodes) = broker.nodes_status() {
        push_nodes(&mut page, &nodes);
    }
    push_store(&mut page, store);
    if let Some(users) = users {
        push_refusals(&mut page, users.refusals());
    }
}

fn push_attachments(page: &mut MetricsPage<'_>, figures: AttachmentFigures) {
    for (metric, value) in [
        (
            gauge("gatepost_attachments", "Attachments that are stored."),
            figures.files,
        ),
        (
            gauge("gatepost_attachment_bytes", "Their bytes."),
            figures.bytes,
        ),
        (
            counter(
                "gatepost_attachments_stored_total",
                "Attachments stored since the start.",
            ),
            figures.kept,
        ),
        (
            counter(
                "gatepost_attachments_refused_total",
                "Attachments that a limit or the disk refused.",
            ),
            figures.refused,
        ),
    ] {
        page.value(metric, value);
    }
}

/// Appends the metrics of offences and bans.
pub(crate) fn push_bans(text: &mut String, totals: BanTotals) {
    let mut page = MetricsPage(text);
    page.value(
        gauge("gatepost_bans", "Networks that are banned."),
        totals.in_force,
    );
    page.value(
        counter("gatepost_bans_total", "Bans imposed."),
        totals.imposed,
    );
    page.value(
        counter(
            "gatepost_bans_refused_total",
            "Connections and requests refused because of a ban.",
        ),
        totals.refused,
    );
    let names = Offence::ALL.iter().map(|offence| offence.name());
    page.by_label(
        counter(
            "gatepost_offences_total",
            "Failed logins, unknown recipients, protocol faults and spam, of exempt peers too.",
        ),
        "kind",
        names.zip(totals.offences),
    );
}

/// Appends the metrics of each sink. Their number is bounded by the config.
pub(crate) fn push_sinks(text: &mut String, sinks: &[SinkStatus]) {
    let mut page = MetricsPage(text);
    let mut push = |metric, of: fn(&SinkStatus) -> u64| {
        page.by_label(
            metric,
            "sink",
            sinks.iter().map(|sink| (&sink.name, of(sink))),
        );
    };
    push(
        counter(
            "gatepost_sink_delivered_total",
            "Messages that the destination of a sink has accepted.",
        ),
        |sink| sink.delivered,
    );
    push(
        counter(
            "gatepost_sink_received_total",
            "Messages that a bridge has received.",
        ),
        |sink| sink.received,
    );
    push(
        counter(
            "gatepost_sink_failed_attempts_total",
            "Attempts that failed.",
        ),
        |sink| sink.failed_attempts,
    );
    push(
        counter(
            "gatepost_sink_given_up_total",
            "Messages that were given up.",
        ),
        |sink| sink.given_up,
    );
    push(
        counter(
            "gatepost_sink_dropped_total",
            "Messages that did not fit into a sink's queue, or that expired in it.",
        ),
        |sink| sink.dropped,
    );
    push(
        gauge("gatepost_sink_queued", "Messages that wait for a sink."),
        |sink| sink.queued,
    );
    push(
        gauge(
            "gatepost_sink_lag_seconds",
            "Age of the oldest message that a sink is delivering.",
        ),
        |sink| sink.lag_seconds,
    );
}

/// Appends the metrics of each alarm. Their number is bounded by the config.
pub(crate) fn push_alarms(text: &mut String, alarms: &[AlarmStatus]) {
    let mut page = MetricsPage(text);
    let mut push = |metric, of: fn(&AlarmStatus) -> u64| {
        let values = alarms.iter().map(|alarm| (&alarm.name, of(alarm)));
        page.by_label(metric, "alarm", values);
    };
    push(
        gauge(
            "gatepost_alarm_raised",
            "Topics for which an alarm is raised.",
        ),
        |alarm| alarm.raised_count as u64,
    );
    push(
        gauge("gatepost_alarm_topics", "Topics that an alarm watches."),
        |alarm| alarm.topics as u64,
    );
    push(
        counter(
            "gatepost_alarm_unwatched_total",
            "Messages on topics beyond the topics_max of an alarm.",
        ),
        |alarm| alarm.unwatched,
    );
}

/// The denials by access rules, over all protocols.
fn push_refusals(page: &mut MetricsPage<'_>, refusals: Refusals) {
    page.by_label(
        counter(
            "gatepost_access_denied_total",
            "Publications and subscriptions that access rules denied.",
        ),
        "access",
        [
            ("publish", refusals.publications),
            ("subscribe", refusals.subscriptions),
        ],
    );
}

fn push_procedures(page: &mut MetricsPage<'_>, gateway: &Gateway) {
    let status = gateway.procedures().status();
    let procedures = &status.procedures;
    page.by_label(
        counter(
            "gatepost_procedure_requests_total",
            "Messages that a procedure judged.",
        ),
        "procedure",
        procedures.iter().map(|one| (&one.path, one.requests)),
    );
    page.by_label(
        counter(
            "gatepost_procedure_errors_total",
            "Messages whose procedure failed.",
        ),
        "procedure",
        procedures.iter().map(|one| (&one.path, one.errors)),
    );
    page.by_label(
        counter(
            "gatepost_procedure_cpu_seconds_total",
            "CPU time of a procedure.",
        ),
        "procedure",
        procedures.iter().map(|one| (&one.path, one.cpu_seconds)),
    );
    page.value(
        counter(
            "gatepost_messages_given_up_total",
            "Mails that were not judged completely, because of a limit of time, steps or size.",
        ),
        status.given_up,
    );
    page.by_label(
        counter(
            "gatepost_greylist_total",
            "Mails that /greylist admitted or deferred, by its reason.",
        ),
        "decision",
        &status.greylist,
    );
    push_network(page, &status);
}

/// The messages that wait for the network, and the servers that do not answer.
fn push_network(page: &mut MetricsPage<'_>, status: &Status) {
    page.value(
        gauge(
            "gatepost_messages_waiting_for_network",
            "Messages that wait for answers of the network, without a judge.",
        ),
        status.waiting_for_network,
    );
    page.by_label(
        gauge(
            "gatepost_dns_list_questions_skipped",
            "Queries omitted because a DNS list stopped answering; only such lists are named.",
        ),
        "list",
        &status.silent_lists,
    );
}

fn push_broker(page: &mut MetricsPage<'_>, broker: &Broker) {
    let stats = broker.stats(0, 0);
    page.value(
        counter("gatepost_publications_total", "Publications received."),
        stats.messages_in,
    );
    page.value(
        counter("gatepost_publication_bytes_total", "Their payload bytes."),
        stats.bytes_in,
    );
    page.value(
        counter(
            "gatepost_deliveries_total",
            "Publications delivered to subscribers.",
        ),
        stats.deliveries,
    );
    page.value(
        gauge("gatepost_subscriptions", "Subscriptions held."),
        stats.subscriptions,
    );
    page.value(gauge("gatepost_sessions", "Sessions held."), stats.sessions);
    page.value(
        gauge("gatepost_sessions_connected", "Of these, connected."),
        stats.sessions_connected,
    );
    page.value(
        gauge("gatepost_retained_messages", "Retained messages held."),
        stats.retained,
    );
    page.value(
        gauge("gatepost_retained_bytes", "Their bytes."),
        stats.retained_bytes,
    );
    page.value(
        gauge(
            "gatepost_queued_messages",
            "Publications that wait for sessions.",
        ),
        stats.stored,
    );
    page.value(
        gauge(
            "gatepost_slow_subscribers",
            "Sessions that publishers wait for; /admin/state has their names.",
        ),
        broker.slowing_publishers(usize::MAX).len(),
    );
    let dropped = stats.dropped.iter();
    page.by_label(
        counter(
            "gatepost_dropped_total",
            "Deliveries that did not happen, by cause.",
        ),
        "cause",
        dropped.map(|(cause, count)| (cause.name(), count)),
    );
    page.value(
        counter(
            "gatepost_sparkplug_malformed_total",
            "NDEATH messages whose timestamp was not set because they cannot be read.",
        ),
        stats.sparkplug_malformed,
    );
    push_limits(page, &stats);
}

fn push_store(page: &mut MetricsPage<'_>, store: &Store) {
    page.value(
        gauge(
            "gatepost_store_waiting_bytes",
            "Bytes that wait for the disk.",
        ),
        store.waiting_bytes(),
    );
    page.value(
        gauge("gatepost_store_ready", "1 while messages can be stored."),
        u64::from(store.readiness().is_ok()),
    );
    page.value(
        counter(
            "gatepost_store_damaged_rows_total",
            "Stored rows whose checksum is wrong.",
        ),
        store.damaged_rows(),
    );
    let held = store.held_expiry();
    page.value(
        gauge(
            "gatepost_store_held_rows",
            "Rows that have expired by a clock that jumped ahead; they are kept until an \
                administrator accepts the clock.",
        ),
        held.map_or(0, |held| held.rows),
    );
    page.value(
        gauge(
            "gatepost_store_clock_ahead_seconds",
            "By how much the clock is ahead while rows are held.",
        ),
        held.map_or(0, |held| held.ahead.as_secs()),
    );
}

/// Bounds that were reached, by name.
fn push_limits(page: &mut MetricsPage<'_>, stats: &BrokerStats) {
    let limits = stats.limits.iter();
    page.by_label(
        counter(
            "gatepost_limit_reached_total",
            "How often a bound of the broker was reached.",
        ),
        "limit",
        limits.map(|(limit, count)| (limit.name(), count)),
    );
}
