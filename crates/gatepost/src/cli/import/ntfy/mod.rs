//! ntfy's server.yml, and the user database that it names.

mod database;
mod yaml;

use std::path::{Path, PathBuf};

use gatepost_users::{Access, AccessSet, EVERYONE, Effect};

use super::ImportError;
use super::plan::{ImportPlan, ImportedRule};
use yaml::YamlEntry;

/// Options for behaviour that Gatepost always has, or that needs no setting.
const ALWAYS: [(&str, &str); 10] = [
    (
        "attachment-cache-dir",
        "attachments are always kept in the data folder",
    ),
    ("cache-file", "messages are always kept in the database"),
    ("enable-metrics", "always, at /metrics, for administrators"),
    (
        "metrics-listen-http",
        "metrics are at /metrics of the HTTP listener",
    ),
    (
        "enable-login",
        "the dashboard requires a login as soon as there is a user",
    ),
    ("web-root", "the dashboard is at /dashboard"),
    (
        "cache-startup-queries",
        "the database has its own startup queries",
    ),
    (
        "auth-startup-queries",
        "the database has its own startup queries",
    ),
    (
        "manager-interval",
        "messages beyond the limits of [store] are removed within a minute",
    ),
    (
        "listen-unix-mode",
        "the folder of the socket decides who may connect",
    ),
];

/// Beginnings of options without a counterpart.
const MISSING: [(&str, &str); 21] = [
    ("smtp-sender-", "write [smarthost] and listeners.http.email"),
    (
        "smtp-server-addr-prefix",
        "write a route in listeners.smtp.routes",
    ),
    (
        "attachment-",
        "attachments have the limits of [attachments]",
    ),
    ("upstream-", "iOS push by another server is not available"),
    ("firebase-", "push by Firebase is not available"),
    (
        "web-push-",
        "browsers must subscribe again; write web_push.contact",
    ),
    ("twilio-", "calls are not available"),
    ("stripe-", "payments are not available"),
    ("billing-", "payments are not available"),
    ("enable-", "users are made by gatepost user add"),
    (
        "require-login",
        "access rules decide what clients without a login may do",
    ),
    (
        "cache-batch-",
        "messages that arrive during a commit share the next one",
    ),
    (
        "disallowed-topics",
        "write rules: gatepost user grant --deny everyone all TOPIC",
    ),
    ("global-topic-limit", "the number of topics is not limited"),
    ("template-dir", "templates of publishers are not available"),
    ("profile-listen-", "not available"),
    (
        "proxy-",
        "write the proxies' addresses into listeners.http.trusted_proxies",
    ),
    (
        "visitor-attachment-daily-",
        "listeners.http.bandwidth_per_address limits the rate",
    ),
    (
        "visitor-",
        "limits are by address: listeners.http.requests_per_second_per_address",
    ),
    (
        "log-",
        "the log is standard error; log.level and log.format",
    ),
    (
        "auth-",
        "users and rules of the config are not read; make them by gatepost user",
    ),
];

/// Endings of keys whose values are secret.
const SECRETS: [&str; 7] = [
    "auth-tokens",
    "auth-users",
    "-pass",
    "-token",
    "-private-key",
    "-secret-key",
    "-webhook-key",
];

/// The address of ntfy without `listen-http`.
const LISTEN_DEFAULT: &str = "0.0.0.0:80";

/// The state while keys are read.
#[derive(Default)]
struct NtfyImport {
    plan: ImportPlan,
    auth_file: Option<PathBuf>,
    default_access: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    has_listen_http: bool,
}

/// Plans the import of this file.
pub(super) fn read(file: &Path) -> Result<ImportPlan, ImportError> {
    let text = std::fs::read_to_string(file).map_err(ImportError::at(file))?;
    let mut import = NtfyImport::default();
    for entry in yaml::entries(&text) {
        let place = format!("{}:{}", file.display(), entry.number);
        let key = entry.key.replace('_', "-");
        if let Err(reason) = import.take(&key, &entry) {
            let line = if is_secret(&key) {
                format!("{}:", entry.key)
            } else {
                entry.line
            };
            import.plan.leave_out(&place, &line, reason);
        }
    }
    import.finish()
}

