//! The options of mosquitto.conf that belong to no listener: the corresponding setting of each, or
//! the reason why there is none.

use super::OptionLine;
use crate::cli::import::plan::ImportPlan;

/// An option and the setting that takes the same value.
const SAME: [(&str, &str); 2] = [
    ("max_topic_alias", "listeners.mqtt.topic_alias_max"),
    ("max_keepalive", "listeners.mqtt.keep_alive_max_seconds"),
];

/// Options for behaviour that Gatepost always has.
const ALWAYS: [(&str, &str); 9] = [
    (
        "persistence",
        "sessions and retained messages are always on disk",
    ),
    (
        "persistence_file",
        "the database is gatepost.db in the data folder",
    ),
    (
        "persistence_location",
        "the setting `data` names the folder",
    ),
    (
        "autosave_interval",
        "acknowledged messages are always on disk",
    ),
    (
        "autosave_on_changes",
        "acknowledged messages are always on disk",
    ),
    ("allow_zero_length_clientid", "always allowed"),
    ("set_tcp_nodelay", "always set"),
    ("pid_file", "the service manager tracks the process"),
    ("user", "the service manager sets the user"),
];

/// Options without a counterpart.
const MISSING: [(&str, &str); 27] = [
    (
        "auth_plugin",
        "no plugins; access.jwt accepts tokens of other servers",
    ),
    (
        "plugin",
        "no plugins; access.jwt accepts tokens of other servers",
    ),
    ("auth_plugin_deny_special_chars", "no plugins"),
    ("capath", "name one file by tls.client_ca"),
    ("ciphers", "TLS 1.2 and 1.3 with safe suites only"),
    ("ciphers_tls1.3", "TLS 1.2 and 1.3 with safe suites only"),
    ("tls_version", "TLS 1.2 and 1.3"),
    ("dhparamfile", "no such key exchange"),
    ("crlfile", "not available"),
    ("psk_file", "TLS with pre-shared keys is not available"),
    (
        "use_subject_as_username",
        "the common name is the user: tls.client_is_user",
    ),
    ("tls_engine", "not available"),
    ("tls_engine_kpass_sha1", "not available"),
    ("tls_keyform", "keys are PEM files"),
    (
        "mount_point",
        "clients of all listeners share the topics; access.mount = \"%u/\" gives each user its own",
    ),
    (
        "bind_interface",
        "write the interface's address into listeners.mqtt.bind",
    ),
    (
        "socket_domain",
        "write the address of the family into listeners.mqtt.bind",
    ),
    ("http_dir", "pages.path serves files and templates"),
    (
        "clientid_prefixes",
        "not available; rules with %c limit client ids",
    ),
    (
        "use_username_as_clientid",
        "not available; rules with %c limit client ids",
    ),
    (
        "allow_duplicate_messages",
        "overlapping subscriptions receive a message once",
    ),
    (
        "check_retain_source",
        "retained messages outlive the rights of their publisher",
    ),
    ("auto_id_prefix", "assigned client ids begin with auto-"),
    (
        "retain_available",
        "rules without `retain` forbid retained messages",
    ),
    (
        "queue_qos0_messages",
        "QoS 0 messages are only sent to connected clients",
    ),
    ("upgrade_outgoing_qos", "not available"),
    (
        "max_inflight_bytes",
        "broker.outbox_max bounds the bytes of one client",
    ),
];

/// Handles one option.
pub(super) fn take(option: OptionLine<'_>, plan: &mut ImportPlan) {
    let OptionLine {
        place,
        line,
        name,
        value,
    } = option;
    let found = |table: &[(&'static str, &'static str)]| {
        let mut table = table.iter();
        table
            .find(|(known, _)| *known == name)
            .map(|(_, text)| *text)
    };
    if let Some(key) = found(&SAME) {
        match value.parse::<u16>() {
            Ok(number) => plan.set(key, number.to_string()),
            Err(_) => plan.leave_out(place, line, "not a number from 0 to 65535"),
        }
    } else if let Some(reason) = found(&ALWAYS).or_else(|| found(&MISSING)) {
        plan.leave_out(place, line, reason);
    } else if name.starts_with("plugin_opt_") || name.starts_with("auth_opt_") {
        plan.leave_out(place, line, "no plugins");
    } else if name.starts_with("log_") || name.contains("log_") || name == "connection_messages" {
        plan.leave_out(
            place,
            line,
            "the log is standard error; log.level and log.format",
        );
    } else if let Err(reason) = limit(name, value, plan) {
        plan.leave_out(place, line, reason);
    }
}

/// Limits, whose 0 means no limit for mosquitto.
fn limit(name: &str, value: &str, plan: &mut ImportPlan) -> Result<(), &'static str> {
    let number = || value.parse::<u64>().map_err(|_| "not a number");
    let is_open = "unlimited is not available; the default applies";
    match name {
        "max_inflight_messages" => {
            let count = number()?.min(u16::MAX.into());
            let count = if count == 0 { u16::MAX.into() } else { count };
            plan.set("broker.inflight_max", count.to_string());
        }
        "max_queued_messages" => match number()? {
            0 => return Err(is_open),
            count => plan.set("broker.queue_messages_max", count.to_string()),
        },
        "max_queued_bytes" => match number()? {
            0 => {}
            bytes => plan.set_text("broker.queue_bytes_max", &format!("{bytes}B")),
        },
        "max_packet_size" => match number()? {
            0 => {}
            bytes => plan.set_text("listeners.mqtt.packet_max", &format!("{bytes}B")),
        },
        "message_size_limit" => match number()? {
            0 => {}
            _ if plan.has("listeners.mqtt.packet_max") => {
                return Err("max_packet_size limits the packet");
            }
            bytes => {
                plan.set_text("listeners.mqtt.packet_max", &format!("{bytes}B"));
                plan.note(
                    "message_size_limit counts the payload, listeners.mqtt.packet_max the whole \
                     packet",
                );
            }
        },
        "memory_limit" => match number()? {
            0 => {}
            bytes => plan.set_text("broker.memory_max", &format!("{bytes}B")),
        },
        "websockets_headers_size" => match number()? {
            0 => {}
            bytes => plan.set_text("listeners.http.head_max", &format!("{bytes}B")),
        },
        "sys_interval" => plan.set_text("broker.sys_interval", &format!("{}s", number()?)),
        "persistent_client_expiration" => plan.set_text("broker.session_expiry_max", &age(value)?),
        "per_listener_settings" => {
            if value == "true" {
                return Err("users, rules and `anonymous` apply to all MQTT listeners");
            }
        }
        "max_qos" => {
            if value != "2" {
                return Err("QoS 2 is always offered");
            }
        }
        _ => return Err("unknown option, not imported"),
    }
    Ok(())
}

/// `2h`, `7d`, `3w`, `6m`, `1y`.
fn age(value: &str) -> Result<String, &'static str> {
    let wrong = "not a time such as 7d";
    let unit = value.chars().last().ok_or(wrong)?;
    let count = value.strip_suffix(unit).unwrap_or_default();
    let count: u64 = count.parse().map_err(|_| wrong)?;
    let days = match unit {
        'h' => return Ok(format!("{count}h")),
        'd' => 1,
        'w' => 7,
        'm' => 30,
        'y' => 365,
        _ => return Err(wrong),
    };
    Ok(format!("{}d", count.saturating_mul(days)))
}
