//! The origin of a login, for the limits of failed logins.

use gatepost_message::Peer;

/// Whether a peer is on this machine: it uses a Unix socket or a loopback address. A trusted proxy
/// on this machine reports the address of its client, which is used instead.
pub(crate) fn is_this_machine(peer: Peer) -> bool {
    peer.ip().is_none_or(|ip| ip.to_canonical().is_loopback())
}

/// The source under which failures are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoginSource {
    pub(crate) peer: Peer,
    /// Whether it is a program of this machine that acts for itself. A proxy that does not report
    /// its clients is not.
    pub(crate) is_local: bool,
}

impl LoginSource {
    pub(crate) fn new(peer: Peer, acts_for_others: bool) -> Self {
        Self {
            peer,
            is_local: !acts_for_others && is_this_machine(peer),
        }
    }
}
