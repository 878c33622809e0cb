//! Each listener's door: who is let in there without a login.

use gatepost_message::Listener;
use gatepost_users::{AnonymousAccess, Door, Users};

use crate::config::{Config, Place};

/// Makes doors.
pub(super) struct Doors<'a> {
    config: &'a Config,
    users: &'a Users,
}

impl<'a> Doors<'a> {
    pub(super) const fn new(config: &'a Config, users: &'a Users) -> Self {
        Self { config, users }
    }

    /// For MQTT over TCP and TLS.
    pub(super) fn mqtt(&self) -> Door {
        let anonymous = self.config.listeners.mqtt.anonymous;
        self.door(Listener::Mqtt, anonymous, Listener::Mqtt)
    }

    /// For MQTT in WebSocket: the HTTP listener's addresses, with MQTT's setting.
    pub(super) fn mqtt_in_websocket(&self) -> Door {
        let anonymous = self.config.listeners.mqtt.anonymous;
        self.door(Listener::Mqtt, anonymous, Listener::Http)
    }

    /// For HTTP.
    pub(super) fn http(&self) -> Door {
        let anonymous = self.config.listeners.http.anonymous;
        self.door(Listener::Http, anonymous, Listener::Http)
    }

    /// For SMTP, where a login is the client's choice unless the listener asks for one.
    pub(super) fn smtp(&self) -> Door {
        let nobody_else = AnonymousAccess::No;
        Door::new(self.users.clone(), Listener::Smtp, nobody_else, false)
    }

    /// For POP3, where nobody has a mailbox without being a user.
    pub(super) fn pop3(&self) -> Door {
        let nobody_else = AnonymousAccess::No;
        Door::new(self.users.clone(), Listener::Pop3, nobody_else, false)
    }

    /// A door at the addresses of `place`. Where others can reach them and nobody could log in,
    /// all that come are refused; the log says how to mend that.
    fn door(&self, listener: Listener, anonymous: AnonymousAccess, place: Listener) -> Door {
        let places = self.config.listeners.places();
        let is_local = |at: &Place<'_>| at.listener != place || at.is_local();
        let local = self.config.open_to_world || places.iter().all(is_local);
        let lets_strangers_in = match anonymous {
            AnonymousAccess::Auto => local,
            AnonymousAccess::Yes => true,
            AnonymousAccess::No => false,
        };
        if !lets_strangers_in && !self.users.any() {
            tracing::warn!(
                target: "users", %listener,
                "a login is asked for and nobody has one: `gatepost user add NAME` makes one"
            );
        }
        let door = Door::new(self.users.clone(), listener, anonymous, local);
        if self.config.open_to_world {
            door.open_to_world()
        } else {
            door
        }
    }
}
