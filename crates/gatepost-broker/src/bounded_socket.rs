//! A subscriber's socket for unit tests: it takes as many bytes as it has room for.

use std::io::{self, IoSlice};

use parking_lot::Mutex;

use crate::encoder::SubscriberSocket;

pub(crate) struct BoundedSocket {
    pub(crate) room: Mutex<usize>,
    pub(crate) taken: Mutex<Vec<u8>>,
}

impl BoundedSocket {
    pub(crate) fn new(room: usize) -> Self {
        Self {
            room: Mutex::new(room),
            taken: Mutex::default(),
        }
    }
}

impl SubscriberSocket for BoundedSocket {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut room = self.room.lock();
        if *room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut written = 0;
        for slice in slices {
            let count = slice.len().min(*room);
            self.taken.lock().extend_from_slice(&slice[..count]);
            *room -= count;
            written += count;
        }
        Ok(written)
    }
}
