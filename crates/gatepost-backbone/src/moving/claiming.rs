//! A claim: this node gets the session of a client that has connected to it.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use gatepost_broker::{ClaimError, SessionName, SessionUse};
use gatepost_store::StoreChange;

use super::MoveContext;
use super::adopting::AdoptionRequest;
use crate::encoding::EncodingError;
use crate::error::BackboneError;
use crate::moves::ownership::{Ownership, SessionId, SessionSource};
use crate::moves::question::{ReplacedSession, SessionAnswer, SessionQuestion, SessionRequest};
use crate::moves::transfer::{self, Piece, SessionTransfer};
use crate::moves::{CLAIM_TIME_MAX, ClaimRequest};
use crate::shared::Shared;

/// The time for an answer; then the question is repeated.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// The pause before a question is repeated.
const REPEAT_AFTER: Duration = Duration::from_millis(10);
/// The attempts to inform an earlier owner that the content is stored.
const REMOVE_ATTEMPTS: usize = 3;

/// The mark of a claim that is being made, until it is dropped.
pub(super) struct ClaimMark<'a> {
    shared: &'a Shared,
    id: SessionId,
}

impl<'a> ClaimMark<'a> {
    /// Waits until no other claim of the session is being made here.
    pub(super) async fn begin(shared: &'a Shared, id: SessionId) -> Self {
        loop {
            let freed = shared.moves.freed.notified();
            let is_first = {
                let mut claiming = shared.moves.claiming.lock();
                let is_first = !claiming.contains_key(&id);
                if is_first {
                    claiming.insert(id, None);
                }
                is_first
            };
            if is_first {
                return Self { shared, id };
            }
            freed.await;
        }
    }
}

impl Drop for ClaimMark<'_> {
    fn drop(&mut self) {
        self.shared.moves.claiming.lock().remove(&self.id);
        self.shared.moves.freed.notify_waiters();
    }
}

/// The end of a claim that did not succeed.
enum ClaimEnd {
    /// The reason is the client's.
    Refused(ClaimError),
    /// The engine fails.
    Engine(BackboneError),
}

/// No source of a claim has the session.
enum Absence {
    /// No node has it. The revision is that of the key without sources.
    Confirmed(u64),
    /// The key has had other sources by now, with this revision.
    OtherSources(Ownership, u64),
}

impl From<BackboneError> for ClaimEnd {
    fn from(error: BackboneError) -> Self {
        Self::Engine(error)
    }
}

impl From<ClaimError> for ClaimEnd {
    fn from(error: ClaimError) -> Self {
        Self::Refused(error)
    }
}

/// Makes a claim, and answers the client's connection.
pub(super) async fn claim(context: MoveContext, request: ClaimRequest) {
    let ClaimRequest {
        name,
        purpose,
        reply,
    } = request;
    if reply.is_closed() {
        return; // The client has gone.
    }
    let claiming = SessionClaim {
        id: SessionId::of(&name),
        deadline: Instant::now() + CLAIM_TIME_MAX,
        context: &context,
        name,
    };
    // A claim is finished even if the client does not wait: this node may have to deny the session
    // only when nothing of it is being stored.
    let answer = claiming.make(purpose).await.map_err(|end| {
        let client = &*claiming.name.client_id;
        match end {
            ClaimEnd::Refused(error) => error,
            ClaimEnd::Engine(error) => {
                tracing::warn!(target: "backbone", client, %error, "a session was not claimed");
                ClaimError::NotJoined
            }
        }
    });
    let _ = reply.send(answer);
}

struct SessionClaim<'a> {
    context: &'a MoveContext,
    name: SessionName,
    id: SessionId,
    deadline: Instant,
}

