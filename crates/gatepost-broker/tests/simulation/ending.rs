//! The beginning and the end of a schedule: at the end the disk works and there is memory, every
//! client reconnects and reads all its messages, and then every promised message must have arrived.
//! After a last crash, the clients publish once more under each packet identifier, which must be
//! free if it was released.

use std::time::Duration;

use gatepost_message::Qos;

use crate::client::PACKET_IDS;
use crate::fixture::{Checked, Fixture};
use crate::schedule::{Connect, Memory, Step};
use crate::topics::{WILL, WILL_FILTER};

/// Rounds in which clients answer each other before they fall silent.
const ROUNDS_MAX: usize = 1_000;
const EVERYTHING: u64 = u64::MAX;

impl Fixture {
    /// The first client becomes the witness of wills.
    pub(crate) fn begin(&mut self) -> Checked {
        self.take(Step::Connect(lasting(0)))?;
        self.commit(EVERYTHING);
        self.read(0, EVERYTHING, true)?;
        self.take(Step::Subscribe {
            client: 0,
            filter: WILL_FILTER,
            qos: Qos::ExactlyOnce,
        })?;
        self.commit(EVERYTHING);
        self.read(0, EVERYTHING, true)
    }

    pub(crate) fn finish(&mut self) -> Checked {
        self.server.set_memory(Memory::Plenty);
        self.commit(EVERYTHING);
        for _ in 0..self.clients.len() {
            // The housekeeper loads a queue from the disk.
            self.wait(Duration::from_millis(10));
        }
        // Wills become due, and changes that a failing disk refused are stored again.
        for _ in 0..3 {
            self.wait(Duration::from_secs(2));
            self.commit(EVERYTHING);
        }
        for client in 0..self.clients.len() {
            self.take(Step::Connect(lasting(client)))?;
        }
        self.come_to_rest()?;
        // A client that knew no reason was cut off by a refusal, and has sent again.
        self.check_retained()?;
        self.take(Step::Crash)?;
        self.come_to_rest()?;
        for client in 0..self.clients.len() {
            for topic in 0..usize::from(PACKET_IDS) {
                self.publish(client, topic % WILL, Qos::ExactlyOnce, false);
            }
            self.finish_batch(client);
        }
        self.come_to_rest()?;
        self.check_retained()?;
        self.model.check_received()?;
        self.model.check_wills()
    }

    /// Until nothing is left to read, to answer and to commit.
    fn come_to_rest(&mut self) -> Checked {
        for _ in 0..ROUNDS_MAX {
            let mut is_at_rest = !self.server.has_uncommitted();
            self.commit(EVERYTHING);
            for client in 0..self.clients.len() {
                let connection = self.clients[client].connection.as_ref();
                if connection.is_none() {
                    self.take(Step::Connect(lasting(client)))?;
                    is_at_rest = false;
                }
                is_at_rest &= !self.has_input(client);
                self.read(client, EVERYTHING, true)?;
            }
            if is_at_rest {
                return Ok(());
            }
        }
        Err("the clients and the server never come to rest".to_owned())
    }

    fn has_input(&self, client: usize) -> bool {
        let client = &self.clients[client];
        let has_frames =
            |connection: &crate::connection::Connection| connection.socket.has_frames();
        !client.owed.is_empty() || client.connection.as_ref().is_some_and(has_frames)
    }
}

/// A connection that resumes whatever there is.
fn lasting(client: usize) -> Connect {
    Connect {
        client,
        clean: false,
        expiry: Duration::from_secs(1_000_000_000),
        receive_max: 100,
        will: None,
        knows_reasons: true,
    }
}
