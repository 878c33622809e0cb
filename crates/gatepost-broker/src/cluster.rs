//! The calls of a server that is one of several (`nodes.rs`), and those by which a session moves
//! from one to another (`moved_session.rs`).

use std::time::Duration;

use gatepost_message::TopicFilter;
use gatepost_store::{StoreChange, StoreError, Ticket};

use crate::broker::Broker;
use crate::counters::DropCause;
use crate::filter::RequestedFilter;
use crate::missed::MissedPublications;
use crate::moved_session::{AdoptedWill, MovedSession, SessionAdoption, SessionRelease};
use crate::nodes::{ClaimWait, GroupMembers, NodesStatus, SessionUse};
use crate::publisher::Publisher;
use crate::session_name::SessionName;

impl Broker {
    /// A publisher for the publications of other nodes, which are not forwarded to other nodes.
    pub fn node_publisher(&self) -> Publisher {
        Publisher::of_other_nodes(self.0.shared.clone())
    }

    /// Counts publications that were lost on the way to other nodes or from them.
    pub fn note_backbone_drops(&self, count: u64) {
        let counters = &self.0.shared.counters;
        counters.drop_messages(DropCause::Backbone, count);
    }

    /// The state of the connection to other nodes; `None` for a server on its own.
    pub fn nodes_status(&self) -> Option<NodesStatus> {
        self.0.shared.nodes.as_ref().map(|nodes| nodes.status())
    }

    /// The members of a shared subscription, `$share/NAME/FILTER`, on this server.
    pub fn group_members(&self, group: &TopicFilter) -> GroupMembers {
        let requested = RequestedFilter::new(group.as_str()).ok();
        let share = requested.and_then(|requested| requested.share);
        let group = share.and_then(|share| self.0.shared.index.group(&share));
        group.map_or_else(GroupMembers::default, |group| {
            GroupMembers::from(&**group.members.read())
        })
    }

    /// Whether this server is one of several.
    pub fn is_node(&self) -> bool {
        self.0.shared.nodes.is_some()
    }

    /// The wait until the session of a client that connects is here, if another node may have it;
    /// `None` where there is nothing to wait for. To be awaited before [`Broker::connect`].
    pub fn claim_session(
        &self,
        name: &SessionName,
        clean_start: bool,
        expiry: Duration,
    ) -> Option<ClaimWait> {
        let nodes = self.0.shared.nodes.as_ref()?;
        let purpose = match (clean_start, expiry.is_zero()) {
            (true, true) => {
                nodes.replace_elsewhere(name);
                return None;
            }
            (true, false) => SessionUse::Replace,
            (false, _) if self.0.sessions.has_persistent(name) => return None,
            (false, true) => SessionUse::Finish,
            (false, false) => SessionUse::Continue,
        };
        Some(nodes.claim(name, purpose))
    }

    /// Whether a persistent session of this name is here.
    pub fn has_persistent_session(&self, name: &SessionName) -> bool {
        self.0.sessions.has_persistent(name)
    }

    /// The names of all persistent sessions that may move to other nodes. Walks over all sessions.
    pub fn persistent_sessions(&self) -> Vec<SessionName> {
        let all = self.0.sessions.all();
        let persistent = all.iter().filter(|session| session.lock().is_persistent());
        let names = persistent.map(|session| session.name());
        names.filter(|name| !name.is_in_process()).collect()
    }

    /// Ends a session that moves to another server, together with its connection. `keep` returns
    /// the changes by which its content is stored, in the same commit as its end.
    pub fn release_session(
        &self,
        name: &SessionName,
        keep: impl FnOnce(&MovedSession) -> Vec<StoreChange>,
    ) -> SessionRelease {
        self.0.sessions.release(name, keep)
    }

    /// The publications that a session of another server has missed, none at first.
    pub fn missed_by(&self, session: &MovedSession) -> MissedPublications {
        self.0.sessions.missed_by(session)
    }

    /// Adds a session of another server, which then waits for its client. If the commit fails,
    /// [`Broker::disown_session`] must be called.
    pub fn adopt_session(&self, adoption: SessionAdoption) -> Result<Ticket, StoreError> {
        self.0.sessions.adopt(adoption)
    }

    /// Adds wills of sessions that were over when their node failed. They are published once the
    /// ticket is committed; if the commit fails, they must be added again. Those that came before
    /// in this run are passed over. `None` if too many wills wait: they are accepted later.
    pub fn adopt_wills(&self, wills: Vec<AdoptedWill>) -> Result<Option<Ticket>, StoreError> {
        self.0.sessions.adopt_wills(wills)
    }

    /// Ends the session of this name, persistent or not, with its connection: its client has begun
    /// another one on another server.
    pub fn replace_session(&self, name: &SessionName) {
        self.0.sessions.replace(name);
    }

    /// Gives up the wills of persistent sessions that are due and not committed, or wait: another
    /// node has adopted the sessions as they were before, and publishes these wills.
    pub fn abandon_wills(&self) {
        self.0.sessions.abandon_wills();
    }

    /// Ends a session that exists elsewhere, without its will.
    pub fn disown_session(&self, name: &SessionName) {
        self.0.sessions.disown(name);
    }
}