impl SessionClaim<'_> {
    async fn make(&self, purpose: SessionUse) -> Result<(), ClaimEnd> {
        let shared = &*self.context.shared;
        let _mark = ClaimMark::begin(shared, self.id).await;
        // An earlier claim of the same client may have brought the session.
        let is_here = purpose != SessionUse::Replace
            && self.context.broker.has_persistent_session(&self.name);
        if is_here {
            return Ok(());
        }
        if purpose == SessionUse::Finish && self.context.directory.find(self.id).await?.is_none() {
            self.context.announce_replaced(&self.name, 0).await?;
            return Ok(());
        }
        let (mut ownership, mut revision) = self.write(purpose).await?;
        shared
            .moves
            .claiming
            .lock()
            .insert(self.id, Some(ownership.claim));
        if purpose == SessionUse::Replace {
            shared.moves.own.lock().insert(self.id, ownership.claim);
            let announced = self.context.announce_replaced(&self.name, ownership.claim);
            announced.await?;
            return Ok(());
        }
        loop {
            if let Some((transfer, of_own)) = self.fetch(&ownership).await? {
                self.adopt(&ownership, transfer, of_own).await?;
                self.clear_sources(ownership, revision);
                return Ok(());
            }
            match self.confirm_absence(&ownership, revision).await? {
                Absence::Confirmed(confirmed) if purpose == SessionUse::Finish => {
                    self.context.directory.remove(self.id, confirmed).await;
                    return Ok(());
                }
                Absence::Confirmed(_) => {
                    shared.moves.own.lock().insert(self.id, ownership.claim);
                    return Ok(());
                }
                Absence::OtherSources(changed, of_change) => {
                    (ownership, revision) = (changed, of_change);
                }
            }
        }
    }

    /// Removes the sources, none of which has the session, from the key, if the key has not changed
    /// since they were asked. A node that adopts the sessions of a source replaces it in the key by
    /// itself, and then the source has nothing more.
    async fn confirm_absence(
        &self,
        ownership: &Ownership,
        revision: u64,
    ) -> Result<Absence, ClaimEnd> {
        if ownership.sources.is_empty() {
            return Ok(Absence::Confirmed(revision));
        }
        let directory = &self.context.directory;
        let mut expected = revision;
        loop {
            let cleared = ownership.without_sources();
            if let Some(confirmed) = directory.update(self.id, &cleared, expected).await? {
                return Ok(Absence::Confirmed(confirmed));
            }
            let found = directory.find_at_leader(self.id).await?;
            let of_this_claim = |found: &Ownership| {
                found.owner == ownership.owner && found.claim == ownership.claim
            };
            let found = found.filter(|(found, _)| of_this_claim(found));
            let (found, of_key) = found.ok_or(ClaimError::Superseded)?;
            if found != *ownership {
                return Ok(Absence::OtherSources(found, of_key));
            }
            if Instant::now() >= self.deadline {
                return Err(ClaimError::NotJoined.into());
            }
            expected = of_key;
            tokio::time::sleep(REPEAT_AFTER).await;
        }
    }

    /// Writes the claim into the directory; returns it with the revision of the key.
    async fn write(&self, purpose: SessionUse) -> Result<(Ownership, u64), ClaimEnd> {
        let directory = &self.context.directory;
        let own = self.context.shared.stream_id();
        let mut is_first = true;
        loop {
            if Instant::now() >= self.deadline {
                return Err(ClaimError::NotJoined.into());
            }
            if !std::mem::take(&mut is_first) {
                // Another node has changed the key, or the replica that was read lags.
                tokio::time::sleep(REPEAT_AFTER).await;
            }
            let Some((found, revision)) = directory.find(self.id).await? else {
                let first = Ownership::first(own);
                match directory.create(self.id, &first).await? {
                    Some(revision) => return Ok((first, revision)),
                    None => continue,
                }
            };
            let takes_content = purpose != SessionUse::Replace;
            let claimed = found.claimed_by(own, takes_content);
            // A claim that cannot succeed now would only add to what a later one has to ask.
            if let Some(absent) = self.absent_owner(&found, &claimed) {
                return Err(ClaimError::OwnerAbsent(absent).into());
            }
            if let Some(revision) = directory.update(self.id, &claimed, revision).await? {
                return Ok((claimed, revision));
            }
        }
    }

    /// An earlier owner that is not running.
    fn absent_owner(&self, found: &Ownership, claimed: &Ownership) -> Option<u8> {
        let shared = &self.context.shared;
        let is_of_earlier_epoch = shared.moves.has_earlier_epoch()
            && found.claim_of(shared.node).is_some()
            && shared.moves.own_claim(self.id).is_none();
        if is_of_earlier_epoch {
            return Some(shared.node);
        }
        let alive = shared.known_nodes.alive();
        let is_absent =
            |node: u8| node != shared.node && !alive.iter().any(|record| record.node == node);
        let mut sources = claimed.sources.iter().map(|source| source.node);
        sources.find(|&node| is_absent(node))
    }

    /// The content of the session, from the first source that has it, and whether that is this
    /// node.
    async fn fetch(
        &self,
        ownership: &Ownership,
    ) -> Result<Option<(SessionTransfer, bool)>, ClaimEnd> {
        for &SessionSource {
            node,
            claim: wanted,
            ..
        } in &ownership.sources
        {
            let mut bytes = BytesMut::new();
            let (mut index, mut count) = (0, 1);
            while index < count {
                let Some(piece) = self.piece(node, wanted, ownership.claim, index).await? else {
                    break;
                };
                bytes.extend_from_slice(&piece.bytes);
                (index, count) = (index + 1, piece.count);
            }
            if index == 0 {
                continue;
            }
            if index < count {
                // A piece is missing: another claim has removed them.
                return Err(ClaimError::Superseded.into());
            }
            let transfer = SessionTransfer::read(bytes.freeze());
            let transfer = transfer.map_err(unreadable)?;
            return Ok(Some((transfer, node == self.context.shared.node)));
        }
        Ok(None)
    }

    /// One piece of the content, `None` if the node does not have it.
    async fn piece(
        &self,
        node: u8,
        wanted: u64,
        claim: u64,
        index: u32,
    ) -> Result<Option<Piece>, ClaimEnd> {
        let shared = &self.context.shared;
        if node == shared.node {
            let stored = transfer::piece(&shared.log.store, self.id, wanted, index);
            let stored = stored.map_err(|error| ClaimError::NotStored(error.to_string()))?;
            return Ok(stored.map(Piece::read).transpose().map_err(unreadable)?);
        }
        let question = SessionQuestion {
            name: self.name.clone(),
            wanted,
            claim,
            request: SessionRequest::Piece(index),
        };
        loop {
            match self.context.ask(node, &question).await {
                Some(SessionAnswer::Absent | SessionAnswer::Removed) => return Ok(None),
                Some(SessionAnswer::Superseded) => return Err(ClaimError::Superseded.into()),
                Some(SessionAnswer::Piece(bytes)) => {
                    return Ok(Some(Piece::read(bytes).map_err(unreadable)?));
                }
                Some(SessionAnswer::Busy | SessionAnswer::Held) | None => {}
            }
            if Instant::now() >= self.deadline {
                return Err(ClaimError::NotReleased(node).into());
            }
            tokio::time::sleep(REPEAT_AFTER).await;
        }
    }

    /// Stores the session here. `of_own` says that its content is in this node's own records.
    async fn adopt(
        &self,
        ownership: &Ownership,
        transfer: SessionTransfer,
        of_own: bool,
    ) -> Result<(), ClaimEnd> {
        let own_records = ownership.sources.iter().filter(|_| of_own);
        let changes: Vec<StoreChange> = own_records
            .filter(|source| source.node == self.context.shared.node)
            .map(|source| transfer::remove(self.id, source.claim))
            .collect();
        let (mut request, stored) =
            AdoptionRequest::new(self.context, transfer, ownership.claim, self.deadline);
        request.changes = changes;
        let lost = || BackboneError::Lost("sessions are not adopted".to_owned());
        let sent = self.context.adoptions.send(request).await;
        sent.map_err(|_| lost())?;
        stored.await.map_err(|_| lost())??;
        Ok(())
    }

    /// Removes the sources from the key, and the content from the sources. The client does not wait
    /// for this. If it fails, it is done when the nodes join the cluster the next time.
    fn clear_sources(&self, ownership: Ownership, revision: u64) {
        if ownership.sources.is_empty() {
            return;
        }
        let (context, name, id) = (self.context.clone(), self.name.clone(), self.id);
        gatepost_tasks::spawn(async move {
            let cleared = ownership.without_sources();
            let updated = context.directory.update(id, &cleared, revision).await;
            if matches!(updated, Ok(Some(_))) {
                context.remove_contents(&name, &ownership).await;
            }
        });
    }
}

