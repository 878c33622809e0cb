//! A gateway within the test's process, its listeners on free ports.
#![allow(dead_code, unreachable_pub)] // not every test uses everything

use std::net::SocketAddr;
use std::sync::Arc;

use gatepost_gateway::{Gateway, PublicationReceipt, PublicationSink, journal};
use gatepost_listeners::acceptor::Acceptor;
use gatepost_listeners::call::{self, CallContext, CallSettings};
use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::milter::{self, MilterContext, MilterSettings};
use gatepost_listeners::pop3::{self, Pop3Context};
use gatepost_listeners::smtp::{self, LmtpSettings, SmtpContext, SmtpSettings};
use gatepost_listeners::spamd::{self, SpamdContext, SpamdSettings};
use gatepost_listeners::workers::Workers;
use gatepost_message::{Listener, Publication};
use gatepost_procedures::{Procedures, ProceduresConfiguration, ScopeSettings};
use gatepost_rules::RuleSet;
use gatepost_settings::{Bind, ByteSize};
use gatepost_store::Store;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::watch;

/// A procedure whose verdict is in the message's `X-Verdict` field.
const JUDGE: &str = r#"
return function(message)
    local asked = message:header("X-Verdict")
    if asked == nil then return "accept" end
    if asked == "fail" then error("asked to fail") end
    return {action = asked, reason = "asked to " .. asked, tags = {["X-Tag"] = "1"}}
end"#;

/// Records the publications that subscribers would have received.
#[derive(Default)]
pub struct Notes(Mutex<Vec<Publication>>);

impl PublicationSink for Notes {
    fn publish(&self, publication: Publication) -> PublicationReceipt {
        if publication.topic.as_str() != journal::TOPIC {
            self.0.lock().push(publication);
        }
        PublicationReceipt::default()
    }
}

impl Notes {
    pub fn take(&self) -> Vec<Publication> {
        std::mem::take(&mut self.0.lock())
    }
}

pub struct Fixture {
    pub gateway: Gateway,
    pub notes: Arc<Notes>,
    pub store: Store,
    shutdown: watch::Sender<bool>,
    _folder: TempDir,
}

fn free_acceptor() -> (Acceptor, SocketAddr) {
    let free = "127.0.0.1:0".parse().expect("an address");
    let acceptor = Acceptor::bind(&free).expect("a free port");
    let Bind::Tcp(address) = *acceptor.local() else {
        panic!("bound to TCP")
    };
    (acceptor, address)
}

impl Fixture {
    pub fn new() -> Self {
        Self::with_rules(RuleSet::embedded())
    }

    pub fn with_rules(rules: RuleSet) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("judge.luau"), JUDGE).expect("written");
        let mut configuration = ProceduresConfiguration::default();
        folder.path().clone_into(&mut configuration.procedures.path);
        configuration.table.sizecheck.max = ByteSize(1000);
        configuration.scopes.push(ScopeSettings {
            path: "/strict".to_owned(),
            recipients: vec!["*@strict.example".to_owned()],
            run: vec!["/sizecheck".to_owned()],
            ..ScopeSettings::default()
        });
        configuration.scopes.push(ScopeSettings {
            path: "/mail".to_owned(),
            listeners: vec![Listener::Smtp, Listener::Lmtp, Listener::Milter],
            run: vec!["/judge".to_owned()],
            ..ScopeSettings::default()
        });
        let (procedures, _) =
            Procedures::start(configuration, Arc::new(rules)).expect("no mistakes");
        let notes = Arc::new(Notes::default());
        let store = Store::in_memory().expect("memory");
        Self {
            gateway: Gateway::new(procedures, notes.clone(), store.clone()),
            notes,
            store,
            shutdown: watch::channel(false).0,
            _folder: folder,
        }
    }

    /// Starts a listener with the settings given as TOML; returns its address.
    pub fn listen(&self, listener: &str, settings: &str) -> SocketAddr {
        let free = "127.0.0.1:0".parse().expect("an address");
        let Bind::Tcp(address) = self.listen_on(&free, listener, settings) else {
            panic!("bound to TCP")
        };
        address
    }

    /// Starts a listener on a socket.
    pub fn listen_on(&self, bind: &Bind, listener: &str, settings: &str) -> Bind {
        let acceptor = Acceptor::bind(bind).expect("a free socket");
        let address = acceptor.local().clone();
        let (gateway, workers) = (self.gateway.clone(), Workers::current());
        let shutdown = self.shutdown.subscribe();
        match listener {
            "smtp" => {
                let settings: SmtpSettings = toml::from_str(settings).expect("settings");
                let context =
                    SmtpContext::new(settings, "gate.example", gateway, &SharedLimits::default());
                tokio::spawn(smtp::serve(acceptor, Arc::new(context), workers, shutdown));
            }
            "lmtp" => {
                let settings: LmtpSettings = toml::from_str(settings).expect("settings");
                let context =
                    SmtpContext::lmtp(settings, "gate.example", gateway, &SharedLimits::default());
                tokio::spawn(smtp::serve(acceptor, Arc::new(context), workers, shutdown));
            }
            "milter" => {
                let settings: MilterSettings = toml::from_str(settings).expect("settings");
                let context =
                    MilterContext::new(settings, "gate.example", gateway, &SharedLimits::default());
                tokio::spawn(milter::serve(
                    acceptor,
                    Arc::new(context),
                    workers,
                    shutdown,
                ));
            }
            "spamd" => {
                let settings: SpamdSettings = toml::from_str(settings).expect("settings");
                let context = SpamdContext::new(settings, gateway, &SharedLimits::default());
                tokio::spawn(spamd::serve(acceptor, Arc::new(context), workers, shutdown));
            }
            "call" => {
                let settings: CallSettings = toml::from_str(settings).expect("settings");
                let context = CallContext::new(settings, gateway, &SharedLimits::default());
                tokio::spawn(call::serve(acceptor, Arc::new(context), workers, shutdown));
            }
            other => panic!("no listener is named {other}"),
        }
        address
    }

    /// Serves SMTP with a context of the test's own; returns its address.
    pub fn serve_smtp(&self, context: SmtpContext) -> SocketAddr {
        let (acceptor, address) = free_acceptor();
        let (workers, shutdown) = (Workers::current(), self.shutdown.subscribe());
        tokio::spawn(smtp::serve(acceptor, Arc::new(context), workers, shutdown));
        address
    }

    /// The same for POP3.
    pub fn serve_pop3(&self, context: Pop3Context) -> SocketAddr {
        let (acceptor, address) = free_acceptor();
        let (workers, shutdown) = (Workers::current(), self.shutdown.subscribe());
        tokio::spawn(pop3::serve(acceptor, Arc::new(context), workers, shutdown));
        address
    }

    /// Asks the listeners to end, and waits until every connection has.
    pub async fn shut_down(&self) {
        self.shutdown.send_replace(true);
        self.shutdown.closed().await;
    }
}
