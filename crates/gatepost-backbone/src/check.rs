//! The report of `gatepost backbone check` about the NATS servers. It creates nothing.

use std::time::Duration;

use async_nats::jetstream::{self, Context, stream};
use async_nats::{Client, Event};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use gatepost_broker::MemberNode;
use gatepost_tasks::BoxedFuture;
use serde_json::Value;

use crate::connection::Connection;
use crate::error::BackboneError;
use crate::members;
use crate::membership::{self, NodeRecord};
use crate::message_size::content_bytes_max;
use crate::node_streams;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// The time for a message to return, and for a refusal to be reported.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(2);
/// The time for a monitoring address to answer.
const MONITORING_TIME_MAX: Duration = Duration::from_secs(3);

/// The streams of a cluster besides the partitions of its log: retained messages, mailboxes,
/// lessons, averages of senders, and the buckets of living nodes, members, sessions and users.
const OTHER_STREAMS: i64 = 8;

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineFindingKind {
    /// It is as it should be.
    Good,
    /// It works, with a risk.
    Warning,
    /// It does not work.
    Error,
}

/// One property of the servers that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFinding {
    /// Its weight.
    pub kind: EngineFindingKind,
    /// The observation, and the remedy.
    pub text: String,
}

impl EngineFinding {
    fn new(kind: EngineFindingKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }
}

/// Checks the NATS servers. `packet_bytes_max` is the largest publication that clients may send.
pub fn check(
    settings: &BackboneSettings,
    packet_bytes_max: u64,
) -> BoxedFuture<'_, Vec<EngineFinding>> {
    Box::pin(async move {
        let mut findings = Vec::new();
        match Connection::open(settings, "gatepost backbone check", 0).await {
            Ok(connection) => {
                check_server(settings, packet_bytes_max, connection, &mut findings).await;
            }
            Err(error) => findings.push(EngineFinding::new(
                EngineFindingKind::Error,
                error.to_string(),
            )),
        }
        if settings.monitoring.is_empty() {
            let text = "how the servers write to the disk is not known: name their monitoring \
                    addresses in backbone.monitoring";
            findings.push(EngineFinding::new(EngineFindingKind::Warning, text));
        }
        for address in &settings.monitoring {
            findings.push(synchronisation(address).await);
        }
        findings
    })
}

/// The nodes of a cluster.
#[derive(Debug)]
pub struct ClusterNodes {
    /// The nodes that are alive, by number.
    pub alive: Vec<NodeRecord>,
    /// The nodes that have joined and are not alive.
    pub absent: Vec<MemberNode>,
}

/// The nodes of the cluster.
pub fn nodes(settings: &BackboneSettings) -> BoxedFuture<'_, Result<ClusterNodes, BackboneError>> {
    Box::pin(async move {
        let connection = Connection::open(settings, "gatepost nodes", 0).await?;
        let context = jetstream::new(connection.client);
        let subjects = Subjects::new(&settings.cluster);
        let alive = match membership::existing_bucket(&context, &subjects).await {
            Some(bucket) => membership::list(&bucket).await?,
            None => Vec::new(),
        };
        let mut absent = members::list(&context, &subjects).await?;
        absent.retain(|member| !alive.iter().any(|record| record.node == member.node));
        Ok(ClusterNodes { alive, absent })
    })
}

async fn check_server(
    settings: &BackboneSettings,
    packet_bytes_max: u64,
    connection: Connection,
    findings: &mut Vec<EngineFinding>,
) {
    let info = connection.client.server_info();
    let text = format!(
        "connected to {} (nats-server {})",
        info.server_name, info.version
    );
    findings.push(EngineFinding::new(EngineFindingKind::Good, text));
    let taken = content_bytes_max(&connection.client);
    if (taken as u64) < packet_bytes_max {
        let text = format!(
            "the servers take publications of {taken} bytes (max_payload), and clients may publish \
             {packet_bytes_max} (listeners.mqtt.packet_max): larger ones are refused, and at QoS 0 \
             stay on their node; raise max_payload"
        );
        findings.push(EngineFinding::new(EngineFindingKind::Warning, text));
    }
    let context = jetstream::new(connection.client.clone());
    check_account(settings, &context, findings).await;
    let subjects = Subjects::new(&settings.cluster);
    let mut names = vec![
        subjects.stream("RETAINED"),
        format!("KV_{}", subjects.stream("NODES")),
        format!("KV_{}", subjects.stream("MEMBERS")),
        format!("KV_{}", subjects.stream("SESSIONS")),
        format!("KV_{}", subjects.stream("USERS")),
        subjects.stream("MAIL"),
        subjects.stream("LEARNED"),
    ];
    names.extend((1..=settings.partitions).map(|number| subjects.stream(&format!("P{number}"))));
    // An account that may not list them is reported with its permissions.
    let of_nodes = node_streams::list(&context, &subjects)
        .await
        .unwrap_or_default();
    names.extend(of_nodes.into_iter().map(|id| subjects.node_stream_name(id)));
    for name in &names {
        check_stream(settings, &context, name, findings).await;
    }
    findings.push(permissions(&subjects, connection).await);
}