impl NtfyImport {
    /// Handles one key; in `key`, `-` stands for the `_` that ntfy accepts too.
    fn take(&mut self, key: &str, entry: &YamlEntry) -> Result<(), String> {
        let value = entry.values.first().map_or("", String::as_str);
        let plan = &mut self.plan;
        match key {
            "listen-http" => {
                self.has_listen_http = true;
                listen("listeners.http.bind", value, plan)?;
            }
            "listen-https" => listen("listeners.http.tls.bind", value, plan)?,
            "listen-unix" => plan.add_text("listeners.http.bind", &format!("unix:{value}")),
            "cert-file" => self.cert = Some(value.to_owned()),
            "key-file" => self.key = Some(value.to_owned()),
            "behind-proxy" => {
                if value == "true" {
                    plan.set("listeners.http.trusted_proxies", "[\"127.0.0.1\", \"::1\"]");
                    plan.note("the proxy is trusted if it is on this machine");
                }
            }
            "proxy-forwarded-header" => forwarding_header(value, plan)?,
            "cache-duration" if value.trim_end_matches(char::is_alphabetic) == "0" => {
                plan.set("store.history_messages_max", "0");
            }
            "message-delay-limit" => plan.set_text("delayed.delay_max", &period(value)?),
            "cache-duration" => plan.set_text("store.history_age_max", &period(value)?),
            "keepalive-interval" => plan.set_text("listeners.http.keepalive", &period(value)?),
            "message-size-limit" => plan.set_text("attachments.message_max", &size(value)?),
            "visitor-subscription-limit" => {
                let count: u32 = value.parse().map_err(|_| "not a number")?;
                plan.set(
                    "listeners.http.connections_per_address_max",
                    count.to_string(),
                );
            }
            "base-url" => plan.set_text("attachments.base_url", value),
            "attachment-file-size-limit" => {
                plan.set_text("attachments.file_max", &size(value)?);
            }
            "attachment-total-size-limit" => {
                plan.set_text("attachments.total_max", &size(value)?);
            }
            "attachment-expiry-duration" => {
                plan.set_text("attachments.expiry", &period(value)?);
            }
            "visitor-attachment-total-size-limit" => {
                plan.set_text("attachments.client_max", &size(value)?);
            }
            "smtp-server-listen" => listen("listeners.smtp.bind", value, plan)?,
            "smtp-server-domain" => plan.add_text("listeners.smtp.domains", value),
            "auth-file" => self.auth_file = Some(PathBuf::from(value)),
            "auth-default-access" => self.default_access = Some(value.to_owned()),
            "" => return Err("nested values are not supported".to_owned()),
            name => return Err(left_out(name).to_owned()),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ImportPlan, ImportError> {
        let plan = &mut self.plan;
        if !self.has_listen_http {
            plan.add_text("listeners.http.bind", LISTEN_DEFAULT);
        }
        if plan.has("listeners.http.tls.bind") {
            let text = |file: &Option<String>| file.clone().unwrap_or_default();
            plan.set_text("listeners.http.tls.cert", &text(&self.cert));
            plan.set_text("listeners.http.tls.key", &text(&self.key));
        }
        match &self.auth_file {
            Some(file) => {
                let access = self.default_access.as_deref().unwrap_or("read-write");
                default_access(access, plan);
                database::read(file, plan)?;
            }
            // Without users ntfy serves every client.
            None => plan.set_text("listeners.http.anonymous", "yes"),
        }
        plan.note("messages in ntfy's cache are not imported");
        Ok(self.plan)
    }
}

/// The permission of a client for which no rule of the database exists.
fn default_access(access: &str, plan: &mut ImportPlan) {
    let everybody = match access {
        "read-only" | "read" | "ro" => Some(AccessSet::from(Access::Subscribe)),
        "write-only" | "write" | "wo" => Some(AccessSet::from(Access::Publish)),
        "deny-all" | "deny" | "none" => None,
        _ => Some(AccessSet::from(Access::Publish).with(Access::Subscribe.into())),
    };
    plan.set_text("access.default", "deny");
    plan.set_text("listeners.http.anonymous", "yes");
    if let Some(access) = everybody {
        plan.rules.push(ImportedRule {
            subject: EVERYONE.to_owned(),
            effect: Effect::Allow,
            access,
            filter: "#".to_owned(),
        });
    }
}

/// Whether the value of a key is a password or the like, which must not be in the new config.
fn is_secret(key: &str) -> bool {
    SECRETS.iter().any(|ending| key.ends_with(ending))
}

fn left_out(name: &str) -> &'static str {
    let always = ALWAYS.iter().find(|(known, _)| *known == name);
    let missing = MISSING.iter().find(|(known, _)| name.starts_with(known));
    always
        .or(missing)
        .map_or("unknown option, not imported", |(_, reason)| reason)
}

/// The header in which the proxy reports its client.
fn forwarding_header(name: &str, plan: &mut ImportPlan) -> Result<(), String> {
    let value = name.to_ascii_lowercase();
    if !["x-forwarded-for", "forwarded"].contains(&value.as_str()) {
        return Err("let the proxy write X-Forwarded-For".to_owned());
    }
    plan.set_text("listeners.http.forwarding_header", &value);
    Ok(())
}

/// `:80`, `0.0.0.0:80`, `-` for none
fn listen(key: &str, value: &str, plan: &mut ImportPlan) -> Result<(), String> {
    if value == "-" {
        if !plan.has(key) {
            plan.set(key, "[]");
        }
        return Ok(());
    }
    let address = match value.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => value.to_owned(),
    };
    let parsed = address.parse::<std::net::SocketAddr>();
    parsed.map_err(|_| format!("not an address; write one into {key}"))?;
    plan.add_text(key, &address);
    Ok(())
}

/// `12h`, `45s`, `3d`; Go's other forms are rare here.
fn period(value: &str) -> Result<String, String> {
    let parsed = value.parse::<gatepost_settings::Period>();
    let parsed = parsed.map_err(|error| error.to_string())?;
    Ok(parsed.to_string())
}

/// `4096`, `4k`, `20M`, by 1024.
fn size(value: &str) -> Result<String, String> {
    let digits = value.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let count: u64 = digits.parse().map_err(|_| "not a size".to_owned())?;
    let unit = value.get(digits.len()..).unwrap_or_default();
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return Err("not a size".to_owned()),
    };
    Ok(format!("{}B", count.saturating_mul(factor)))
}
