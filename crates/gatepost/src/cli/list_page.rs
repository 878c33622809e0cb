//! The options of commands that list a page of a running server's items.

use clap::Args;
use serde_json::Value;

use crate::client::{AdminError, AdminOptions};

/// A page of a list, as the administration API takes it.
#[derive(Debug, Args)]
pub(super) struct ListPage {
    /// The number
    #[arg(long, value_name = "COUNT", default_value_t = 1_000,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) count: u16,
    /// Skip this many, to page through more
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) skip: usize,
}

impl ListPage {
    /// The parameters of a request.
    pub(super) fn query(&self) -> String {
        format!("count={}&skip={}", self.count, self.skip)
    }
}

/// The options of a command that lists a page.
#[derive(Debug, Args)]
pub(super) struct ListOptions {
    #[command(flatten)]
    pub(super) page: ListPage,
    /// As JSON, one array
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    server: AdminOptions,
}

impl ListOptions {
    /// The server's response to a request of this path.
    pub(super) fn answer(&self, path: &str) -> Result<Value, AdminError> {
        self.request("GET", path)
    }

    /// The same with another method.
    pub(super) fn request(&self, method: &str, path: &str) -> Result<Value, AdminError> {
        self.server.client()?.request_json(method, path, None)
    }
}
