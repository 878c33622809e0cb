//! The end of a connection that this side closes first.
//!
//! A socket that is closed with unread bytes resets the connection, and the peer may lose the last
//! bytes written. The same happens if the peer sends more after the close. Therefore the server
//! continues to read for a moment after it has closed its writing side.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use crate::stream::Stream;

/// The time for which a connection that the server closes is still read, so that its client
/// receives the last bytes instead of a reset.
pub(crate) const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Shuts the writing side down, and reads until the peer has ended too, for a moment.
pub(crate) async fn linger(stream: &Stream) {
    let until_end = async {
        // An error here means that the client is gone.
        let _ = poll_fn(|context| stream.poll_finish(context)).await;
        let mut left = LINGER_BYTES_MAX;
        let mut buffer = [0; 1024];
        while left > 0 {
            if poll_fn(|context| stream.poll_read_ready(context))
                .await
                .is_err()
            {
                return;
            }
            match stream.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => left = left.saturating_sub(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, until_end).await;
}
