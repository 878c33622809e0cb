//! How sessions begin, change hands and end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gatepost_message::{MessageId, TopicFilter};
use gatepost_store::{StoreError, Ticket};
use smallvec::SmallVec;

use crate::attachment::{Attachment, Close};
use crate::connect::{ConnectError, ConnectOptions, Connected, Welcome};
use crate::core::Core;
use crate::counters::Counters;
use crate::limits::Limit;
use crate::publisher::Publisher;
use crate::session::{Aftermath, Aliases, Ended, Link, Session, State};
use crate::subscription::Subscription;

impl Core {
    pub(crate) fn connect(
        self: &Arc<Self>,
        options: ConnectOptions,
        greet: impl FnOnce(Welcome<'_>, &mut BytesMut),
    ) -> Result<Connected, ConnectError> {
        let name = options.client_id.as_deref().unwrap_or_default();
        self.check_limits(name, options.user.as_deref())?;
        let (client_id, was_assigned) = match &options.client_id {
            Some(client_id) => (Arc::from(client_id.as_str()), false),
            None => (self.assign_client_id(), true),
        };
        let mut aftermaths = Vec::new();
        let mut sessions = self.sessions.lock();
        let mut kept = sessions.get(&client_id).cloned();
        if let Some(session) = &kept
            && let Some(owner) = &session.lock().user
            && options.user.as_ref() != Some(owner)
        {
            return Err(ConnectError::OtherUser(owner.clone()));
        }
        let is_over = |earlier: &Arc<Session>| {
            // A session without expiry ends with its connection, which ends here.
            options.clean_start || earlier.lock().expiry.is_zero()
        };
        if let Some(earlier) = kept.take_if(|earlier| is_over(earlier)) {
            sessions.remove(&client_id);
            aftermaths.push(self.end_session(&earlier)); // [MQTT-3.1.2-4]
        }
        let session_present = kept.is_some();
        let session = match kept {
            Some(session) => session,
            None if sessions.len() >= self.settings.sessions_max => {
                drop(sessions);
                self.reached(Limit::Sessions, &client_id);
                let _ = self.settle(aftermaths);
                return Err(ConnectError::TooManySessions);
            }
            None => {
                let session = Arc::new(Session::new(client_id.clone(), options.kind.into()));
                sessions.insert(client_id, session.clone());
                session
            }
        };
        let (epoch, kept) = {
            let mut state = session.lock();
            aftermaths.extend(self.take_over(&session, &mut state));
            let attached = self.attach(&session, &mut state, options);
            let welcome = Welcome {
                session_present,
                client_id: &session.client_id,
                was_assigned,
            };
            session.greet(&mut state, |out| greet(welcome, out), self.around());
            attached
        };
        drop(sessions);
        // What is forgotten on demand must not come back after a crash [MQTT-3.1.2-4].
        let settled = self.settle(aftermaths);
        if session_present {
            // Routes know the session by its earlier connection.
            self.index.touch_everything();
        }
        let attachment = Attachment::new(self.clone(), session, epoch);
        let promises: SmallVec<[_; 2]> = kept.into_iter().chain(settled).collect();
        if promises.is_empty() {
            attachment.begin();
        }
        Ok(Connected {
            attachment,
            session_present,
            promises,
        })
    }

    /// The bounds on connections, other than that on sessions.
    fn check_limits(&self, client: &str, user: Option<&str>) -> Result<(), ConnectError> {
        if self.limits.is_out_of_memory() {
            self.reached(Limit::Memory, client);
            return Err(ConnectError::OutOfMemory);
        }
        if let Some(rate) = &self.connect_rate
            && !rate.lock().take(Instant::now())
        {
            self.reached(Limit::ConnectRate, client);
            return Err(ConnectError::TooFast);
        }
        let of_user_max = self.settings.connections_per_user_max;
        if of_user_max > 0
            && let Some(user) = user
            && self.connections_of_user.lock().get(user).copied() >= Some(of_user_max)
        {
            self.reached(Limit::ConnectionsOfUser, client);
            return Err(ConnectError::TooManyOfUser);
        }
        Ok(())
    }

    /// Counts a session's connection in or out, for its user too.
    fn count_connection(&self, user: Option<&Arc<str>>, is_new: bool) {
        let connected = &self.counters.connected;
        if is_new {
            connected.fetch_add(1, Ordering::Relaxed);
            Counters::add(&self.counters.connections, 1);
        } else {
            connected.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(user) = user.filter(|_| self.settings.connections_per_user_max > 0) else {
            return;
        };
        let mut of_user = self.connections_of_user.lock();
        let count = of_user.entry(user.clone()).or_default();
        *count = if is_new {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            of_user.remove(user);
        }
    }

    fn assign_client_id(&self) -> Arc<str> {
        let number = self.assigned.fetch_add(1, Ordering::Relaxed);
        let unique = MessageId::next();
        Arc::from(format!("auto-{unique}-{number}"))
    }

    /// Takes the session from its present connection, if it has one.
    fn take_over(&self, session: &Arc<Session>, state: &mut State) -> Option<Aftermath> {
        state.link.as_ref()?;
        session.epoch.fetch_add(1, Ordering::AcqRel);
        session.end_locked(state, Ended::TakenOver);
        state.was_cut_cleanly = session.detach(state, self.around());
        self.count_connection(state.user.as_ref(), false);
        // The client is back before any delay could pass; only a will without delay is due.
        state.will.as_ref().filter(|will| will.delay.is_zero())?;
        let mut aftermath = Aftermath::default();
        aftermath.will = state.take_will(&mut aftermath.changes);
        Some(aftermath)
    }

    /// Gives the session its new connection: the epoch of that, and what waits for the session's
    /// own row.
    fn attach(
        &self,
        session: &Session,
        state: &mut State,
        options: ConnectOptions,
    ) -> (u64, Option<Result<Ticket, StoreError>>) {
        let in_flight_max = options.receive_max.min(self.settings.inflight_max).max(1);
        let link = Link {
            sink: options.sink,
            format: options.format,
            frame_bytes_max: options
                .frame_bytes_max
                .map_or(usize::MAX, |bytes| bytes as usize),
            in_flight_max: usize::from(in_flight_max),
            aliases: (options.alias_max > 0).then(|| Box::new(Aliases::new(options.alias_max))),
        };
        state.will = options.will.map(Box::new);
        if options.user.is_some() {
            state.user = options.user;
        }
        state.policy = self.policy(state.user.as_deref(), options.slow_subscriber);
        state.expiry = options
            .expiry
            .min(self.settings.session_expiry_max.duration());
        let now = self.now_seconds.load(Ordering::Relaxed);
        session.heard_seconds.store(now, Ordering::Relaxed);
        let silence_max = options
            .silence_max
            .map_or(0, |silence| silence.as_secs() as u32);
        session
            .silence_max_seconds
            .store(silence_max, Ordering::Relaxed);
        session.attach(state, link);
        let is_kept = state.is_kept() || !state.expiry.is_zero();
        let kept = self.store.as_ref().filter(|_| is_kept).and_then(|store| {
            state.begin_keeping(MessageId::next().number());
            state.keep_will();
            session.keep_row(state, store)
        });
        self.count_connection(state.user.as_ref(), true);
        (session.epoch.fetch_add(1, Ordering::AcqRel) + 1, kept)
    }

    /// The connection of this epoch is over.
    pub(crate) fn close(self: &Arc<Self>, session: &Arc<Session>, epoch: u64, close: &Close) {
        let mut aftermath = Aftermath::default();
        {
            let mut sessions = self.sessions.lock();
            let mut state = session.lock();
            if session.epoch.load(Ordering::Acquire) != epoch || state.link.is_none() {
                return; // Another connection has it.
            }
            session.detach(&mut state, self.around());
            self.count_connection(state.user.as_ref(), false);
            if let Some(expiry) = close.expiry {
                state.expiry = expiry.min(self.settings.session_expiry_max.duration());
            }
            if !close.with_will {
                state.take_will(&mut aftermath.changes); // [MQTT-3.14.4-3]
            }
            if state.expiry.is_zero() {
                drop(state);
                sessions.remove(&session.client_id);
                aftermath = self.end_session(session);
            } else {
                self.leave(session, &mut state, &mut aftermath);
                drop(state);
                // Routes may leave it out, or must give it frames of its own.
                if !session.filters.lock().is_empty() {
                    self.index.touch_everything();
                }
            }
        }
        // Nobody waits for a will's durability: its sender is gone.
        let _ = self.settle(vec![aftermath]);
    }

    /// The session goes on without a connection.
    fn leave(&self, session: &Session, state: &mut State, aftermath: &mut Aftermath) {
        let now = Instant::now();
        state.expires = now.checked_add(state.expiry);
        let delay = state.will.as_ref().map(|will| will.delay);
        match delay {
            Some(Duration::ZERO) => aftermath.will = state.take_will(&mut aftermath.changes),
            Some(delay) => state.will_due = Some(now + delay.min(state.expiry)),
            None => {}
        }
        if let Some(store) = &self.store {
            // Nobody is there to be told.
            let _ = session.keep_row(state, store);
        }
    }

    /// Ends a session that the caller has taken out of the table: its subscriptions, its queue,
    /// its connection. What it leaves behind is to be settled when no lock is held.
    pub(crate) fn end_session(&self, session: &Arc<Session>) -> Aftermath {
        let mut aftermath = Aftermath::default();
        {
            let mut state = session.lock();
            state.has_ended = true;
            if state.link.is_some() {
                session.epoch.fetch_add(1, Ordering::AcqRel);
                session.end_locked(&mut state, Ended::TakenOver);
                state.was_cut_cleanly = session.detach(&mut state, self.around());
                self.count_connection(state.user.as_ref(), false);
            }
            // [MQTT-3.1.3-9]: at the latest when the session ends.
            aftermath.will = state.take_will(&mut aftermath.changes);
            let queue = state.acknowledged.take();
            if let Some(kept) = queue.and_then(|mut queue| queue.end()) {
                aftermath.changes.extend(kept.changes);
            }
        }
        let filters = std::mem::take(&mut *session.filters.lock());
        for text in filters {
            self.remove_subscription(session, &text);
        }
        aftermath
    }

    pub(crate) fn remove_subscription(&self, session: &Arc<Session>, text: &TopicFilter) -> bool {
        let Ok(requested) = crate::filter::RequestedFilter::new(text.as_str()) else {
            return false;
        };
        match &requested.share {
            Some(share) => self.index.leave(&share.filter, &share.name, session),
            None => self.index.remove(text, &|subscription| {
                    matches!(subscription, Subscription::Session(member) if member.is(session))
                }),
        }
    }

    /// Publishes wills and submits what goes with them; the ticket, where there is one, is for all
    /// of it. To be called when no lock is held.
    pub(crate) fn settle(
        self: &Arc<Self>,
        aftermaths: Vec<Aftermath>,
    ) -> Option<Result<Ticket, StoreError>> {
        if aftermaths.iter().all(Aftermath::is_nothing) {
            return None;
        }
        let mut publisher = Publisher::new(self.clone(), None);
        for aftermath in aftermaths {
            if let Some(will) = aftermath.will {
                publisher.publish(will);
            }
            publisher.take_along(aftermath.changes);
        }
        publisher.flush()
    }
}
