//! `[backbone]`: the NATS servers by which this server shares topics with others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::ServerAddr;
use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

/// Each partition is a stream with a consensus group of its own.
const PARTITIONS_MAX: u16 = 64;
/// The time for which the engine remembers the message ids of entries of the log.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_mins(10);
/// The most that `append_wait_max` may be. Entries are sent again for so long.
const APPEND_WAIT_MAX: Duration = Duration::from_mins(5);

/// The settings of the backbone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackboneSettings {
    /// The NATS servers, each as `nats://HOST:PORT` or, for TLS, `tls://HOST:PORT`; empty for a
    /// server on its own.
    pub nats: Vec<String>,
    /// The name of the cluster, which begins the names of its subjects and streams: small letters,
    /// digits and `-`. Clusters that share NATS servers have different names.
    pub cluster: String,
    /// The file of credentials that `nsc` has made; empty for none.
    pub credentials: PathBuf,
    /// The user of the NATS servers, where they know users by password.
    pub user: String,
    /// The file whose first line is the password.
    pub password_file: PathBuf,
    /// The file of the authorities that sign the NATS servers' certificates; empty for the
    /// system's.
    pub tls_ca: PathBuf,
    /// The file of the certificate that this server shows to the NATS servers; empty for none.
    pub tls_cert: PathBuf,
    /// The file of its key.
    pub tls_key: PathBuf,
    /// The monitoring addresses of the NATS servers, as in `http://HOST:8222`, where
    /// `gatepost backbone check` reads how they write to the disk.
    pub monitoring: Vec<String>,
    /// Whether the servers of `monitoring` must write to the disk before they acknowledge.
    pub require_sync: bool,
    /// The number of NATS servers that keep each stream, for streams that this server makes: 1, 3
    /// or 5.
    pub replicas: u8,
    /// Filters that are announced to the NATS servers exactly; of further ones only the first
    /// level, so that more messages arrive than are needed.
    pub interest_max: usize,
    /// Publications that may wait for the connection; further ones are dropped and counted.
    pub queue_messages_max: usize,
    /// The bytes of these publications.
    pub queue_bytes_max: ByteSize,
    /// The longest time that the answer to a subscription waits for the other nodes.
    pub subscribe_wait_max: Period,
    /// The streams that the log of publications at QoS 1 and 2 consists of. Several divide its work
    /// among the NATS servers, and make each publication more expensive for them. The first node of
    /// a cluster decides; the others need the same number.
    pub partitions: u16,
    /// The first levels of a topic, which choose its partition. The same on all nodes.
    pub partition_levels: usize,
    /// The longest time that a publisher waits for the log, at most 5 minutes.
    pub append_wait_max: Period,
    /// The age at which the log removes publications. A node that is not connected for longer
    /// misses some.
    pub log_age_max: Period,
    /// The bytes of each partition of the log; the oldest publications are removed.
    pub log_bytes_max: ByteSize,
    /// The bytes of all mail in the mailboxes and the quarantine of the cluster, with which further
    /// mail is deferred; 0 for no limit.
    pub mail_bytes_max: ByteSize,
    /// The lessons of Bayes in the stream after which a node replaces them by a snapshot of what
    /// was learned.
    pub lessons_max: u32,
    /// The time without a sign of life from a node after which another node adopts its sessions;
    /// it begins when the node's key has expired, 10 s after the last sign. 0 for never: then
    /// sessions are not copied either. The same on all nodes.
    pub adopt_after: Period,
}

impl Default for BackboneSettings {
    fn default() -> Self {
        Self {
            nats: Vec::new(),
            cluster: "gp".to_owned(),
            credentials: PathBuf::new(),
            user: String::new(),
            password_file: PathBuf::new(),
            tls_ca: PathBuf::new(),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            monitoring: Vec::new(),
            require_sync: true,
            replicas: 3,
            interest_max: 100_000,
            queue_messages_max: 20_000,
            queue_bytes_max: ByteSize::megabytes(32),
            subscribe_wait_max: Period::seconds(1),
            partitions: 1,
            partition_levels: 1,
            append_wait_max: Period::seconds(15),
            log_age_max: Period::seconds(7 * 24 * 60 * 60),
            log_bytes_max: ByteSize::megabytes(4_096),
            mail_bytes_max: ByteSize::megabytes(4_096),
            lessons_max: 10_000,
            adopt_after: Period::seconds(10),
        }
    }
}