fn unreadable(error: EncodingError) -> ClaimError {
    ClaimError::NotStored(format!("its content: {error}"))
}

impl MoveContext {
    /// The answer of a node, `None` if there is none.
    async fn ask(&self, node: u8, question: &SessionQuestion) -> Option<SessionAnswer> {
        let subject = self.shared.subjects.session_questions(node);
        let request = self.client.request(subject, question.bytes());
        let answered = tokio::time::timeout(ANSWERED_WITHIN, request).await;
        let message = answered.ok()?.ok()?;
        match SessionAnswer::read(message.payload) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.shared.note_malformed(error);
                None
            }
        }
    }

    /// Whether the owner of a key answers that it does not have the session.
    pub(super) async fn is_denied(&self, ownership: &Ownership, name: &SessionName) -> bool {
        let alive = self.shared.known_nodes.alive();
        if !alive.iter().any(|record| record.node == ownership.owner) {
            return false;
        }
        let question = SessionQuestion {
            name: name.clone(),
            wanted: ownership.claim,
            claim: ownership.claim,
            request: SessionRequest::Holds,
        };
        let answer = self.ask(ownership.owner, &question).await;
        answer == Some(SessionAnswer::Absent)
    }

    /// Informs the earlier owners of a session that this node has stored its content.
    pub(super) async fn remove_contents(&self, name: &SessionName, ownership: &Ownership) {
        for source in &ownership.sources {
            self.remove_content(source.node, name, source.claim, ownership.claim)
                .await;
        }
    }

    async fn remove_content(&self, node: u8, name: &SessionName, wanted: u64, claim: u64) {
        if node == self.shared.node {
            let removal = transfer::remove(SessionId::of(name), wanted);
            let _ = self.shared.log.store.submit_deferred([removal]);
            return;
        }
        let question = SessionQuestion {
            name: name.clone(),
            wanted,
            claim,
            request: SessionRequest::Remove,
        };
        for _ in 0..REMOVE_ATTEMPTS {
            if self.ask(node, &question).await == Some(SessionAnswer::Removed) {
                return;
            }
        }
    }

    /// Announces that a session of this name begins here. `claim` is 0 if it ends with its
    /// connection.
    pub(super) async fn announce_replaced(
        &self,
        name: &SessionName,
        claim: u64,
    ) -> Result<(), BackboneError> {
        let replaced = ReplacedSession {
            node: self.shared.node,
            claim,
            name: name.clone(),
        };
        let subject = self.shared.subjects.replaced_sessions();
        let published = self.client.publish(subject, replaced.bytes()).await;
        published.map_err(|error| BackboneError::request("publishing", error))
    }
}
