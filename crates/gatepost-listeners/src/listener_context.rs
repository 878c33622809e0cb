//! The part that the contexts of all listeners share: the limits on their clients.

use gatepost_bans::Bans;

use crate::admission::Admission;
use crate::in_flight::InFlight;

/// Limits that all listeners of a process share. The default bans no client.
#[derive(Debug, Clone, Default)]
pub struct SharedLimits {
    /// Counts offences of clients, and exempts the networks that are never banned.
    pub bans: Option<Bans>,
    /// The budget of unfinished messages.
    pub in_flight: InFlight,
}

/// The limits on the clients of one listener.
#[derive(Debug)]
pub struct ClientLimits {
    /// The connections that are open.
    pub admission: Admission,
    /// The budget of unfinished messages.
    pub(crate) in_flight: InFlight,
}

impl ClientLimits {
    /// Limits of 0 do not limit.
    pub(crate) fn new(
        connections_max: u32,
        connections_per_address_max: u32,
        shared: &SharedLimits,
    ) -> Self {
        let admission = Admission::new(connections_max, connections_per_address_max);
        Self {
            admission: match &shared.bans {
                Some(bans) => admission.with_bans(bans.clone()),
                None => admission,
            },
            in_flight: shared.in_flight.clone(),
        }
    }
}

/// The context of a listener: what all its connections share.
pub trait ListenerContext {
    /// The limits on its clients.
    fn limits(&self) -> &ClientLimits;
}
