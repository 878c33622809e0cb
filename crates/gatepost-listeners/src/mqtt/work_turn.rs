//! The bound of a connection's work in one turn.

/// Topics that are compared with the filters of SUBSCRIBE packets in one turn, of less than 10 ms.
const TOPICS_IN_TURN: usize = 20_000;

/// The work of a connection since other connections of its worker had their turn. A read may
/// contain thousands of small packets that each search all retained messages.
#[derive(Default)]
pub(super) struct WorkTurn {
    topics_compared: usize,
}

impl WorkTurn {
    pub(super) const fn note_compared(&mut self, topics: usize) {
        self.topics_compared += topics;
    }

    /// Whether the next packet must wait for the next turn.
    pub(super) const fn is_over(&self) -> bool {
        self.topics_compared > TOPICS_IN_TURN
    }
}