/// A mistake: the field, and what is wrong with its value.
pub type BackboneMistake = (&'static str, String);

impl BackboneSettings {
    /// Whether there is a cluster.
    pub const fn is_set(&self) -> bool {
        !self.nats.is_empty()
    }

    /// Whether the sessions of a node that fails are adopted by others.
    pub(crate) const fn adopts_sessions(&self) -> bool {
        !self.adopt_after.duration().is_zero()
    }

    /// The files that are read while the server runs.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [
            &self.credentials,
            &self.password_file,
            &self.tls_ca,
            &self.tls_cert,
            &self.tls_key,
        ];
        files.into_iter().map(PathBuf::as_path)
    }

    /// The paths that may name a credential of the service manager.
    pub fn key_files(&mut self) -> [&mut PathBuf; 3] {
        [
            &mut self.credentials,
            &mut self.password_file,
            &mut self.tls_key,
        ]
    }

    /// Mistakes that reading the values does not find.
    pub fn mistakes(&self) -> Vec<BackboneMistake> {
        let mut found = Vec::new();
        for address in &self.nats {
            match address.parse::<ServerAddr>() {
                Err(error) => found.push(("nats", format!("'{address}': {error}"))),
                Ok(address) if address.has_user_pass() => found.push((
                    "nats",
                    "write the user in backbone.user and the password into a file that \
                     backbone.password_file names"
                        .to_owned(),
                )),
                Ok(_) => {}
            }
        }
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let length = self.cluster.len();
        if !(1..=32).contains(&length) || !self.cluster.chars().all(is_plain) {
            let reason = "a name has 1 to 32 small letters, digits and '-'";
            found.push(("cluster", reason.to_owned()));
        }
        if ![1, 3, 5].contains(&self.replicas) {
            let reason = "1, 3 or 5: with an even number no more servers may fail";
            found.push(("replicas", reason.to_owned()));
        }
        if self.user.is_empty() != self.password_file.as_os_str().is_empty() {
            let reason = "a user needs a password_file, and a password_file a user";
            found.push(("user", reason.to_owned()));
        }
        if self.tls_cert.as_os_str().is_empty() != self.tls_key.as_os_str().is_empty() {
            let reason = "a certificate needs its key, and a key its certificate";
            found.push(("tls_cert", reason.to_owned()));
        }
        for address in &self.monitoring {
            if !address.starts_with("http://") && !address.starts_with("https://") {
                let reason = format!("'{address}': an address begins with http:// or https://");
                found.push(("monitoring", reason));
            }
        }
        if !(1..=PARTITIONS_MAX).contains(&self.partitions) {
            found.push(("partitions", format!("1 to {PARTITIONS_MAX}")));
        }
        if self.partition_levels == 0 {
            found.push(("partition_levels", "at least 1".to_owned()));
        }
        if self.append_wait_max.duration() > APPEND_WAIT_MAX {
            let minutes = APPEND_WAIT_MAX.as_secs() / 60;
            found.push(("append_wait_max", format!("at most {minutes} minutes")));
        }
        if self.lessons_max == 0 {
            found.push(("lessons_max", "at least 1".to_owned()));
        }
        if self.queue_messages_max == 0 {
            found.push(("queue_messages_max", "at least 1".to_owned()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_found_at_its_field() {
        assert_eq!(BackboneSettings::default().mistakes(), []);
        type Change = fn(&mut BackboneSettings);
        let wrong: [(&str, Change); 13] = [
            ("nats", |one| one.nats = vec!["nats://a b".to_owned()]),
            ("nats", |one| one.nats = vec!["nats://u:p@host".to_owned()]),
            ("cluster", |one| one.cluster = "a.b".to_owned()),
            ("cluster", |one| one.cluster.clear()),
            ("replicas", |one| one.replicas = 2),
            ("user", |one| one.user = "anna".to_owned()),
            ("tls_cert", |one| one.tls_key = "/k".into()),
            ("monitoring", |one| one.monitoring = vec!["x".to_owned()]),
            ("partitions", |one| one.partitions = 65),
            ("partition_levels", |one| one.partition_levels = 0),
            ("append_wait_max", |one| {
                one.append_wait_max = Period::seconds(301);
            }),
            ("lessons_max", |one| one.lessons_max = 0),
            ("queue_messages_max", |one| one.queue_messages_max = 0),
        ];
        for (field, change) in wrong {
            let mut settings = BackboneSettings::default();
            change(&mut settings);
            let found = settings.mistakes();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].0, field);
        }
    }
}
