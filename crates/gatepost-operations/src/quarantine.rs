//! The quarantine as a list: searched, sorted and paged through.

use std::cmp::Reverse;

use gatepost_store::JournalEntry;

use crate::error::OperationError;
use crate::operations::{Operations, as_json};
use crate::request::{QuarantineOrder, QuarantinePage, QuarantineSearch, Search};
use crate::search::JournalFilter;

impl Operations {
    /// The journal entries of the messages in quarantine that a search finds, a page of them.
    pub(crate) async fn own_quarantine(
        &self,
        search: QuarantineSearch,
    ) -> Result<QuarantinePage, OperationError> {
        self.blocking(move |operations| {
            let (entries, found, total) = operations.quarantine_entries_of(&search)?;
            Ok(QuarantinePage {
                messages: as_json(entries),
                found,
                total,
                unanswered: None,
            })
        })
        .await
    }

    /// The entries of the page, and the numbers of those that match and of all. Blocks.
    pub(crate) fn quarantine_entries_of(
        &self,
        search: &QuarantineSearch,
    ) -> Result<(Vec<JournalEntry>, usize, usize), OperationError> {
        let total = self.store.quarantine_count()?;
        let filter = JournalFilter::new(&Search {
            text: search.text.clone(),
            ..Search::default()
        });
        if filter.is_empty() && search.order == QuarantineOrder::Newest {
            let entries = self.store.quarantine_page(search.skip, search.count)?;
            return Ok((entries, total, total));
        }
        // The quarantine is bounded by store.quarantine_max and an entry is small.
        let mut entries = self.store.quarantine(usize::MAX)?;
        entries.retain(|entry| filter.is_empty() || filter.matches(entry));
        sort(&mut entries, search.order);
        let found = entries.len();
        let page = entries.into_iter().skip(search.skip).take(search.count);
        Ok((page.collect(), found, total))
    }
}

/// The entries are sorted newest first, and stay so among equals.
fn sort(entries: &mut [JournalEntry], order: QuarantineOrder) {
    match order {
        QuarantineOrder::Newest => {}
        QuarantineOrder::Oldest => entries.reverse(),
        QuarantineOrder::Score => {
            let score = |entry: &JournalEntry| entry.score.map_or(f64::MIN, |score| score.value);
            entries.sort_by(|a, b| score(b).total_cmp(&score(a)));
        }
        QuarantineOrder::Size => entries.sort_by_key(|entry| Reverse(entry.size)),
        QuarantineOrder::Sender => entries.sort_by_cached_key(|entry| {
            let sender = entry.envelope.sender.as_deref().unwrap_or_default();
            sender.to_lowercase()
        }),
    }
}
