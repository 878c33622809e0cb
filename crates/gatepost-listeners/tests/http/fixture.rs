//! The gateway that the HTTP listener uses: a broker and procedures without a disk. A scope judges
//! every publication by the body's first word (`reject`, `defer`, `drop`, `quarantine`, `tag`).

use std::sync::Arc;

use gatepost_broker::{Broker, BrokerSettings};
use gatepost_gateway::Gateway;
use gatepost_listeners::http::HttpServices;
use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::monitoring::StatsKeeper;
use gatepost_message::{Listener, Publication, Topic};
use gatepost_procedures::{Procedures, ProceduresConfiguration, ScopeSettings};
use gatepost_rules::RuleSet;
use gatepost_store::Store;

const PROCEDURES: [(&str, &str); 3] = [
    (
        "firstword.luau",
        r#"
local actions = {reject = true, defer = true, drop = true, quarantine = true, tag = true}
return function(message, arguments)
    local word = message.body:match("^[^ \r\n]*")
    if not actions[word] then return {tags = arguments} end
    return {
        action = word, score = 7.25, required = 5,
        reason = "the first word is " .. word .. " (FIRST_WORD)", tags = arguments,
    }
end"#,
    ),
    (
        "greeting.luau",
        r#"return function(_, arguments) return "Hello " .. arguments.name .. "!" end"#,
    ),
    (
        "teapot.luau",
        r#"
return function()
    return {status = 418, text = "I'm a teapot", headers = {["X-Kind"] = "short and stout"}}
end"#,
    ),
];

pub struct Fixture {
    pub services: HttpServices,
    pub shared_limits: SharedLimits,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with_broker(BrokerSettings::default())
    }

    pub fn with_broker(settings: BrokerSettings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, source) in PROCEDURES {
            std::fs::write(folder.path().join(name), source).expect("written");
        }
        let mut configuration = ProceduresConfiguration::default();
        folder.path().clone_into(&mut configuration.procedures.path);
        configuration.scopes = vec![ScopeSettings {
            path: "/http".to_owned(),
            listeners: vec![Listener::Http],
            run: vec!["/firstword".to_owned()],
            ..ScopeSettings::default()
        }];
        let rules = Arc::new(RuleSet::embedded());
        let (procedures, _) = Procedures::start(configuration, rules).expect("no mistakes");
        let broker = Broker::new(settings);
        let store = Store::in_memory().expect("memory");
        let gateway = Gateway::new(procedures, Arc::new(broker.clone()), store.clone());
        let stats = StatsKeeper::new(gateway.clone(), broker.clone(), store.clone());
        Self {
            shared_limits: SharedLimits::default(),
            services: HttpServices {
                gateway,
                broker,
                store,
                stats: Arc::new(stats),
                operations: None,
                sinks: None,
                alarms: None,
            },
            _folder: folder,
        }
    }

    pub fn publish_text(&self, topic: &str, payload: impl Into<String>) {
        let topic = Topic::new(topic).expect("a topic");
        let publication = Publication::new(topic, payload.into());
        self.services.broker.publish_now(publication);
    }
}
