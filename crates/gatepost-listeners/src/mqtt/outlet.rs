//! The broker as the gateway's outlet.

use gatepost_broker::Broker;
use gatepost_message::Publication;

use crate::gateway::{Handed, Outlet};

impl Outlet for Broker {
    fn publish(&self, publication: Publication) -> Handed {
        let (delivery, ticket) = self.publish_now(publication);
        Handed {
            deliveries: delivery.receivers as u64,
            ticket,
        }
    }
}
