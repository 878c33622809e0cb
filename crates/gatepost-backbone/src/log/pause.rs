//! Pauses in the delivery of the log, for a session that joins at a known position.

use tokio::sync::watch;

/// The pauses that are in force.
pub(crate) struct DeliveryPause(watch::Sender<usize>);

/// One pause, until it is dropped.
pub(crate) struct PauseGuard<'a>(&'a DeliveryPause);

impl DeliveryPause {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Begins a pause. A reader that is delivering pauses when it waits next.
    pub(crate) fn begin(&self) -> PauseGuard<'_> {
        self.0.send_modify(|count| *count += 1);
        PauseGuard(self)
    }

    /// Waits until no pause is in force.
    pub(crate) async fn is_over(&self) {
        if *self.0.borrow() > 0 {
            // The sender lives as long as this value.
            let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
        }
    }
}

impl Drop for PauseGuard<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn delivery_continues_after_the_last_pause() {
        let pause = DeliveryPause::new();
        pause.is_over().await;
        let (first, second) = (pause.begin(), pause.begin());
        let mut wait = Box::pin(pause.is_over());
        assert_eq!((&mut wait).now_or_never(), None);
        drop(first);
        assert_eq!((&mut wait).now_or_never(), None);
        drop(second);
        wait.await;
    }
}
