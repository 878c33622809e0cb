//! The broker as the gateway's outlet.

use gatepost_broker::Broker;
use gatepost_listeners::gateway::{Handed, Outlet};
use gatepost_message::Publication;

/// Hands what passed to the broker.
pub(super) struct BrokerOutlet(pub(super) Broker);

impl Outlet for BrokerOutlet {
    fn publish(&self, publication: Publication) -> Handed {
        let (delivery, ticket) = self.0.publish_now(publication);
        Handed {
            deliveries: delivery.receivers as u64,
            ticket,
        }
    }
}
