//! The resources of a connection with an unfinished packet: a deadline, and the packet's bytes in
//! the process's budget.
//!
//! The time counts only while the connection waits for its client: if a publisher is not read
//! because its subscribers are slow, the delay is not its fault. The timer is created when the
//! connection first waits, so a client that sends faster than it is read needs none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::settings::MqttSettings;
use crate::in_flight::{InFlightLease, InFlightLimitReached};
use crate::minimum_rate::MinimumRate;

/// The packet that is arriving.
#[derive(Default)]
pub(super) struct PartialPacket {
    clock: Option<PacketDeadline>,
    lease: Option<InFlightLease>,
}

struct PacketDeadline {
    rate: MinimumRate,
    timer: Pin<Box<Sleep>>,
}

impl PartialPacket {
    /// Records bytes that have arrived.
    pub(super) const fn add(&mut self, bytes: usize) {
        if let Some(clock) = &mut self.clock {
            clock.rate.add(bytes);
        }
    }

    /// Stops the clock; the next wait starts another.
    pub(super) fn stop_clock(&mut self) {
        self.clock = None;
    }

    /// Reserves this many bytes of the budget.
    pub(super) fn reserve(
        &mut self,
        bytes: usize,
        lease: impl FnOnce() -> InFlightLease,
    ) -> Result<(), InFlightLimitReached> {
        self.lease.get_or_insert_with(lease).reserve(bytes as u64)
    }

    /// Ready when the client has sent too little since the connection began to wait.
    pub(super) fn poll_deadline(
        &mut self,
        context: &mut Context<'_>,
        settings: &MqttSettings,
    ) -> Poll<()> {
        let now = Instant::now();
        let clock = self.clock.get_or_insert_with(|| PacketDeadline {
            rate: MinimumRate::new(
                now,
                settings.packet_timeout.duration(),
                settings.packet_rate_min.bytes(),
            ),
            timer: Box::pin(sleep_until(now)),
        });
        let deadline = clock.rate.deadline(now);
        let mut timer = clock.timer.as_mut();
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.poll(context)
    }
}
