//! All settings, composed of each room's own.

use std::path::PathBuf;

use gatepost_broker::BrokerSettings;
use gatepost_listeners::call::CallSettings;
use gatepost_listeners::entry::Network;
use gatepost_listeners::http::HttpSettings;
use gatepost_listeners::milter::MilterSettings;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_listeners::pop3::Pop3Settings;
use gatepost_listeners::smtp::{LmtpSettings, SmtpSettings};
use gatepost_listeners::spamd::SpamdSettings;
use gatepost_listeners::tls::TlsSettings;
use gatepost_listeners::workers::WorkersSettings;
use gatepost_message::Listener;
use gatepost_pages::{AccessLogSettings, PagesSettings};
use gatepost_procedures::{Configuration, ProcedureTable, ProceduresSettings, ScopeSettings};
use gatepost_rules::RulesSettings;
use gatepost_settings::Bind;
use gatepost_store::StoreSettings;
use gatepost_users::AccessSettings;
use serde::{Deserialize, Serialize};

use super::Mistake;
use gatepost_settings::layers::Layers;

/// The config as a whole; the names are those that users write.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The folder of the embedded database and its files.
    pub(crate) data: PathBuf,
    /// Whether a listener may be reachable from other machines without asking who is there, as
    /// long as there is no user.
    pub(crate) open_to_world: bool,
    pub(crate) listeners: ListenersSettings,
    pub(crate) access: AccessSettings,
    pub(crate) rules: RulesSettings,
    pub(crate) procedures: ProceduresSettings,
    pub(crate) scope: Vec<ScopeSettings>,
    pub(crate) procedure: ProcedureTable,
    pub(crate) broker: BrokerSettings,
    pub(crate) pages: PagesSettings,
    pub(crate) access_log: AccessLogSettings,
    pub(crate) store: StoreSettings,
    pub(crate) workers: WorkersSettings,
    pub(crate) log: LogSettings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: PathBuf::from("gatepost-data"),
            open_to_world: false,
            listeners: ListenersSettings::default(),
            access: AccessSettings::default(),
            rules: RulesSettings::default(),
            procedures: ProceduresSettings::default(),
            scope: vec![mail_scope()],
            procedure: ProcedureTable::default(),
            broker: BrokerSettings::default(),
            pages: PagesSettings::default(),
            access_log: AccessLogSettings::default(),
            store: StoreSettings::default(),
            workers: WorkersSettings::default(),
            log: LogSettings::default(),
        }
    }
}

/// Without a word in the config, mail is checked for size and spam.
fn mail_scope() -> ScopeSettings {
    ScopeSettings {
        path: "/mail".to_owned(),
        listeners: vec![Listener::Smtp, Listener::Lmtp, Listener::Milter],
        run: vec!["/sizecheck".to_owned(), "/spamcheck".to_owned()],
        ..ScopeSettings::default()
    }
}

/// `[listeners]`: one table for each protocol. An empty `bind` turns a listener off.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ListenersSettings {
    pub(crate) smtp: SmtpSettings,
    pub(crate) lmtp: LmtpSettings,
    pub(crate) milter: MilterSettings,
    pub(crate) pop3: Pop3Settings,
    pub(crate) spamd: SpamdSettings,
    pub(crate) call: CallSettings,
    pub(crate) mqtt: MqttSettings,
    pub(crate) http: HttpSettings,
}

/// What all listeners have in common: where they listen, and how connections begin there.
pub(crate) struct Place<'a> {
    pub(crate) listener: Listener,
    /// Its own addresses; those of `tls.bind` come besides.
    pub(crate) bind: &'a [Bind],
    pub(crate) tls: &'a TlsSettings,
    pub(crate) proxy_protocol: &'a [Network],
    /// Whether connections begin in plain text and change to TLS when the client asks
    /// (STARTTLS); then `tls.cert` does not encrypt the listener's own addresses.
    pub(crate) upgrades: bool,
}

impl Place<'_> {
    /// All addresses, each with whether it speaks TLS from the first byte.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&Bind, bool)> {
        let has_own_tls = self.tls.is_set() && self.tls.bind.is_empty() && !self.upgrades;
        let own = self.bind.iter().map(move |bind| (bind, has_own_tls));
        own.chain(self.tls.bind.iter().map(|bind| (bind, true)))
    }

    /// Whether nobody but programs of this machine can be at the other end.
    pub(crate) fn is_local(&self) -> bool {
        // Behind a proxy on this machine is the world.
        self.proxy_protocol.is_empty() && self.addresses().all(|(bind, _)| bind.is_local())
    }

    /// Whether the listener asks who is there, so that others may reach it: then it is
    /// `anonymous`, another explicit setting, that lets strangers in.
    pub(crate) const fn has_login(&self) -> bool {
        matches!(
            self.listener,
            Listener::Mqtt | Listener::Http | Listener::Pop3
        )
    }
}

/// The common part of a listener's settings.
macro_rules! place {
    ($listener:expr, $settings:expr, $upgrades:literal) => {
        Place {
            listener: $listener,
            bind: &$settings.bind,
            tls: &$settings.tls,
            proxy_protocol: &$settings.proxy_protocol,
            upgrades: $upgrades,
        }
    };
}

impl ListenersSettings {
    /// Each listener's place.
    pub(crate) fn places(&self) -> [Place<'_>; 8] {
        [
            place!(Listener::Smtp, self.smtp, true),
            place!(Listener::Lmtp, self.lmtp, true),
            place!(Listener::Milter, self.milter, false),
            place!(Listener::Pop3, self.pop3, true),
            place!(Listener::Spamd, self.spamd, false),
            place!(Listener::Call, self.call, false),
            place!(Listener::Mqtt, self.mqtt, false),
            place!(Listener::Http, self.http, false),
        ]
    }
}

/// `[log]`: what is written to standard error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSettings {
    /// How lines look.
    pub(crate) format: LogFormat,
    /// What is worth a line: `error`, `warn`, `info`, `debug` or `trace`, also by room, as in
    /// `"info,smtp=debug"`.
    pub(crate) level: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info".to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// What the procedures read of it.
    pub(crate) fn procedures(&self) -> Configuration {
        Configuration {
            procedures: self.procedures.clone(),
            scopes: self.scope.clone(),
            table: self.procedure.clone(),
        }
    }

    /// Mistakes that no single value shows: settings that contradict each other.
    pub(super) fn mistakes(&self, layers: &Layers) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log.level) {
            mistakes.push(Mistake::new(
                layers.origin("log.level"),
                "log.level",
                error.to_string(),
            ));
        }
        for place in self.listeners.places() {
            if self.open_to_world || place.has_login() || place.is_local() {
                continue;
            }
            let listener = place.listener;
            let key = format!("listeners.{listener}.bind");
            for (bind, _) in place.addresses().filter(|(bind, _)| !bind.is_local()) {
                let reason = format!(
                    "{bind} can be reached from other machines, and nobody is asked who they are; \
                     write open_to_world = true if that is meant"
                );
                mistakes.push(Mistake::new(layers.origin(&key), &key, reason));
            }
        }
        mistakes
    }
}
