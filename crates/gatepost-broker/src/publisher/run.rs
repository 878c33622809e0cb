//! Runs, and the delivery of publications to sessions.

use std::sync::Arc;

use bytes::BytesMut;
use gatepost_message::Publication;

use super::Publisher;
use crate::encoder::FrameOptions;
use crate::filter::DeliveryOptions;
use crate::prefetch::prefetched;
use crate::route::Route;
use crate::session::{DeliveryOutcome, Session, SharedFrames, expiry_left};
use crate::subscription::DeliveryTarget;

/// A run is written out at this length, so that buffers stay in the cache.
const RUN_BYTES_MAX: usize = 64 * 1024;

/// Consecutive QoS 0 publications on one topic.
pub(super) struct PublicationRun {
    route: Arc<Route>,
    /// A buffer for each of the route's classes.
    buffers: Vec<BytesMut>,
    messages: u32,
    /// Whether the run contains the server's own figures, which do not count as deliveries.
    is_own_figures: bool,
}

impl Publisher {
    pub(super) fn add_to_run(&mut self, route: &Arc<Route>, publication: &Publication) {
        if let Some(run) = &self.run {
            let is_full = run
                .buffers
                .iter()
                .any(|buffer| buffer.len() >= RUN_BYTES_MAX);
            if !Arc::ptr_eq(&run.route, route) || is_full {
                self.close_run(is_full);
            }
        }
        let run = self.run.get_or_insert_with(|| PublicationRun {
            route: route.clone(),
            buffers: vec![BytesMut::new(); route.classes.len()],
            messages: 0,
            is_own_figures: publication.topic.is_internal(),
        });
        run.messages += 1;
        let options = FrameOptions {
            expiry_seconds: expiry_left(publication, &self.shared.clock),
            ..FrameOptions::default()
        };
        for (class, buffer) in route.classes.iter().zip(&mut run.buffers) {
            // A publication that no frame can hold is sent to no subscriber.
            let _ = class.format.encode(publication, &options, buffer);
        }
    }

    /// Passes the run's buffers to all its subscribers; writes to their sockets if `send`.
    pub(super) fn close_run(&mut self, send: bool) {
        let Some(run) = self.run.take() else {
            return;
        };
        let shared = self.shared.clone();
        let (mut deliveries, mut bytes_out) = (0, 0);
        for (class, buffer) in run.route.classes.iter().zip(run.buffers) {
            let frames = SharedFrames {
                bytes: buffer.freeze(),
                messages: run.messages,
                format: class.format.clone(),
            };
            let mut delivered = 0;
            for target in prefetched(&class.targets, |target| &*target.session) {
                if target.options.of_own().is_none() && self.is_own(&target.session) {
                    continue; // [MQTT-3.8.3-3]
                }
                let outcome =
                    target
                        .session
                        .deliver_batch(&frames, send, shared.view(), &mut delivered);
                self.record_outcome(&target.session, outcome);
            }
            let runs = delivered / u64::from(run.messages.max(1));
            deliveries += delivered;
            bytes_out += runs * frames.bytes.len() as u64;
        }
        if !run.is_own_figures {
            self.traffic.deliveries += deliveries;
            self.traffic.bytes_out += bytes_out;
        }
    }

    fn is_own(&self, session: &Arc<Session>) -> bool {
        self.session
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, session))
    }

    pub(super) fn deliver_to(
        &mut self,
        targets: &[DeliveryTarget],
        publication: &Arc<Publication>,
    ) {
        for target in prefetched(targets, |target| &*target.session) {
            let is_own = self.is_own(&target.session);
            self.deliver_to_target(target, is_own, publication);
        }
    }

    /// Delivers to a session by its plain subscriptions; `is_own` if it has published this itself.
    pub(super) fn deliver_to_target(
        &mut self,
        target: &DeliveryTarget,
        is_own: bool,
        publication: &Arc<Publication>,
    ) {
        let options = if is_own {
            target.options.of_own() // [MQTT-3.8.3-3]
        } else {
            Some(&target.options)
        };
        if let Some(options) = options {
            self.deliver_to_member(&target.session, options, publication);
        }
    }

    /// Delivers to a session; returns `false` if it has ended.
    pub(super) fn deliver_to_member(
        &mut self,
        session: &Arc<Session>,
        options: &DeliveryOptions,
        publication: &Arc<Publication>,
    ) -> bool {
        let retain = publication.retain && options.retain_as_published;
        let batch = &mut self.batch;
        let outcome = session.deliver(publication, options, retain, batch, self.shared.view());
        self.record_outcome(session, outcome);
        outcome != DeliveryOutcome::Ended
    }

    fn record_outcome(&mut self, session: &Arc<Session>, outcome: DeliveryOutcome) {
        match outcome {
            DeliveryOutcome::None | DeliveryOutcome::Ended => {}
            DeliveryOutcome::Dirty => self.pending_flush.sessions.push(session.clone()),
            DeliveryOutcome::Held => self.pending_flush.held.push(session.clone()),
            DeliveryOutcome::Refused => self.refused_by.push(session.ordinal),
            DeliveryOutcome::Filling | DeliveryOutcome::Congested => {
                // The session may be held as well; continuing it flushes too.
                self.pending_flush.held.push(session.clone());
                if outcome == DeliveryOutcome::Filling && self.must_continue_reading(session) {
                    return;
                }
                if !self
                    .congested
                    .iter()
                    .any(|known| Arc::ptr_eq(known, session))
                {
                    self.congested.push(session.clone());
                }
            }
        }
    }

    /// Whether this publisher is a subscriber with unacknowledged deliveries: if it were not read
    /// until others acknowledge, each could wait for the other.
    fn must_continue_reading(&self, congested: &Arc<Session>) -> bool {
        self.is_own(congested) || self.session.as_ref().is_some_and(|own| own.has_in_flight())
    }
}
