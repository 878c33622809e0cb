//! The broker as the gateway's outlet.

use gatepost_broker::{Broker, Delivery};
use gatepost_message::{MessageId, Publication};
use gatepost_store::{StoreError, Ticket};

use crate::gateway::{Handed, Outlet};

impl Outlet for Broker {
    fn publish(&self, publication: Publication) -> Handed {
        handed(self.publish_now(publication))
    }

    fn publish_traced(&self, publication: Publication, message: MessageId) -> Handed {
        handed(Broker::publish_traced(self, publication, message))
    }
}

fn handed((delivery, ticket): (Delivery, Option<Result<Ticket, StoreError>>)) -> Handed {
    Handed {
        deliveries: delivery.receivers as u64,
        ticket,
    }
}