async fn check_account(
    settings: &BackboneSettings,
    context: &Context,
    findings: &mut Vec<EngineFinding>,
) {
    let account = match context.query_account().await {
        Ok(account) => account,
        Err(error) => {
            let text = format!(
                "JetStream does not answer: {error}; permit it to the account, with the subjects \
                 $JS.API.>"
            );
            findings.push(EngineFinding::new(EngineFindingKind::Error, text));
            return;
        }
    };
    let limits = &account.limits;
    let streams_max = limits.max_streams.filter(|max| *max > 0);
    let needed = OTHER_STREAMS + i64::from(settings.partitions);
    if let Some(max) = streams_max.filter(|max| *max < needed) {
        let text = format!("the account may have {max} streams, and the cluster needs {needed}");
        findings.push(EngineFinding::new(EngineFindingKind::Error, text));
    }
    if let Some(max) = limits.max_storage.filter(|max| *max > 0) {
        let text = format!(
            "the account may store {max} bytes, of which {} are used",
            account.storage
        );
        let is_short = account.storage as f64 > max as f64 * 0.8;
        let (kind, remedy) = if is_short {
            (EngineFindingKind::Warning, "; raise its limit")
        } else {
            (EngineFindingKind::Good, "")
        };
        findings.push(EngineFinding::new(kind, text + remedy));
    }
}

async fn check_stream(
    settings: &BackboneSettings,
    context: &Context,
    name: &str,
    findings: &mut Vec<EngineFinding>,
) {
    let stream = match context.get_stream(name).await {
        Ok(stream) => stream,
        Err(error) => {
            let text = format!("the stream {name} is not there yet ({error}); a start makes it");
            findings.push(EngineFinding::new(EngineFindingKind::Good, text));
            return;
        }
    };
    let info = stream.cached_info();
    findings.push(replicas(settings, name, info));
}

/// The number of copies of a stream, and whether all are current.
fn replicas(settings: &BackboneSettings, name: &str, info: &stream::Info) -> EngineFinding {
    let (has, wanted) = (info.config.num_replicas, usize::from(settings.replicas));
    if has < wanted {
        let text = format!(
            "the stream {name} has {has} replicas instead of {wanted}: \
             nats stream edit {name} --replicas {wanted}"
        );
        return EngineFinding::new(EngineFindingKind::Warning, text);
    }
    let others = info.cluster.iter().flat_map(|cluster| &cluster.replicas);
    let late: Vec<&str> = others
        .clone()
        .filter(|peer| !peer.current || peer.offline)
        .map(|peer| peer.name.as_str())
        .collect();
    let made = 1 + others.count();
    if late.is_empty() && made < has {
        let text =
            format!("the stream {name} has {made} replicas, and will have {has}: check again");
        EngineFinding::new(EngineFindingKind::Warning, text)
    } else if late.is_empty() {
        let text = format!("the stream {name} has {has} replicas, all current");
        EngineFinding::new(EngineFindingKind::Good, text)
    } else {
        let text = format!(
            "the stream {name} has replicas that are late or gone ({}): look at these servers",
            late.join(", ")
        );
        EngineFinding::new(EngineFindingKind::Warning, text)
    }
}

