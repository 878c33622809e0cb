//! Shared subscriptions while a partition of the log is read: their division, and publications that
//! this node passes on.
//!
//! A publication that this node has to serve, and has no member for any more, is appended to the
//! log again, for this shared subscription alone. It is kept in the database in the commit of the
//! position after it, like a publication at QoS 2, so a crash does not lose it.
//!
//! If the last member has just moved to another node, that node may not have appended that it has
//! one. Until it has, such publications wait.

use std::sync::Arc;

use async_nats::jetstream::Context;
use gatepost_broker::{Broker, LoggedBatch, LoggedPublication, OutOfMemory, Publisher};
use gatepost_message::{MessageId, TopicFilter};
use gatepost_store::{StoreChange, StoreError, Ticket};

use crate::division_questions::{self, LearnedDivision};
use crate::encoding::BundleOrigin;
use crate::error::BackboneError;
use crate::log::division::{DivisionChange, GroupDivision, rows};
use crate::log::group_entry::GroupEntry;
use crate::log::identity::LogIdentity;
use crate::log::partition_groups::{AppendedMembers, DivisionKnowledge, HeldPublication};
use crate::log::position::LogPosition;
use crate::log::{Partition, kept};
use crate::passing_on::{matches, passed_on};
use crate::shared::Shared;

/// The division of another node, until this node has reached its position.
struct PendingDivision {
    sequence: u64,
    shares: Vec<DivisionChange>,
}

pub(crate) struct GroupReader {
    shared: Arc<Shared>,
    broker: Broker,
    context: Context,
    partition: Arc<Partition>,
    pending: Option<PendingDivision>,
    /// Publications that go to other nodes with the next flush.
    passed_on: Vec<LoggedPublication>,
    /// Publications that wait for another node from the next flush on.
    waiting: Vec<LoggedPublication>,
}

