//! The users that the command lists or changes: those in the database or, where the config has a
//! cluster, those of the cluster.
//!
//! A change of a cluster's users does not touch this machine's database, so it does not matter
//! whether its server is running: the servers of the cluster follow.

use gatepost_backbone::RecordsClient;
use gatepost_store::Store;
use gatepost_users::Users;
use tokio::runtime::{Builder, Runtime};

use super::UserError;
use crate::cli::database;
use crate::config::Config;
use crate::serve::backbone::SHARED_RECORDS;
use crate::system_user::SystemUser;

/// Users, and what they need while a command works with them.
pub(super) struct OpenedUsers {
    pub(super) users: Users,
    pub(super) runtime: Runtime,
    store: Store,
    cluster: Option<RecordsClient>,
}

impl OpenedUsers {
    /// Whether they are those of a cluster.
    pub(super) const fn are_shared(&self) -> bool {
        self.cluster.is_some()
    }

    /// Stores what was changed.
    pub(super) fn close(self) -> Users {
        // Its tasks end with the runtime.
        drop(self.cluster);
        drop(self.runtime);
        self.store.close();
        self.users
    }
}

/// Reports on standard error what is changed, if `changes`, before the command asks for more.
pub(super) fn announce(config: &Config, changes: bool) -> Result<(), UserError> {
    let backbone = &config.backbone;
    if !backbone.is_set() {
        return Ok(database::announce(config, changes)?);
    }
    if changes {
        let servers = backbone.nats.join(", ");
        eprintln!(
            "cluster: {} at {servers}; all its servers follow",
            backbone.cluster
        );
    }
    Ok(())
}

/// Opens the users. If they are not changed, those in the database do while the cluster cannot be
/// reached.
pub(super) fn open(config: &Config, changes: bool) -> Result<OpenedUsers, UserError> {
    SystemUser::become_owner(&config.data).map_err(UserError::Owner)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(UserError::Threads)?;
    if config.backbone.is_set() {
        let store = Store::in_memory()?;
        let client = RecordsClient::open(&config.backbone, &store, SHARED_RECORDS);
        match runtime.block_on(client) {
            Ok(client) => {
                return Ok(OpenedUsers {
                    users: Users::open(store.clone(), &config.access)?,
                    runtime,
                    store,
                    cluster: Some(client),
                });
            }
            Err(error) if changes => return Err(UserError::Cluster(error)),
            Err(error) => eprintln!(
                "gatepost: the cluster cannot be reached: {error}\n\
                 These are the users that this server knows:"
            ),
        }
        // Not made if it is missing: there is nothing to list.
        if !config.data.exists() {
            return Err(UserError::NoData(config.data.clone()));
        }
    }
    let store = Store::open_secondary(&config.data, &config.store)?;
    if changes && gatepost_backbone::follows_cluster(&store)? {
        return Err(UserError::OfCluster);
    }
    Ok(OpenedUsers {
        users: Users::open(store.clone(), &config.access)?,
        runtime,
        store,
        cluster: None,
    })
}