/// Whether the account may publish and subscribe under the cluster's subjects.
async fn permissions(subjects: &Subjects, connection: Connection) -> EngineFinding {
    let Connection {
        client, mut events, ..
    } = connection;
    let root = subjects.all().replace('>', "");
    let subject = subjects.trial(&client.new_inbox());
    let trial = tokio::time::timeout(ROUND_TRIP_MAX, round_trip(&client, &subject));
    let refusal = async {
        loop {
            match events.recv().await {
                Some(Event::ServerError(error)) => return error.to_string(),
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    };
    let refused = |cause: &str| {
        let text = format!(
            "the account may not use the cluster's subjects: {cause}; permit it to publish and to \
             subscribe {root}>, $JS.API.>, $KV.> and _INBOX.>"
        );
        EngineFinding::new(EngineFindingKind::Error, text)
    };
    tokio::select! {
        biased;
        cause = refusal => refused(&cause),
        done = trial => match done {
            Ok(Ok(())) => {
                let text = format!("the account may publish and subscribe under {root}>");
                EngineFinding::new(EngineFindingKind::Good, text)
            }
            Ok(Err(error)) => refused(&error),
            Err(_) => refused("no answer"),
        },
    }
}

/// Subscribes and publishes, and waits until the server has dealt with both.
async fn round_trip(client: &Client, subject: &str) -> Result<(), String> {
    let reply = client.new_inbox();
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut inbox = client
        .subscribe(reply.clone())
        .await
        .map_err(|error| text(&error))?;
    let _trial = client
        .subscribe(subject.to_owned())
        .await
        .map_err(|error| text(&error))?;
    let published = client.publish_with_reply(subject.to_owned(), reply, "".into());
    published.await.map_err(|error| text(&error))?;
    // The server reports that there is no other subscriber, since the connection does not receive
    // what it publishes itself.
    inbox
        .next()
        .await
        .map(drop)
        .ok_or_else(|| "the connection ended".to_owned())
}

/// A NATS server that reports that it writes to the disk after it acknowledges. Servers that do not
/// answer are findings of the check.
pub(crate) async fn unsynchronised_server(settings: &BackboneSettings) -> Option<String> {
    let answers = settings.monitoring.iter().map(|address| async move {
        let url = varz(address);
        let answer = tokio::task::spawn_blocking(move || get_json(&url)).await;
        let answer = answer.ok()?.ok()?;
        (!is_synchronised(&answer)).then(|| name_of(address, &answer).to_owned())
    });
    join_all(answers).await.into_iter().flatten().next()
}

fn varz(address: &str) -> String {
    format!("{}/varz", address.trim_end_matches('/'))
}

fn is_synchronised(answer: &Value) -> bool {
    answer["jetstream"]["config"]["sync_always"].as_bool() == Some(true)
}

fn name_of<'a>(address: &'a str, answer: &'a Value) -> &'a str {
    answer["server_name"].as_str().unwrap_or(address)
}

/// The way in which a server writes to the disk, by its monitoring address.
async fn synchronisation(address: &str) -> EngineFinding {
    let url = varz(address);
    let response = tokio::task::spawn_blocking(move || get_json(&url)).await;
    let answer = match response {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let text = format!("{address} does not answer: {error}; correct backbone.monitoring");
            return EngineFinding::new(EngineFindingKind::Warning, text);
        }
        Err(error) => return EngineFinding::new(EngineFindingKind::Warning, error.to_string()),
    };
    synchronisation_of(address, &answer)
}

fn synchronisation_of(address: &str, answer: &Value) -> EngineFinding {
    let name = name_of(address, answer);
    let config = &answer["jetstream"]["config"];
    if is_synchronised(answer) {
        let text = format!("{name} writes to the disk before it acknowledges");
        return EngineFinding::new(EngineFindingKind::Good, text);
    }
    let seconds = config["sync_interval"].as_u64().unwrap_or_default() / 1_000_000_000;
    let text = format!(
        "{name} writes to the disk every {seconds} s: a loss of power loses messages that were \
         acknowledged since; write `jetstream {{ sync_interval: always }}` into its configuration"
    );
    EngineFinding::new(EngineFindingKind::Warning, text)
}

fn get_json(url: &str) -> Result<Value, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(MONITORING_TIME_MAX))
        .build()
        .into();
    let answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let text = answer.into_body().read_to_string();
    let text = text.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_that_synchronises_later_is_a_warning() {
        let of = |config| {
            let answer = json!({"server_name": "n1", "jetstream": {"config": config}});
            synchronisation_of("http://x", &answer)
        };
        let always = of(json!({"sync_always": true, "sync_interval": 120_000_000_000_u64}));
        assert_eq!(always.kind, EngineFindingKind::Good);
        let later = of(json!({"sync_interval": 120_000_000_000_u64}));
        assert_eq!(later.kind, EngineFindingKind::Warning);
        assert!(
            later.text.contains("n1") && later.text.contains("120 s"),
            "{}",
            later.text
        );
    }
}
