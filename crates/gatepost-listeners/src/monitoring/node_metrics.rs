//! The part of `/metrics` about the other nodes of a cluster.

use gatepost_broker::NodesStatus;

use super::prometheus::{MetricsPage, counter, gauge};

pub(super) fn push_nodes(page: &mut MetricsPage<'_>, nodes: &NodesStatus) {
    page.value(
        gauge(
            "gatepost_backbone_joined",
            "1 while this node is part of its cluster.",
        ),
        u64::from(nodes.trouble.is_none()),
    );
    page.value(
        gauge("gatepost_backbone_nodes", "Other nodes that are alive."),
        nodes.others.len(),
    );
    page.value(
        gauge(
            "gatepost_backbone_members",
            "Nodes that have joined the cluster, running or not, with this one.",
        ),
        nodes.members.len(),
    );
    page.value(
        counter(
            "gatepost_backbone_forwarded_total",
            "Publications sent to the NATS servers.",
        ),
        nodes.forwarded,
    );
    page.value(
        counter(
            "gatepost_backbone_received_total",
            "Publications that came from other nodes.",
        ),
        nodes.received,
    );
    page.value(
        counter(
            "gatepost_backbone_malformed_total",
            "Messages of other nodes that cannot be read.",
        ),
        nodes.malformed,
    );
    page.value(
        gauge(
            "gatepost_backbone_unreadable",
            "Parts of the cluster that this node reads no further until it is upgraded.",
        ),
        nodes.unreadable,
    );
    push_log(page, nodes);
    push_sessions(page, nodes);
    push_mail_and_announcements(page, nodes);
    push_lessons(page, nodes);
}

fn push_lessons(page: &mut MetricsPage<'_>, nodes: &NodesStatus) {
    page.value(
        gauge(
            "gatepost_backbone_lessons_unread",
            "Lessons of Bayes of the cluster that this node has not carried out.",
        ),
        nodes.lessons_unread,
    );
    page.value(
        gauge(
            "gatepost_backbone_lessons_unsent",
            "Messages that this node has learned automatically, and the cluster does not have yet.",
        ),
        nodes.lessons_unsent,
    );
    page.value(
        counter(
            "gatepost_backbone_lessons_dropped_total",
            "Messages that were not learned automatically: too many waited for the cluster.",
        ),
        nodes.lessons_dropped,
    );
}

fn push_mail_and_announcements(page: &mut MetricsPage<'_>, nodes: &NodesStatus) {
    page.value(
        gauge(
            "gatepost_backbone_mail_bytes",
            "The bytes of the cluster's mailboxes and quarantine, as the NATS servers store them.",
        ),
        nodes.mail_bytes,
    );
    page.value(
        gauge(
            "gatepost_backbone_mail_unread",
            "Mail and removals of mail of the cluster that this node has not read.",
        ),
        nodes.mail_unread,
    );
    page.value(
        gauge(
            "gatepost_backbone_retained_unsent",
            "Topics whose retained message the other nodes do not have yet.",
        ),
        nodes.retained_unsent,
    );
    page.value(
        counter(
            "gatepost_backbone_unconfirmed_total",
            "Announcements of subscriptions that some node did not confirm in time.",
        ),
        nodes.unconfirmed_interest,
    );
}

fn push_log(page: &mut MetricsPage<'_>, nodes: &NodesStatus) {
    page.value(
        gauge(
            "gatepost_backbone_log_waiting",
            "Publications at QoS 1 and 2 that the log has not stored yet.",
        ),
        nodes.log_waiting,
    );
    page.value(
        gauge(
            "gatepost_backbone_log_unread",
            "Entries of the log that this node has not read.",
        ),
        nodes.log_unread.iter().sum::<u64>(),
    );
    page.by_label(
        gauge(
            "gatepost_backbone_partition_unread",
            "Entries of a partition of the log that this node has not read.",
        ),
        "partition",
        (1_u16..).zip(&nodes.log_unread),
    );
    page.value(
        counter(
            "gatepost_backbone_log_refused_total",
            "Publications at QoS 1 and 2 that were refused: the log did not store them in time.",
        ),
        nodes.log_refused,
    );
    page.value(
        counter(
            "gatepost_backbone_log_appends_total",
            "Acknowledgements of the log.",
        ),
        nodes.log_appends,
    );
    page.value(
        counter(
            "gatepost_backbone_log_append_seconds_total",
            "The time that the acknowledgements of the log have taken together.",
        ),
        nodes.log_append_time.as_secs_f64(),
    );
    page.value(
        counter(
            "gatepost_backbone_log_missed_total",
            "Entries that the log removed before this node, or a session that came to it, received \
             them.",
        ),
        nodes.log_missed,
    );
}

fn push_sessions(page: &mut MetricsPage<'_>, nodes: &NodesStatus) {
    page.value(
        gauge(
            "gatepost_backbone_copy_waiting",
            "Commits of sessions that clients wait for and the NATS servers do not have yet.",
        ),
        nodes.copy_waiting,
    );
    page.value(
        counter(
            "gatepost_backbone_sessions_adopted_total",
            "Sessions that came from other nodes, with their clients.",
        ),
        nodes.sessions_adopted,
    );
    page.value(
        counter(
            "gatepost_backbone_sessions_released_total",
            "Sessions that went to other nodes, with their clients.",
        ),
        nodes.sessions_released,
    );
}
