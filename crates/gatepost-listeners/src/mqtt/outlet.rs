//! The broker as the gateway's outlet.

use gatepost_broker::{Broker, Delivery, StepOutcome};
use gatepost_message::{MessageId, Publication};
use gatepost_store::{StoreError, Ticket};

use crate::gateway::{Elsewhere, Handed, Outlet};

impl Outlet for Broker {
    fn publish(&self, publication: Publication) -> Handed {
        handed(self.publish_now(publication))
    }

    fn publish_traced(&self, publication: Publication, message: MessageId) -> Handed {
        handed(Broker::publish_traced(self, publication, message))
    }

    fn note_elsewhere(&self, message: MessageId, elsewhere: Elsewhere<'_>) {
        match elsewhere {
            Elsewhere::Mailbox(user) => {
                Broker::note_elsewhere(self, message, user, "mailbox", StepOutcome::Kept, None);
            }
            Elsewhere::NextHop {
                recipient,
                is_taken,
                said,
            } => {
                let outcome = if is_taken {
                    StepOutcome::HandedOn
                } else {
                    StepOutcome::Refused
                };
                Broker::note_elsewhere(self, message, recipient, "next hop", outcome, Some(said));
            }
        }
    }
}

fn handed((delivery, ticket): (Delivery, Option<Result<Ticket, StoreError>>)) -> Handed {
    Handed {
        deliveries: delivery.receivers as u64,
        ticket,
    }
}
