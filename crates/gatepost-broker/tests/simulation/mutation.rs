//! Faults that are built into the server, to prove that the simulation detects them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    None,
    /// Success is reported before the commit.
    AcknowledgeEarly,
    /// A publication is passed to the broker twice.
    PublishTwice,
    /// A change is not written.
    Forget(Forgotten),
}

/// Rows, and their removals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgotten {
    /// PUBREC was sent for this packet identifier.
    Received,
    /// The client released it.
    Unreceived,
    /// The client sent PUBREC for this delivery.
    Released,
    Delivery,
    DeliveryEnd,
    Message,
    Subscription,
    Unsubscription,
    Session,
    SessionEnd,
    Retained,
}

pub(crate) const ALL: [Mutation; 13] = [
    Mutation::AcknowledgeEarly,
    Mutation::PublishTwice,
    Mutation::Forget(Forgotten::Received),
    Mutation::Forget(Forgotten::Unreceived),
    Mutation::Forget(Forgotten::Released),
    Mutation::Forget(Forgotten::Delivery),
    Mutation::Forget(Forgotten::DeliveryEnd),
    Mutation::Forget(Forgotten::Message),
    Mutation::Forget(Forgotten::Subscription),
    Mutation::Forget(Forgotten::Unsubscription),
    Mutation::Forget(Forgotten::Session),
    Mutation::Forget(Forgotten::SessionEnd),
    Mutation::Forget(Forgotten::Retained),
];
