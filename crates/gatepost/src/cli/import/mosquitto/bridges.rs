//! Bridges: `connection`, and the options of each, which become a `[[sink]]`.

use super::OptionLine;
use crate::cli::import::plan::{ImportPlan, ImportedSink};

/// Options for behaviour that every bridge of Gatepost has, by the value that means it.
const ALWAYS: [(&str, &str); 6] = [
    ("cleansession", "false"),
    ("start_type", "automatic"),
    ("try_private", "true"),
    ("notifications", "true"),
    ("bridge_insecure", "false"),
    ("bridge_outgoing_retain", "true"),
];

/// Options that have no counterpart, unless their value is one of [`ALWAYS`].
const MISSING: [(&str, &str); 20] = [
    ("cleansession", "the session is always kept"),
    ("local_cleansession", "the session is always kept"),
    ("start_type", "a bridge is always connected"),
    ("idle_timeout", "a bridge is always connected"),
    ("threshold", "a bridge is always connected"),
    ("try_private", "always, before MQTT 5"),
    ("notifications", "the topic below $SYS always exists"),
    ("round_robin", "one address"),
    ("local_clientid", "the session is $sink/NAME"),
    ("local_username", "the session is $sink/NAME"),
    ("local_password", "the session is $sink/NAME"),
    ("bridge_insecure", "certificates are always verified"),
    ("bridge_capath", "name one file by bridge.tls_ca"),
    ("bridge_psk", "TLS with pre-shared keys is not available"),
    (
        "bridge_identity",
        "TLS with pre-shared keys is not available",
    ),
    ("bridge_alpn", "not available"),
    ("bridge_tls_version", "TLS 1.2 and 1.3"),
    ("bridge_bind_address", "not available"),
    ("bridge_outgoing_retain", "the retain flag is kept"),
    (
        "bridge_max_packet_size",
        "the other broker's maximum applies",
    ),
];

/// Options that set a key of the sink.
const CARRIED: [&str; 18] = [
    "address",
    "addresses",
    "topic",
    "bridge_protocol_version",
    "remote_clientid",
    "clientid",
    "remote_username",
    "username",
    "remote_password",
    "password",
    "bridge_cafile",
    "bridge_certfile",
    "bridge_keyfile",
    "keepalive_interval",
    "bridge_session_expiry_interval",
    "notification_topic",
    "notifications_local_only",
    "restart_timeout",
];

/// One bridge of mosquitto's.
#[derive(Debug, Default)]
struct MosquittoBridge {
    place: String,
    line: String,
    name: String,
    address: Option<String>,
    has_tls: bool,
    notification_topic: Option<String>,
    notifies_only_here: bool,
    sink: ImportedSink,
}

/// All of them, in their order.
#[derive(Debug, Default)]
pub(super) struct Bridges(Vec<MosquittoBridge>);

impl Bridges {
    /// Handles an option of bridges; returns whether it was one.
    pub(super) fn take(&mut self, option: OptionLine<'_>, plan: &mut ImportPlan) -> bool {
        if option.name == "connection" {
            self.begin(option);
            return true;
        }
        let missing = MISSING.iter().find(|(name, _)| *name == option.name);
        let is_of_bridge = missing.is_some()
            || CARRIED.contains(&option.name)
            || option.name.starts_with("bridge_");
        if !is_of_bridge {
            return false;
        }
        let outcome = match (self.0.last_mut(), missing) {
            (None, _) => Err("it is of no `connection`"),
            (Some(_), Some(_)) if ALWAYS.contains(&(option.name, option.value)) => Ok(()),
            (Some(_), Some((_, reason))) => Err(*reason),
            (Some(bridge), None) => bridge.take(option),
        };
        if let Err(reason) = outcome {
            plan.leave_out(option.place, without_password(option), reason);
        }
        true
    }

