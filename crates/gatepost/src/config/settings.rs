//! All settings, composed of those of each crate.

use std::path::PathBuf;
use std::sync::Arc;

use gatepost_alarms::AlarmSettings;
use gatepost_backbone::BackboneSettings;
use gatepost_bans::BansSettings;
use gatepost_broker::BrokerSettings;
use gatepost_gateway::{AttachmentSettings, DelayedSettings};
use gatepost_listeners::call::CallSettings;
use gatepost_listeners::forward::{Smarthost, SmarthostMistake, SmarthostSettings};
use gatepost_listeners::http::HttpSettings;
use gatepost_listeners::in_flight::InFlightSettings;
use gatepost_listeners::milter::MilterSettings;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_listeners::pop3::Pop3Settings;
use gatepost_listeners::smtp::{LmtpSettings, SmtpSettings};
use gatepost_listeners::spamd::SpamdSettings;
use gatepost_listeners::tls::TlsSettings;
use gatepost_listeners::workers::WorkersSettings;
use gatepost_message::{Listener, NodeNumber};
use gatepost_operations::quarantine_digest::QuarantineDigestSettings;
use gatepost_pages::{AccessLogSettings, PagesSettings};
use gatepost_procedures::{
    ProcedureTable, ProceduresConfiguration, ProceduresSettings, ScopeSettings,
};
use gatepost_rules::RulesSettings;
use gatepost_settings::layers::Layers;
use gatepost_settings::{Bind, PeerNetwork};
use gatepost_sinks::{SinkSettings, WebPushSettings};
use gatepost_store::StoreSettings;
use gatepost_topics::TopicSettings;
use gatepost_users::{AccessSettings, AnonymousAccess, mount_mistake};
use serde::{Deserialize, Serialize};

use super::Mistake;

/// The config as a whole; the names are those that users write.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The folder of the embedded database and its files.
    pub(crate) data: PathBuf,
    /// The user that the server becomes after it has opened its sockets, if it was started as root;
    /// empty keeps it root.
    pub(crate) user: String,
    /// The number of this server among all of yours, from 1 to 255. It is part of the message ids,
    /// so that two servers assign different ones.
    pub(crate) node: u16,
    /// Whether the kernel confines the server to its own files and to the system calls of a server.
    pub(crate) sandbox: SandboxMode,
    /// The protocols: where each listens, and its limits.
    pub(crate) listeners: ListenersSettings,
    /// Users, passwords and tokens.
    pub(crate) access: AccessSettings,
    /// The addresses that are refused, and for how long.
    pub(crate) bans: BansSettings,
    /// SpamAssassin's rules, and what is learned.
    pub(crate) rules: RulesSettings,
    /// The settings of procedures.
    pub(crate) procedures: ProceduresSettings,
    /// Chains of procedures, and the messages that each applies to.
    pub(crate) scope: Vec<ScopeSettings>,
    /// The settings of each procedure.
    pub(crate) procedure: ProcedureTable,
    /// Topics, sessions and subscribers.
    pub(crate) broker: BrokerSettings,
    /// Rules for the topics under a filter.
    pub(crate) topics: Vec<TopicSettings>,
    /// The cluster that this server is a node of.
    pub(crate) backbone: BackboneSettings,
    /// The webhooks and bridges that send messages to other systems.
    pub(crate) sink: Vec<SinkSettings>,
    /// Messages that are delivered later.
    pub(crate) delayed: DelayedSettings,
    /// Files that accompany messages.
    pub(crate) attachments: AttachmentSettings,
    /// Mails that list a recipient's quarantined messages.
    pub(crate) quarantine_digest: QuarantineDigestSettings,
    /// The mail server that takes mail which the server itself sends.
    pub(crate) smarthost: SmarthostSettings,
    /// Topics that are watched, and the reasons for an alarm.
    pub(crate) alarm: Vec<AlarmSettings>,
    /// Notifications to browsers and phones.
    pub(crate) web_push: WebPushSettings,
    /// Pages and static files.
    pub(crate) pages: PagesSettings,
    /// The log of web requests.
    pub(crate) access_log: AccessLogSettings,
    /// The limits of the database.
    pub(crate) store: StoreSettings,
    /// Messages that are not received completely yet.
    pub(crate) in_flight: InFlightSettings,
    /// The threads that serve connections.
    pub(crate) workers: WorkersSettings,
    /// The log on standard error.
    pub(crate) log: LogSettings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: PathBuf::from("gatepost-data"),
            user: "gatepost".to_owned(),
            node: u16::from(NodeNumber::FIRST.get()),
            sandbox: SandboxMode::On,
            listeners: ListenersSettings::default(),
            access: AccessSettings::default(),
            bans: BansSettings::default(),
            rules: RulesSettings::default(),
            procedures: ProceduresSettings::default(),
            scope: vec![mail_scope()],
            procedure: ProcedureTable::default(),
            broker: BrokerSettings::default(),
            topics: Vec::new(),
            backbone: BackboneSettings::default(),
            sink: Vec::new(),
            delayed: DelayedSettings::default(),
            attachments: AttachmentSettings::default(),
            quarantine_digest: QuarantineDigestSettings::default(),
            smarthost: SmarthostSettings::default(),
            alarm: Vec::new(),
            web_push: WebPushSettings::default(),
            pages: PagesSettings::default(),
            access_log: AccessLogSettings::default(),
            store: StoreSettings::default(),
            in_flight: InFlightSettings::default(),
            workers: WorkersSettings::default(),
            log: LogSettings::default(),
        }
    }
}

