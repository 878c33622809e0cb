//! The shared records for a command, which is no node.

use std::sync::Arc;

use async_nats::jetstream;
use gatepost_store::{SharedSet, Store};
use tokio::task::JoinHandle;

use super::bucket::RecordBucket;
use super::following::RecordsFollower;
use super::view::{RecordsView, SharedView};
use crate::connection::Connection;
use crate::error::BackboneError;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// A connection to the shared records, until it is dropped.
pub struct RecordsClient {
    following: JoinHandle<BackboneError>,
}

impl RecordsClient {
    /// Reads the records of the cluster into a store, which is empty and in memory. The cluster
    /// decides about changes of them.
    pub async fn open(
        settings: &BackboneSettings,
        store: &Store,
        sets: &'static [&'static SharedSet],
    ) -> Result<Self, BackboneError> {
        let connection = Connection::open(settings, "gatepost user", 0).await?;
        let context = jetstream::new(connection.client);
        let subjects = Subjects::new(&settings.cluster);
        let bucket = RecordBucket::open(&context, &subjects, settings).await?;
        let view = Arc::new(RecordsView::new(sets, false));
        let follower = RecordsFollower::begin(&view, store, bucket).await?;
        store.share_records(Arc::new(SharedView(view)));
        Ok(Self {
            following: tokio::spawn(follower.run()),
        })
    }
}

impl Drop for RecordsClient {
    fn drop(&mut self) {
        self.following.abort();
    }
}