    fn begin(&mut self, option: OptionLine<'_>) {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let name = option.value.replace(|letter| !is_plain(letter), "-");
        let is_taken = |name: &str| self.0.iter().any(|bridge| bridge.name == name);
        let others = (2..).map(|number| format!("{name}-{number}"));
        let name = std::iter::once(name.clone())
            .chain(others)
            .find(|name| !is_taken(name))
            .unwrap_or(name);
        self.0.push(MosquittoBridge {
            place: option.place.to_owned(),
            line: option.line.to_owned(),
            name,
            ..MosquittoBridge::default()
        });
    }

    /// Adds the sinks to the plan.
    pub(super) fn finish(self, plan: &mut ImportPlan) {
        for bridge in self.0 {
            bridge.finish(plan);
        }
    }
}

impl MosquittoBridge {
    fn take(&mut self, option: OptionLine<'_>) -> Result<(), &'static str> {
        let value = option.value;
        let sink = &mut self.sink;
        let seconds = |text: &str| match text.parse::<u64>() {
            Ok(seconds) => Ok(format!("{seconds}s")),
            Err(_) => Err("not a number of seconds"),
        };
        match option.name {
            "address" | "addresses" => {
                let mut addresses = value.split_whitespace();
                self.address = addresses.next().map(str::to_owned);
                if addresses.next().is_some() {
                    return Err("only the first address is used");
                }
            }
            "topic" => sink.add_text("bridge.topics", value),
            "bridge_protocol_version" => match value {
                "mqttv50" => sink.set_text("bridge.version", "5"),
                "mqttv311" => sink.set_text("bridge.version", "3.1.1"),
                _ => return Err("MQTT 3.1.1 is used instead"),
            },
            "remote_clientid" | "clientid" => sink.set_text("bridge.client_id", value),
            "remote_username" | "username" => sink.set_text("bridge.user", value),
            "remote_password" | "password" => {
                let file = format!("bridge-{}.password", self.name);
                sink.set_secret("bridge.password_file", &file, value);
            }
            "bridge_cafile" => {
                self.has_tls = true;
                sink.set_text("bridge.tls_ca", value);
            }
            "bridge_certfile" => sink.set_text("bridge.tls_cert", value),
            "bridge_keyfile" => sink.set_text("bridge.tls_key", value),
            "keepalive_interval" => sink.set_text("bridge.keep_alive", &seconds(value)?),
            "bridge_session_expiry_interval" => {
                sink.set_text("bridge.session_expiry", &seconds(value)?);
            }
            "notification_topic" => self.notification_topic = Some(value.to_owned()),
            "notifications_local_only" => self.notifies_only_here = value == "true",
            "restart_timeout" => {
                let (first, longest) = value
                    .split_once(char::is_whitespace)
                    .unwrap_or((value, value));
                sink.set_text("retry.first", &seconds(first)?);
                sink.set_text("retry.longest", &seconds(longest.trim())?);
            }
            _ => return Err("not available"),
        }
        Ok(())
    }

    fn finish(self, plan: &mut ImportPlan) {
        let Some(address) = self.address else {
            plan.leave_out(&self.place, &self.line, "the bridge has no address");
            return;
        };
        let mut sink = self.sink;
        if !sink.has("bridge.topics") {
            plan.leave_out(&self.place, &self.line, "the bridge has no topic");
            return;
        }
        // mosquitto's port is 1883 with TLS too.
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if has_port { "" } else { ":1883" };
        let scheme = if self.has_tls { "mqtts" } else { "mqtt" };
        sink.set_text("name", &self.name);
        sink.set_text("bridge.address", &format!("{scheme}://{address}{port}"));
        if !sink.has("bridge.version") {
            sink.set_text("bridge.version", "3.1.1");
        }
        if let Some(topic) = self.notification_topic.filter(|_| !self.notifies_only_here) {
            sink.set_text("bridge.notification_topic", &topic);
        }
        plan.sinks.push(sink);
    }
}

/// The line of an option, without a password in it: it becomes a comment of a config.
fn without_password(option: OptionLine<'_>) -> &str {
    if option.name.contains("password") || option.name == "bridge_psk" {
        option.name
    } else {
        option.line
    }
}