/// `sandbox`: confinement by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxMode {
    /// None.
    Off,
    /// As far as the kernel offers it.
    On,
    /// The server does not start without it.
    Required,
}

/// By default, mail is checked for size and spam.
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

/// The properties that all listeners have in common: their addresses, and the beginning of
/// connections.
pub(crate) struct ListenerBinding<'a> {
    pub(crate) listener: Listener,
    /// The listener's own addresses, in addition to those of `tls.bind`.
    pub(crate) bind: &'a [Bind],
    pub(crate) tls: &'a TlsSettings,
    pub(crate) proxy_protocol: &'a [PeerNetwork],
    /// Whether connections begin in plain text and change to TLS at the client's request
    /// (STARTTLS); then `tls.cert` does not encrypt the listener's own addresses.
    pub(crate) upgrades: bool,
    /// Access from other machines.
    pub(crate) remote_access: RemoteAccess,
}

/// Access from other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteAccess {
    /// For peers that log in; others only if `anonymous = "yes"` admits them.
    Login,
    /// For every peer, by `open_to_world`.
    Open,
    /// For no client: such addresses are refused at the start.
    Refused,
}

impl RemoteAccess {
    /// A listener without a login, or one whose login is optional.
    const fn without_login(open_to_world: bool) -> Self {
        if open_to_world {
            Self::Open
        } else {
            Self::Refused
        }
    }
}

impl ListenerBinding<'_> {
    /// All addresses, each with a flag whether it speaks TLS from the first byte.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&Bind, bool)> {
        let has_own_tls = self.tls.is_set() && self.tls.bind.is_empty() && !self.upgrades;
        let own = self.bind.iter().map(move |bind| (bind, has_own_tls));
        own.chain(self.tls.bind.iter().map(|bind| (bind, true)))
    }

    /// Whether only programs of this machine can be at the other end.
    pub(crate) fn is_local(&self) -> bool {
        // A proxy on this machine may forward for any client.
        self.proxy_protocol.is_empty() && self.addresses().all(|(bind, _)| bind.is_local())
    }
}

/// The common part of a listener's settings.
macro_rules! binding {
    ($listener:expr, $settings:expr, $upgrades:literal, $remote_access:expr) => {
        ListenerBinding {
            listener: $listener,
            bind: &$settings.bind,
            tls: &$settings.tls,
            proxy_protocol: &$settings.proxy_protocol,
            upgrades: $upgrades,
            remote_access: $remote_access,
        }
    };
}

impl ListenersSettings {
    /// The binding of each listener.
    pub(crate) fn bindings(&self) -> [ListenerBinding<'_>; 8] {
        let login = RemoteAccess::Login;
        let open = RemoteAccess::without_login;
        let smtp = if self.smtp.login_required {
            login
        } else {
            open(self.smtp.open_to_world)
        };
        [
            binding!(Listener::Smtp, self.smtp, true, smtp),
            binding!(
                Listener::Lmtp,
                self.lmtp,
                true,
                open(self.lmtp.open_to_world)
            ),
            binding!(
                Listener::Milter,
                self.milter,
                false,
                open(self.milter.open_to_world)
            ),
            binding!(Listener::Pop3, self.pop3, true, login),
            binding!(
                Listener::Spamd,
                self.spamd,
                false,
                open(self.spamd.open_to_world)
            ),
            binding!(
                Listener::Call,
                self.call,
                false,
                open(self.call.open_to_world)
            ),
            binding!(Listener::Mqtt, self.mqtt, false, login),
            binding!(Listener::Http, self.http, false, login),
        ]
    }
}