impl GroupReader {
    /// Begins with the division that the database has, which fits the position that it has.
    pub(crate) fn open(
        shared: Arc<Shared>,
        broker: Broker,
        context: Context,
        partition: Arc<Partition>,
    ) -> Self {
        Self {
            shared,
            broker,
            context,
            partition,
            pending: None,
            passed_on: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Reads the division that fits the stored position of this stream.
    pub(crate) fn load(&mut self, stream: u64) -> Result<(), StoreError> {
        let stored = rows::read(&self.shared.log.store, self.partition.number)?;
        let mut known = self.partition.groups.division.write();
        known.division = stored.division;
        known.is_complete = stored.stream == Some(stream);
        drop(known);
        self.pending = None;
        self.passed_on.clear();
        self.waiting.clear();
        self.note_own();
        Ok(())
    }

    /// The changes after entries were missed: the division has gaps. The other nodes have found
    /// this one gone meanwhile.
    pub(crate) fn miss(&self) -> Vec<StoreChange> {
        let number = self.partition.number;
        let mut known = self.partition.groups.division.write();
        known.is_complete = false;
        let gone = GroupEntry::Gone(vec![self.shared.node]);
        let changes = known.division.apply(self.shared.node, &gone);
        let changes = changes.iter().map(|change| rows::put(number, change));
        changes.chain([rows::put_known(number, None)]).collect()
    }

    /// The changes for a stream that has replaced another one.
    pub(crate) fn begin_again(&self) -> Vec<StoreChange> {
        let mut known = self.partition.groups.division.write();
        *known = DivisionKnowledge::default();
        vec![rows::put(self.partition.number, &DivisionChange::Cleared)]
    }

    /// Completes the division at a position, or later while the partition is read. Returns the
    /// changes to store.
    pub(crate) async fn complete(
        &mut self,
        position: LogPosition,
    ) -> Result<Vec<StoreChange>, BackboneError> {
        if self.partition.groups.division.read().is_complete {
            return Ok(Vec::new());
        }
        if position.sequence == 0 {
            // Nothing was appended before.
            return Ok(self.install(position.stream, &[]));
        }
        let client = self.context.client();
        let number = self.partition.number;
        match division_questions::learn(&self.shared, &client, number, position).await? {
            LearnedDivision::At { sequence, shares } if sequence == position.sequence => {
                Ok(self.install(position.stream, &shares))
            }
            LearnedDivision::At { sequence, shares } => {
                self.pending = Some(PendingDivision { sequence, shares });
                Ok(Vec::new())
            }
            LearnedDivision::Nowhere => {
                tracing::info!(target: "backbone", partition = number,
                    "no node knows the members of shared subscriptions; all nodes report theirs");
                let bytes = GroupEntry::Restart.bytes(self.shared.next_origin());
                let subject = self.shared.subjects.partition(number);
                let failed = |error| BackboneError::request("appending to the log", error);
                let sent = self.context.publish(subject, bytes).await;
                sent.map_err(failed)?.await.map_err(failed)?;
                Ok(Vec::new())
            }
        }
    }

    /// Takes over the division of another node, after the entry of this sequence.
    pub(crate) fn reached(&mut self, stream: u64, sequence: u64, publisher: &mut Publisher) {
        let is_due = |pending: &mut PendingDivision| pending.sequence <= sequence;
        if let Some(pending) = self.pending.take_if(is_due) {
            publisher.add_changes(self.install(stream, &pending.shares));
        }
    }

    fn install(&self, stream: u64, shares: &[DivisionChange]) -> Vec<StoreChange> {
        let number = self.partition.number;
        let mut division = GroupDivision::default();
        let mut changes = vec![rows::put(number, &DivisionChange::Cleared)];
        for share in shares {
            division.change(share);
            changes.push(rows::put(number, share));
        }
        changes.push(rows::put_known(number, Some(stream)));
        let mut known = self.partition.groups.division.write();
        known.division = division;
        known.is_complete = true;
        drop(known);
        self.note_own();
        self.shared.groups.renew_all();
        changes
    }

    /// Notes which shares of this node are without members, and compares all with the members.
    fn note_own(&self) {
        let known = self.partition.groups.division.read();
        let own: Vec<_> = known
            .division
            .groups_of(self.shared.node)
            .cloned()
            .collect();
        drop(known);
        self.note_shares(own);
    }

    fn note_shares(&self, own: Vec<TopicFilter>) {
        let groups = &self.shared.groups;
        let mut emptied = self.partition.groups.emptied.lock();
        let without = own.iter().filter(|group| !groups.has_members(group));
        emptied.extend(without.cloned());
        drop(emptied);
        groups.renew(&own);
    }

    /// Applies an entry about shared subscriptions.
    pub(crate) fn apply(
        &mut self,
        stream: u64,
        origin: BundleOrigin,
        entry: &GroupEntry,
        publisher: &mut Publisher,
    ) {
        let (number, node) = (self.partition.number, self.shared.node);
        let mut known = self.partition.groups.division.write();
        let changes = known.division.apply(origin.node, entry);
        publisher.add_changes(changes.iter().map(|change| rows::put(number, change)));
        let is_restart = *entry == GroupEntry::Restart;
        if is_restart {
            known.is_complete = true;
            self.pending = None;
            publisher.add_changes([rows::put_known(number, Some(stream))]);
        }
        drop(known);
        if is_restart {
            self.shared.groups.renew_all();
        }
        let own = changes.into_iter().filter_map(|change| match change {
            DivisionChange::Share {
                group, node: of, ..
            } if of == node => Some(group),
            _ => None,
        });
        let own: Vec<TopicFilter> = own.collect();
        if self.shared.is_of_this_run(origin) {
            let mut appended = self.partition.groups.appended.lock();
            for group in &own {
                let is_read = |one: &AppendedMembers| one.number <= origin.number;
                if appended.get(group).is_some_and(is_read) {
                    appended.remove(group);
                }
            }
        }
        self.note_shares(own);
    }

    /// Passes a publication on to other nodes, for the shared subscriptions whose last member here
    /// has left while this node was to serve it.
    pub(crate) fn pass_on(&mut self, logged: &LoggedPublication, publisher: &mut Publisher) {
        if self.partition.groups.emptied.lock().is_empty() {
            return;
        }
        let publication = &logged.publication;
        let emptied = self.partition.groups.emptied.lock();
        let topic = publication.topic.as_str();
        let matching = emptied.iter().filter(|group| matches(group, topic));
        let matching: Vec<TopicFilter> = matching.cloned().collect();
        drop(emptied);
        for group in matching {
            if self.serves(&group, publication.id, None) && !publisher.has_served(&group) {
                self.pass_on_for(group, logged, publisher);
            }
        }
        let known = self.partition.groups.division.read();
        let groups = &self.shared.groups;
        let mut emptied = self.partition.groups.emptied.lock();
        emptied.retain(|group| {
            let is_in_division = known.division.share(group, self.shared.node).is_some();
            is_in_division && !groups.has_members(group)
        });
    }

    fn serves(&self, group: &TopicFilter, id: MessageId, by: Option<u8>) -> bool {
        let known = self.partition.groups.division.read();
        let own = self.shared.stream_id();
        known.division.is_served_by(own, group, id, by)
    }

    /// Delivers a publication that a node has passed on, if this node is to serve it.
    pub(crate) fn deliver(
        &mut self,
        origin: BundleOrigin,
        logged: &LoggedPublication,
        group: &TopicFilter,
        publisher: &mut Publisher,
    ) -> Result<(), OutOfMemory> {
        if self.serves(group, logged.publication.id, Some(origin.node)) {
            publisher.deliver_to_group_only(group, logged)?;
            if !publisher.has_served(group) {
                self.pass_on_for(group.clone(), logged, publisher);
            }
        }
        Ok(())
    }

    fn pass_on_for(
        &mut self,
        group: TopicFilter,
        logged: &LoggedPublication,
        publisher: &mut Publisher,
    ) {
        let has_other = self.has_other(&group);
        if !has_other && !self.shared.groups.is_moving(&group) {
            return; // There is no member any more.
        }
        let now = self.shared.log.store.time_for_ages();
        let Some(passed_on) = passed_on(logged, group, now) else {
            return;
        };
        publisher.add_changes([kept::put(&passed_on)]);
        if has_other {
            self.passed_on.push(passed_on);
        } else {
            self.waiting.push(passed_on);
        }
    }

    fn has_other(&self, group: &TopicFilter) -> bool {
        let known = self.partition.groups.division.read();
        known.division.has_other(group, self.shared.node)
    }

    /// The deliveries of the batch were submitted: what is passed on is appended after their
    /// commit.
    pub(crate) fn submitted(&mut self, ticket: Option<&Result<Ticket, StoreError>>) {
        if let Some(Err(_)) = ticket {
            // They are read again.
            self.passed_on.clear();
            self.waiting.clear();
            return;
        }
        let stored = ticket.and_then(|ticket| ticket.as_ref().ok());
        let passed_on = std::mem::take(&mut self.passed_on);
        self.append(passed_on, stored);
        for logged in std::mem::take(&mut self.waiting) {
            let identity = LogIdentity::of(&logged);
            let stored = stored.cloned();
            if !self
                .partition
                .groups
                .hold(HeldPublication { logged, stored })
            {
                self.broker.note_backbone_drops(1);
                // If this fails, it is sent after the next start.
                let _ = self
                    .shared
                    .log
                    .store
                    .submit_deferred([kept::remove(&identity)]);
            }
        }
        let groups = &self.shared.groups;
        let waits = |group: &TopicFilter| groups.is_moving(group) && !groups.has_members(group);
        let due = self
            .partition
            .groups
            .take_held(|group| !self.has_other(group) && waits(group));
        for HeldPublication { logged, stored } in due {
            self.append(vec![logged], stored.as_ref());
        }
    }

    fn append(&self, mut publications: Vec<LoggedPublication>, stored: Option<&Ticket>) {
        if publications.is_empty() {
            return;
        }
        // The outcome is found by reading.
        drop(self.shared.log.append(LoggedBatch {
            publications: &mut publications,
            stored: stored.cloned(),
            earlier: None,
            are_kept: true,
        }));
    }
}
