//! The conditions that each session must satisfy, as its client knows it.
//!
//! A change that the server has not acknowledged may or may not survive a crash, so the model
//! states for a session, and for each of its subscriptions, that it exists, that it does not, or
//! that both are permitted.

use std::collections::BTreeMap;
use std::time::Duration;

use gatepost_message::Qos;

/// The inaccuracy of rows with whole seconds, and of a housekeeper that runs once a second.
const SLACK: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existence {
    No,
    Yes,
    Unknown,
}

/// The clock as the model sees it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    /// Time that has passed.
    pub(crate) elapsed: Duration,
    /// By how much the time of day was set ahead in all: a server that is started believes that it
    /// was off for so long.
    pub(crate) ahead: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Session {
    state: Existence,
    /// Rises whenever an earlier session may have ended.
    pub(crate) incarnation: u64,
    pub(crate) is_connected: bool,
    expiry: Duration,
    /// The time since which the client is not connected.
    disconnected_at: Moment,
    /// Whether a crash, or a connection that was not acknowledged, may have prolonged its life
    /// since.
    may_last_longer: bool,
    /// Filters that are subscribed to, and the level; `None` where that is not certain.
    pub(crate) subscriptions: BTreeMap<usize, Option<Qos>>,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            state: Existence::No,
            incarnation: 0,
            is_connected: false,
            expiry: Duration::ZERO,
            disconnected_at: Moment::default(),
            may_last_longer: false,
            subscriptions: BTreeMap::new(),
        }
    }
}

impl Session {
    pub(crate) fn existence(&self, now: Moment) -> Existence {
        if self.state != Existence::Yes || self.is_connected {
            return self.state;
        }
        let passed = now.elapsed.saturating_sub(self.disconnected_at.elapsed);
        let aged = passed + now.ahead.saturating_sub(self.disconnected_at.ahead);
        if aged + SLACK < self.expiry {
            Existence::Yes
        } else if passed >= self.expiry + SLACK && !self.may_last_longer {
            Existence::No
        } else {
            Existence::Unknown
        }
    }

    /// Whether the subscription certainly exists, at a QoS that loses nothing.
    pub(crate) fn subscribes(&self, filter: usize, now: Moment) -> bool {
        let level = self.subscriptions.get(&filter).copied().flatten();
        level > Some(Qos::AtMostOnce) && self.existence(now) == Existence::Yes
    }

    pub(crate) fn outlives_connection(&self) -> bool {
        !self.expiry.is_zero()
    }

    /// Whether a will of this delay is published while the client is not connected; `None` where
    /// that is not certain.
    pub(crate) fn is_will_due(&self, delay: Duration, now: Moment) -> Option<bool> {
        let passed = now.elapsed.saturating_sub(self.disconnected_at.elapsed);
        let aged = passed + now.ahead.saturating_sub(self.disconnected_at.ahead);
        let due = delay.min(self.expiry);
        if passed >= due + SLACK && !self.may_last_longer {
            return Some(true);
        }
        (aged + SLACK < due).then_some(false)
    }

    /// The client has sent CONNECT; returns the earlier session.
    pub(crate) fn connect_sent(
        &mut self,
        is_clean: bool,
        expiry: Duration,
        now: Moment,
    ) -> Existence {
        let before = self.existence(now);
        let ends_with_connection = self.is_connected && self.expiry.is_zero();
        if is_clean || ends_with_connection {
            self.may_have_ended();
        } else {
            // It may have begun, and is not acknowledged.
            self.state = match before {
                Existence::No => Existence::Unknown,
                before => before,
            };
            // Until CONNACK either expiry may be the one that is stored.
            self.expiry = self.expiry.min(expiry);
            if self.expiry.is_zero() && before == Existence::Yes {
                self.state = Existence::Unknown;
            }
        }
        self.leave(now);
        // For as long as this connection lasts, whether its CONNACK is read or not.
        self.may_last_longer = true;
        if ends_with_connection && before == Existence::Yes {
            Existence::No
        } else {
            before
        }
    }

    /// The client has read CONNACK.
    pub(crate) fn connected(
        &mut self,
        is_present: bool,
        before: Existence,
        is_clean: bool,
        expiry: Duration,
    ) -> Result<(), String> {
        match (is_present, before) {
            (true, _) if is_clean => return Err("a clean start found a session".to_owned()),
            (true, Existence::No) => return Err("a session that had ended is back".to_owned()),
            (false, Existence::Yes) if !is_clean => return Err("a session is lost".to_owned()),
            _ => {}
        }
        if !is_present {
            self.incarnation += 1;
            self.subscriptions.clear();
        } else if before == Existence::Unknown {
            self.may_have_ended();
        }
        self.state = Existence::Yes;
        self.is_connected = true;
        self.may_last_longer = false;
        self.expiry = expiry;
        Ok(())
    }

    /// The server has noticed the end of the connection.
    pub(crate) fn disconnected(&mut self, now: Moment) {
        if self.is_connected && self.expiry.is_zero() {
            self.may_have_ended();
        }
        self.leave(now);
    }

    pub(crate) fn crashed(&mut self, now: Moment) {
        self.disconnected(now);
        self.may_last_longer = true;
    }

    fn leave(&mut self, now: Moment) {
        if self.is_connected {
            self.is_connected = false;
            self.disconnected_at = now;
        }
    }

    fn may_have_ended(&mut self) {
        self.state = Existence::Unknown;
        self.incarnation += 1;
        for subscription in self.subscriptions.values_mut() {
            *subscription = None;
        }
    }

    /// Holds the filters that the session has against the model.
    pub(crate) fn check_filters(&self, filters: &[usize]) -> Result<(), String> {
        for (filter, level) in &self.subscriptions {
            if level.is_some() && !filters.contains(filter) {
                return Err(format!("the subscription to filter {filter} is lost"));
            }
        }
        match filters
            .iter()
            .find(|filter| !self.subscriptions.contains_key(filter))
        {
            Some(filter) => Err(format!("the subscription to filter {filter} is back")),
            None => Ok(()),
        }
    }
}
