//! The broker as the gateway's sink.

use gatepost_broker::{Broker, PublishOutcome, PublishRefusal, RuleViolation, StepOutcome};
use gatepost_message::{MessageId, Publication};
use gatepost_store::{StoreError, Ticket};

use crate::publication_sink::{OtherDestination, PublicationReceipt, PublicationSink};

impl PublicationSink for Broker {
    fn publish(&self, publication: Publication) -> PublicationReceipt {
        handover(self.publish_now(publication))
    }

    fn publish_traced(&self, publication: Publication, message: MessageId) -> PublicationReceipt {
        handover(Broker::publish_traced(self, publication, message))
    }

    fn rule_violation(&self, publication: &Publication) -> Option<RuleViolation> {
        Broker::rule_violation(self, publication)
    }

    fn trace_delivery(&self, message: MessageId, destination: OtherDestination<'_>) {
        match destination {
            OtherDestination::Mailbox(user) => {
                self.note_elsewhere(message, user, "mailbox", StepOutcome::Kept, None);
            }
            OtherDestination::NextHop {
                recipient,
                is_accepted,
                reply,
            } => {
                let outcome = if is_accepted {
                    StepOutcome::HandedOn
                } else {
                    StepOutcome::Refused
                };
                self.note_elsewhere(message, recipient, "next hop", outcome, Some(reply));
            }
        }
    }
}

fn handover(
    (delivery, ticket): (PublishOutcome, Option<Result<Ticket, StoreError>>),
) -> PublicationReceipt {
    PublicationReceipt {
        deliveries: delivery.receivers as u64,
        ticket,
        // A publication that could not be retained has still reached its subscribers.
        refused: delivery
            .refused
            .filter(|refusal| *refusal != PublishRefusal::Retain),
    }
}
