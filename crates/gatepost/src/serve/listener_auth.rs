//! The authentication of each listener, and the clients that need no login.

use gatepost_message::Listener;
use gatepost_users::{AnonymousAccess, ListenerAuth, Users};

use crate::config::{Config, ListenerBinding};

/// Makes the authentication of each listener.
pub(super) struct ListenerAuths<'a> {
    config: &'a Config,
    users: &'a Users,
}

impl<'a> ListenerAuths<'a> {
    pub(super) const fn new(config: &'a Config, users: &'a Users) -> Self {
        Self { config, users }
    }

    /// For MQTT over TCP and TLS.
    pub(super) fn mqtt(&self) -> ListenerAuth {
        let anonymous = self.config.listeners.mqtt.anonymous;
        self.auth(Listener::Mqtt, anonymous, Listener::Mqtt)
    }

    /// For MQTT over WebSocket: the HTTP listener's addresses, with MQTT's setting.
    pub(super) fn mqtt_over_websocket(&self) -> ListenerAuth {
        let anonymous = self.config.listeners.mqtt.anonymous;
        self.auth(Listener::Mqtt, anonymous, Listener::Http)
    }

    /// For HTTP.
    pub(super) fn http(&self) -> ListenerAuth {
        let anonymous = self.config.listeners.http.anonymous;
        self.auth(Listener::Http, anonymous, Listener::Http)
    }

    /// For SMTP, where a login is the client's choice unless the listener requires one.
    pub(super) fn smtp(&self) -> ListenerAuth {
        self.users_only(Listener::Smtp)
    }

    /// For mail without a login: every peer is accepted as `anonymous`, and its rules decide which
    /// topics the mail may be published to.
    pub(super) fn mail(&self, listener: Listener) -> ListenerAuth {
        let bindings = self.config.listeners.bindings();
        let local = bindings
            .iter()
            .all(|at| at.listener != listener || at.is_local());
        ListenerAuth::new(self.users.clone(), listener, AnonymousAccess::Yes, local)
    }

    /// For POP3, where only users have a mailbox.
    pub(super) fn pop3(&self) -> ListenerAuth {
        self.users_only(Listener::Pop3)
    }

    fn users_only(&self, listener: Listener) -> ListenerAuth {
        ListenerAuth::new(self.users.clone(), listener, AnonymousAccess::No, false)
    }

    /// The authentication of `listener` at the addresses of `bound`. If other machines can reach
    /// these and no user exists, every peer is refused; the log names the remedy.
    fn auth(
        &self,
        listener: Listener,
        anonymous: AnonymousAccess,
        bound: Listener,
    ) -> ListenerAuth {
        let bindings = self.config.listeners.bindings();
        let is_local = |one: &ListenerBinding<'_>| one.listener != bound || one.is_local();
        let local = bindings.iter().all(is_local);
        let admits_anonymous = match anonymous {
            AnonymousAccess::Auto => local,
            AnonymousAccess::Yes => true,
            AnonymousAccess::No => false,
        };
        if !admits_anonymous && !self.users.any() {
            tracing::warn!(
                target: "users", %listener,
                "a login is required and there is no user: `gatepost user add NAME` adds one"
            );
        }
        ListenerAuth::new(self.users.clone(), listener, anonymous, local)
    }
}
