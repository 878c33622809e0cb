//! The exposure of a config: reachable addresses, the rights of their clients, disabled limits, and
//! files that other users can read. `gatepost check --security` prints it, and a start logs its
//! warnings.
//!
//! A finding is a warning if the config exposes more than its author may know, and a note if it
//! only states a fact.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gatepost_message::Listener;
use gatepost_users::AnonymousAccess;

use crate::config::{Config, ListenerBinding, RemoteAccess, SandboxMode};
use crate::key_access;
use crate::switched_off::switched_off;

/// Permission bits of group and others, and of others alone.
const GROUP_AND_OTHERS: u32 = 0o077;
const OTHERS: u32 = 0o007;
/// All permissions of others, and writing by the group: no log file may have them.
const ALL_BUT_READING_BY_GROUP: u32 = 0o027;

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) is_warning: bool,
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_warning { "warning" } else { "note" };
        write!(formatter, "{kind}: {}", self.text)
    }
}

/// Examines a config and its files. `has_users` states whether there is a user, if that is known.
pub(crate) fn report(config: &Config, has_users: Option<bool>) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    for binding in config.listeners.bindings() {
        findings.listener(config, &binding, has_users);
    }
    findings.accounts(config, has_users);
    findings.limits(config);
    findings.pages(config);
    findings.process(config);
    findings.files(config);
    findings.0
}

struct Findings(Vec<Finding>);

impl Findings {
    fn note(&mut self, text: String) {
        self.0.push(Finding {
            is_warning: false,
            text,
        });
    }

    fn warn(&mut self, text: String) {
        self.0.push(Finding {
            is_warning: true,
            text,
        });
    }

    fn listener(
        &mut self,
        config: &Config,
        binding: &ListenerBinding<'_>,
        has_users: Option<bool>,
    ) {
        let listener = binding.listener;
        for (bind, is_encrypted) in binding.addresses() {
            let is_local = bind.is_local() && binding.proxy_protocol.is_empty();
            let reach = if is_local {
                "this machine"
            } else {
                "other machines"
            };
            let permitted = rights(config, binding, is_local, has_users);
            self.note(format!("{listener} on {bind}: {reach}; {permitted}"));
            if is_local {
                continue;
            }
            if binding.remote_access == RemoteAccess::Open {
                self.warn(format!(
                    "listeners.{listener}.open_to_world: everybody who reaches {bind} may use it"
                ));
            }
            if anonymous(config, listener) == Some(AnonymousAccess::Yes) {
                self.warn(format!(
                    "listeners.{listener}.anonymous = \"yes\": strangers are served on {bind}, as \
                     far as the rules of 'anonymous' and 'everyone' permit"
                ));
            }
            if binding.remote_access == RemoteAccess::Login
                && !is_encrypted
                && !(binding.upgrades && binding.tls.is_set())
            {
                self.warn(format!(
                    "listeners.{listener}: passwords reach {bind} unencrypted; set tls.cert and \
                     tls.key"
                ));
            }
        }
    }

    /// The accounts of this machine whose programs need no login while there is no user.
    fn accounts(&mut self, config: &Config, has_users: Option<bool>) {
        if has_users == Some(true) {
            return;
        }
        for account in &config.access.local_accounts {
            self.warn(format!(
                "access.local_accounts: clients of '{account}' are administrators until there is a \
                 user, and so are all clients that a proxy of this account has"
            ));
        }
        if !gatepost_users::accounts_are_known() {
            self.warn(
                "the kernel does not name the accounts of connections (NETLINK_SOCK_DIAG), so no \
                 TCP client counts as local: add a user, or use Unix sockets"
                    .to_owned(),
            );
        }
    }

    fn pages(&mut self, config: &Config) {
        for path in gatepost_pages::paths_without_content(&config.pages) {
            let path = path.as_str();
            self.warn(format!(
                "pages.access.\"{path}\": there is no such file or folder on any host, so nothing \
                 is kept for users by it"
            ));
        }
    }

    fn limits(&mut self, config: &Config) {
        let defaults = Config::default();
        let by_default = switched_off(&defaults);
        for name in switched_off(config) {
            let text = format!("{name} = 0: no limit");
            if by_default.contains(&name) {
                self.note(text);
            } else {
                self.warn(text);
            }
        }
        if !config.rules.network {
            self.note(
                "rules.network = false: no rule confirms senders, so the address of an allowed \
                    sender can be forged"
                    .to_owned(),
            );
        }
        if config.access.failures_per_user == 0 {
            self.note(
                "access.failures_per_user = 0: every failed login delays the next \
                one"
                .to_owned(),
            );
        }
        if !config.bans.enabled {
            self.warn(
                "bans.enabled = false: an address may guess passwords indefinitely".to_owned(),
            );
        }
        if config.access.password_length_min < 6 {
            self.warn(format!(
                "access.password_length_min = {}: passwords of this length are easily guessed",
                config.access.password_length_min
            ));
        }
    }

    fn process(&mut self, config: &Config) {
        if config.sandbox == SandboxMode::Off {
            self.warn("sandbox = \"off\": a fault in a parser reaches all files".to_owned());
        }
        if config.user.is_empty() {
            self.warn("user = \"\": a server that is started as root remains root".to_owned());
        }
    }

