//! Recipients of a message that have one verdict.

use gatepost_gateway::JudgedMail;
use gatepost_message::Topic;

use super::recipients::Destination;
use super::transaction::Recipient;

/// One part of a message: the mail with its verdict, and the recipients that it is for.
pub(super) type Part = (JudgedMail, RecipientGroup);

/// Recipients whose mail has one verdict.
#[derive(Debug, Default)]
pub(super) struct RecipientGroup {
    /// The index of each of these recipients among the accepted ones, and whether the next hop has
    /// accepted it.
    pub(super) places: Vec<(usize, bool)>,
    pub(super) recipients: Vec<String>,
    pub(super) topics: Vec<Topic>,
    /// Users.
    pub(super) mailboxes: Vec<String>,
    /// Addresses at the next hop.
    pub(super) forwards: Vec<String>,
    members: Vec<(usize, Recipient)>,
}

impl RecipientGroup {
    /// Each recipient comes with its place among the accepted ones.
    pub(super) fn of(recipients: Vec<(usize, Recipient)>) -> Self {
        let mut group = Self::default();
        for (place, recipient) in &recipients {
            group.add(*place, &recipient.mailbox.address, &recipient.destination);
        }
        group.members = recipients;
        group
    }

    /// The recipients, each with its place among the accepted ones.
    pub(super) fn into_members(self) -> Vec<(usize, Recipient)> {
        self.members
    }

    fn add(&mut self, place: usize, address: &str, destination: &Destination) {
        let forwarded = matches!(destination, Destination::Forward(_));
        self.places.push((place, forwarded));
        match destination {
            Destination::Topic(topic) if !self.topics.contains(topic) => {
                self.topics.push(topic.clone());
            }
            Destination::Mailbox(user) if !self.mailboxes.contains(user) => {
                self.mailboxes.push(user.clone());
            }
            Destination::Topic(_) | Destination::Mailbox(_) => {}
            Destination::Forward(_) => self.forwards.push(address.to_owned()),
        }
        self.recipients.push(address.to_owned());
    }
}
