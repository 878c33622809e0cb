//! Listeners: `listener`, and the options below each.

use std::net::{IpAddr, Ipv4Addr};

use super::OptionLine;
use crate::cli::import::plan::ImportPlan;

const PORT_DEFAULT: &str = "1883";
const NO_SHARED_KEYS: &str = "TLS with pre-shared keys is not available";
const IPV4_ONLY: &str = "mosquitto's listeners without an address accept IPv6 too; those of the \
     import accept IPv4. [::]:PORT accepts both";

/// One listener of mosquitto's.
#[derive(Debug, Default, Clone)]
struct MosquittoListener {
    place: String,
    line: String,
    port: String,
    host: Option<String>,
    speaks_websocket: bool,
    cert: Option<String>,
    key: Option<String>,
    client_ca: Option<String>,
    needs_certificate: bool,
    certificate_is_user: bool,
    has_shared_keys: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Listeners {
    /// The listener of `port`, `bind_address`, and options before the first `listener`. Each of
    /// these makes mosquitto open it, beside those that are named.
    default: Option<MosquittoListener>,
    named: Vec<MosquittoListener>,
    /// Each `allow_anonymous`, with its place and line.
    anonymous: Vec<(bool, String, String)>,
}

impl Listeners {
    /// Handles an option of listeners; returns whether it was one.
    pub(super) fn take(&mut self, option: OptionLine<'_>, plan: &mut ImportPlan) -> bool {
        let is_true = option.value == "true";
        match option.name {
            "listener" => self.named.push(named(option)),
            "port" => option.value.clone_into(&mut self.default(option).port),
            "bind_address" => self.default(option).host = Some(option.value.to_owned()),
            "allow_anonymous" => {
                let (place, line) = (option.place.to_owned(), option.line.to_owned());
                self.anonymous.push((is_true, place, line));
            }
            "protocol" if matches!(option.value, "mqtt" | "websockets") => {
                self.last(option).speaks_websocket = option.value == "websockets";
            }
            "certfile" => self.last(option).cert = Some(option.value.to_owned()),
            "keyfile" => self.last(option).key = Some(option.value.to_owned()),
            "cafile" => self.last(option).client_ca = Some(option.value.to_owned()),
            "require_certificate" => self.last(option).needs_certificate = is_true,
            "use_identity_as_username" => self.last(option).certificate_is_user = is_true,
            "psk_hint" => {
                self.last(option).has_shared_keys = true;
                plan.leave_out(option.place, option.line, NO_SHARED_KEYS);
            }
            "max_connections" => match option.value.parse::<i64>() {
                Ok(count) if count > 0 => {
                    self.last(option);
                    plan.set("listeners.mqtt.connections_max", count.to_string());
                }
                Ok(_) => {}
                Err(_) => plan.leave_out(option.place, option.line, "not a number"),
            },
            _ => return false,
        }
        true
    }

    fn default(&mut self, option: OptionLine<'_>) -> &mut MosquittoListener {
        self.default.get_or_insert_with(|| MosquittoListener {
            place: option.place.to_owned(),
            line: option.line.to_owned(),
            port: PORT_DEFAULT.to_owned(),
            ..MosquittoListener::default()
        })
    }

    /// The listener that an option at this place belongs to.
    fn last(&mut self, option: OptionLine<'_>) -> &mut MosquittoListener {
        if self.named.is_empty() {
            return self.default(option);
        }
        let last = self.named.len() - 1;
        &mut self.named[last]
    }