    fn files(&mut self, config: &Config) {
        for binding in config.listeners.bindings() {
            for key in binding.tls.key_files() {
                self.private(key, OTHERS);
            }
        }
        for issuer in &config.access.jwt {
            if issuer.algorithm == gatepost_users::JwtAlgorithm::Hs256 {
                self.private(&issuer.key, OTHERS);
            }
        }
        for key in key_access::unreadable_keys(config) {
            self.warn(format!(
                "{} cannot be read by the user that the server runs as, so a renewed key is not \
                    applied without a restart: give it and its folders to a group of this user \
                 (docs/tls.md)",
                key.display()
            ));
        }
        // Addresses of clients and their requests.
        self.private(&config.access_log.path, ALL_BUT_READING_BY_GROUP);
        self.private(&config.data, GROUP_AND_OTHERS);
        // In a folder that only its owner enters, the modes of files do not matter.
        let folder = std::fs::metadata(&config.data).map_or(0, |folder| folder.mode());
        if folder & GROUP_AND_OTHERS == 0 {
            return;
        }
        let Ok(entries) = std::fs::read_dir(&config.data) else {
            return;
        };
        let is_database = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("gatepost.db")
        };
        for entry in entries.flatten().filter(|entry| is_database(&entry.path())) {
            self.private(&entry.path(), GROUP_AND_OTHERS);
        }
    }

    /// A file or folder that holds secrets must not have any of these permissions.
    fn private(&mut self, path: &Path, refused: u32) {
        let Ok(metadata) = std::fs::metadata(path) else {
            return;
        };
        let mode = metadata.mode() & 0o777;
        if mode & refused != 0 {
            let corrected = mode & !refused;
            self.warn(format!(
                "{} has mode {mode:04o}, so others can reach it: chmod {corrected:04o}",
                path.display()
            ));
        }
    }
}

const fn anonymous(config: &Config, listener: Listener) -> Option<AnonymousAccess> {
    match listener {
        Listener::Mqtt => Some(config.listeners.mqtt.anonymous),
        Listener::Http => Some(config.listeners.http.anonymous),
        _ => None,
    }
}

/// A description of the rights of peers at an address.
fn rights(
    config: &Config,
    binding: &ListenerBinding<'_>,
    is_local: bool,
    has_users: Option<bool>,
) -> &'static str {
    let listener = binding.listener;
    match (anonymous(config, listener), listener) {
        (Some(AnonymousAccess::No), _) => "users only",
        (Some(AnonymousAccess::Yes), _) => "everybody, by the rules of 'anonymous'",
        (Some(AnonymousAccess::Auto), _) if !is_local || has_users == Some(true) => "users only",
        (Some(AnonymousAccess::Auto), _) => {
            "root, people's accounts and the server's own, as administrators, until there is a user"
        }
        (None, Listener::Pop3) => "users only, each its own mailbox",
        (None, Listener::Smtp) if config.listeners.smtp.login_required => "users only",
        (None, Listener::Smtp | Listener::Lmtp) => "everybody may send mail to its domains",
        (None, Listener::Spamd) if config.listeners.spamd.allow_tell => {
            "everybody may have mail judged, and train the filter"
        }
        (None, _) => "everybody may have messages judged",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn warnings(config: &Config) -> Vec<String> {
        let findings = report(config, Some(false)).into_iter();
        findings
            .filter(|finding| finding.is_warning)
            .map(|finding| finding.text)
            .collect()
    }

    #[test]
    fn only_settings_that_reveal_more_than_the_defaults_give_a_warning() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let mut config = Config {
            data: data.clone(),
            ..Config::default()
        };
        config.access_log.path = folder.path().join("access.log");
        assert_eq!(warnings(&config), Vec::<String>::new());

        config.listeners.smtp.bind = vec!["0.0.0.0:25".parse().expect("an address")];
        config.listeners.smtp.open_to_world = true;
        config.listeners.mqtt.bind = vec!["0.0.0.0:1883".parse().expect("an address")];
        config.listeners.mqtt.anonymous = AnonymousAccess::Yes;
        config.listeners.http.connections_max = 0;
        config.listeners.mqtt.connections_per_address_max = 0;
        config.listeners.mqtt.connections_max = 0.into();
        config.sandbox = SandboxMode::Off;
        std::fs::create_dir(&data).expect("a folder");
        let open = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&data, open(0o755)).expect("set");
        std::fs::write(data.join("gatepost.db"), "").expect("a file");
        std::fs::set_permissions(data.join("gatepost.db"), open(0o644)).expect("set");
        std::fs::write(&config.access_log.path, "").expect("a file");
        std::fs::set_permissions(&config.access_log.path, open(0o664)).expect("set");
        let path = "/misspelt".to_owned().try_into().expect("a path");
        config.pages.access = [(path, gatepost_pages::Readers::Login)].into();
        let warnings = warnings(&config);
        for part in [
            "pages.access.\"/misspelt\": there is no such file",
            "access.log has mode 0664, so others can reach it: chmod 0640",
            "listeners.smtp.open_to_world",
            "listeners.mqtt.anonymous",
            "passwords reach 0.0.0.0:1883 unencrypted",
            "sandbox",
            "listeners.http.connections_max = 0: no limit",
            "listeners.mqtt.connections_max = 0: no limit",
            "listeners.mqtt.connections_per_address_max = 0: no limit",
            "gatepost.db has mode 0644, so others can reach it: chmod 0600",
            "data has mode 0755, so others can reach it: chmod 0700",
        ] {
            assert!(
                warnings.iter().any(|text| text.contains(part)),
                "{part}: {warnings:#?}"
            );
        }
        assert_eq!(warnings.len(), 11, "{warnings:#?}");
    }
}