/// `[log]`: what is written to standard error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSettings {
    /// The format of lines.
    pub(crate) format: LogFormat,
    /// The least level of a line: `error`, `warn`, `info`, `debug` or `trace`, also by subsystem,
    /// as in `"info,smtp=debug"`.
    pub(crate) level: String,
    /// The number of times a line may repeat in ten seconds, whatever its values; the log says how
    /// many more there were. 0 for any number. Lines about judged messages, bans and changes are
    /// exempt.
    pub(crate) repeats_max: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info".to_owned(),
            repeats_max: 50,
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
    /// The parts that procedures use.
    pub(crate) fn procedures(&self) -> ProceduresConfiguration {
        ProceduresConfiguration {
            procedures: self.procedures.clone(),
            scopes: self.scope.clone(),
            table: self.procedure.clone(),
        }
    }

    /// The settings of bans. Proxies and mail servers that name their clients are also allowed: a
    /// ban of one of them would refuse all its clients.
    pub(crate) fn bans(&self) -> BansSettings {
        let mut bans = self.bans.clone();
        let listeners = &self.listeners;
        for binding in listeners.bindings() {
            bans.allowed.extend(binding.proxy_protocol);
        }
        bans.allowed.extend(&listeners.http.trusted_proxies);
        bans.allowed.extend(&listeners.smtp.trusted);
        bans.allowed.extend(&listeners.lmtp.trusted);
        bans
    }

    /// The mail server that takes mail of the server itself. Reads the files that it names.
    pub(crate) fn smarthost(
        &self,
    ) -> Result<Option<Arc<dyn gatepost_sinks::MailTransport>>, SmarthostMistake> {
        let smarthost = Smarthost::new(&self.smarthost)?;
        Ok(smarthost.map(|smarthost| Arc::new(smarthost) as _))
    }

    /// The number of this server, unless the setting is a mistake.
    pub(crate) fn node(&self) -> Option<NodeNumber> {
        NodeNumber::new(self.node)
    }

    /// Mistakes that parsing a value does not reveal, such as settings that contradict each other.
    pub(super) fn mistakes(&self, layers: &Layers) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        if self.node().is_none() {
            let reason = "must be a number from 1 to 255, a different one for each of your servers";
            mistakes.push(Mistake::new(layers.origin("node"), "node", reason));
        }
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log.level) {
            mistakes.push(Mistake::new(
                layers.origin("log.level"),
                "log.level",
                error.to_string(),
            ));
        }
        for binding in self.listeners.bindings() {
            if binding.remote_access != RemoteAccess::Refused {
                continue;
            }
            let listener = binding.listener;
            let key = format!("listeners.{listener}.bind");
            for (bind, _) in binding.addresses().filter(|(bind, _)| !bind.is_local()) {
                let reason = format!(
                    "{bind} can be reached from other machines, and no login is required; \
                     write listeners.{listener}.open_to_world = true if that is intended"
                );
                mistakes.push(Mistake::new(layers.origin(&key), &key, reason));
            }
        }
        mistakes.extend(self.backbone.mistakes().into_iter().map(|(field, reason)| {
            let key = format!("backbone.{field}");
            Mistake::new(layers.origin(&key), key, reason)
        }));
        if let Err(SmarthostMistake { key, reason }) = Smarthost::new(&self.smarthost) {
            mistakes.push(Mistake::new(layers.origin(&key), key, reason));
        }
        let of_digest = self.quarantine_digest.mistakes().into_iter();
        mistakes.extend(of_digest.map(|(field, reason)| {
            let key = format!("quarantine_digest.{field}");
            Mistake::new(layers.origin(&key), key, reason)
        }));
        let has_smarthost = self.smarthost.is_on();
        let of_sinks = gatepost_sinks::mistakes(&self.sink, has_smarthost).into_iter();
        let of_sinks = of_sinks.chain(self.web_push.mistakes());
        mistakes.extend(
            of_sinks.map(|mistake| {
                Mistake::new(layers.origin(&mistake.key), mistake.key, mistake.reason)
            }),
        );
        let of_alarms = gatepost_alarms::mistakes(&self.alarm).into_iter();
        mistakes.extend(
            of_alarms.map(|mistake| {
                Mistake::new(layers.origin(&mistake.key), mistake.key, mistake.reason)
            }),
        );
        mistakes.extend(self.mount_mistakes(layers));
        let of_topics = gatepost_topics::mistakes(&self.topics).into_iter();
        mistakes.extend(
            of_topics.map(|mistake| {
                Mistake::new(layers.origin(&mistake.key), mistake.key, mistake.reason)
            }),
        );
        mistakes
    }

    /// The mistakes of `access.mount`, and of settings that do not fit it.
    fn mount_mistakes(&self, layers: &Layers) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        if let Some(reason) = mount_mistake(&self.access.mount) {
            let key = "access.mount";
            mistakes.push(Mistake::new(layers.origin(key), key, reason));
        }
        let listeners = &self.listeners;
        for (key, anonymous) in [
            ("listeners.mqtt.anonymous", listeners.mqtt.anonymous),
            ("listeners.http.anonymous", listeners.http.anonymous),
        ] {
            if !self.access.mount.is_empty() && anonymous == AnonymousAccess::Yes {
                let reason = "peers without a login would reach the topics of all users, which \
                              access.mount keeps apart; require a login";
                mistakes.push(Mistake::new(layers.origin(key), key, reason));
            }
        }
        if self.broker.sparkplug && !self.access.mount.is_empty() {
            let key = "broker.sparkplug";
            let reason = "birth certificates have fixed topics, which users with a prefix \
                          (access.mount) could neither publish nor read";
            mistakes.push(Mistake::new(layers.origin(key), key, reason));
        }
        mistakes
    }
}