    /// Writes the settings.
    pub(super) fn finish(self, plan: &mut ImportPlan) {
        let mut all: Vec<_> = self.default.into_iter().chain(self.named).collect();
        let is_local = all.is_empty();
        if is_local {
            // mosquitto without a listener serves all clients of this machine.
            all.push(MosquittoListener {
                port: PORT_DEFAULT.to_owned(),
                host: Some("127.0.0.1".to_owned()),
                ..MosquittoListener::default()
            });
        }
        let anonymous = admits_anonymous(&self.anonymous, plan).unwrap_or(is_local);
        let mut has_mqtt = false;
        let mut has_websocket = false;
        for listener in &all {
            has_websocket |= listener.speaks_websocket;
            has_mqtt |= open(listener, plan);
        }
        if !has_mqtt {
            plan.set("listeners.mqtt.bind", "[]");
        }
        let answer = if anonymous { "yes" } else { "no" };
        plan.set_text("listeners.mqtt.anonymous", answer);
        if has_websocket {
            plan.set_text("listeners.http.anonymous", answer);
            plan.note("MQTT over WebSocket is at the path /mqtt of the HTTP listener");
        }
    }
}

/// Whether clients without a login are admitted, if a line says so. The setting is the same for all
/// listeners, so one listener that requires a login decides.
fn admits_anonymous(lines: &[(bool, String, String)], plan: &mut ImportPlan) -> Option<bool> {
    let is_required = lines.iter().any(|(is_admitted, ..)| !is_admitted);
    for (_, place, line) in lines.iter().filter(|line| is_required && line.0) {
        let reason = "another listener requires a login, and listeners.mqtt.anonymous is the same \
             for all";
        plan.leave_out(place, line, reason);
    }
    (!lines.is_empty()).then_some(!is_required)
}

fn named(option: OptionLine<'_>) -> MosquittoListener {
    let mut words = option.value.split_whitespace();
    MosquittoListener {
        place: option.place.to_owned(),
        line: option.line.to_owned(),
        port: words.next().unwrap_or_default().to_owned(),
        host: words.next().map(str::to_owned),
        ..MosquittoListener::default()
    }
}

/// Imports one listener; returns whether it is one of plain MQTT.
fn open(listener: &MosquittoListener, plan: &mut ImportPlan) -> bool {
    // Without its keys it would speak to everyone, unencrypted.
    if listener.has_shared_keys {
        plan.leave_out(&listener.place, &listener.line, NO_SHARED_KEYS);
        return false;
    }
    let Some(bind) = bind(listener) else {
        let reason = "the host is a name; write its address into listeners.mqtt.bind";
        plan.leave_out(&listener.place, &listener.line, reason);
        return false;
    };
    if listener.host.is_none() {
        plan.note(IPV4_ONLY);
    }
    let section = if listener.speaks_websocket {
        "listeners.http"
    } else {
        "listeners.mqtt"
    };
    let Some(cert) = &listener.cert else {
        plan.add_text(&format!("{section}.bind"), &bind);
        return !listener.speaks_websocket;
    };
    let key = |name: &str| format!("{section}.tls.{name}");
    if plan.has(&key("cert")) {
        let reason = "one certificate for each protocol is imported; add this one under \
             tls.more";
        plan.leave_out(&listener.place, &listener.line, reason);
    } else {
        plan.set_text(&key("cert"), cert);
        plan.set_text(&key("key"), listener.key.as_deref().unwrap_or_default());
        if listener.needs_certificate && listener.client_ca.is_none() {
            let reason = "name the authorities' file by tls.client_ca, and set \
                 tls.client_required: until then, no certificate is required";
            plan.leave_out(&listener.place, &listener.line, reason);
        } else if listener.needs_certificate {
            let ca = listener.client_ca.as_deref().unwrap_or_default();
            plan.set_text(&key("client_ca"), ca);
            plan.set(&key("client_required"), "true");
        }
        if listener.certificate_is_user {
            plan.set(&key("client_is_user"), "true");
        }
    }
    plan.add_text(&key("bind"), &bind);
    false
}

/// The address as Gatepost writes it; `None` if the host is a name.
fn bind(listener: &MosquittoListener) -> Option<String> {
    let host = listener.host.as_deref();
    if let Some(path) = host.filter(|host| host.starts_with('/')) {
        return Some(format!("unix:{path}"));
    }
    let port = &listener.port;
    let ip = match host {
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Some(host) => host.parse().ok()?,
    };
    Some(match ip {
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_listener_that_requires_a_login_decides_for_all() {
        for (lines, expected, left_out) in [
            (&[true, true][..], Some(true), 0),
            (&[false, true], Some(false), 1),
            (&[true, false, true], Some(false), 2),
            (&[], None, 0),
        ] {
            let lines: Vec<_> = lines
                .iter()
                .map(|&is_admitted| (is_admitted, String::new(), String::new()))
                .collect();
            let mut plan = ImportPlan::default();
            assert_eq!(admits_anonymous(&lines, &mut plan), expected, "{lines:?}");
            assert_eq!(plan.left_out_count(), left_out, "{lines:?}");
        }
    }
}
