//! The options of commands that list a part of a running server's items.

use clap::Args;

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
