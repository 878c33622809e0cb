//! A change as rows: what it writes and removes, and how the sums of limited tables follow.

use gatepost_message::{MessageId, Publication};
use rusqlite::{OptionalExtension, params};

use crate::bounds::{self, KeptTotals};
use crate::key_range::end_of_prefix;
use crate::statements::Statements;
use crate::{JournalEntry, QuarantineEntry, StoreChange, StoreError, rows, series, table};

/// Applies a change, and updates the sums of stored data.
pub(crate) fn apply_change(
    statements: &mut Statements<'_>,
    change: &StoreChange,
    kept: &mut KeptTotals,
) -> Result<(), StoreError> {
    match change {
        StoreChange::Retain(publication) => with_publication_row(publication, |values, _| {
            table::RETAINED.set(statements, values)
        }),
        StoreChange::Unretain(topic) => statements.execute(
            "DELETE FROM retained WHERE topic = ?",
            params![topic.as_str()],
        ),
        StoreChange::History(publication) => {
            add_to_history(statements, kept, publication.id, publication)
        }
        StoreChange::HistoryAt(position, publication) => {
            add_to_history(statements, kept, *position, publication)
        }
        StoreChange::RestoreHistory(position, publication) => {
            restore_history(statements, kept, *position, publication)
        }
        StoreChange::Quarantine(entry) => add_to_quarantine(statements, kept, entry),
        StoreChange::Sample(sample) => series::append(statements, sample),
        StoreChange::Unquarantine(id) => {
            let removed = bounds::QUARANTINE.delete(
                statements.connection(),
                "id = ?",
                [rows::id_to_row(*id)],
            )?;
            kept.quarantine.remove(removed);
            Ok(())
        }
        StoreChange::Journal(entry) => add_to_journal(statements, kept, entry),
        StoreChange::ReplaceJournal(entry) => with_journal_row(entry, |values| {
            if !table::JOURNAL.has_key_of(statements, values)? {
                kept.journal.add(0);
            }
            table::JOURNAL.set(statements, values)
        }),
        StoreChange::Session(change) => change.apply(statements),
        StoreChange::AddRecord { space, key, value } => table::RECORD
            .add(statements, params![space, &key[..], &value[..]])
            .map(drop),
        StoreChange::PutRecord { space, key, value } => {
            table::RECORD.set(statements, params![space, &key[..], &value[..]])
        }
        StoreChange::ExpectRecord { space, key, value } => {
            expect_record(statements, space, key, value.as_deref())
        }
        StoreChange::DeleteRecord { space, key } => statements.execute(
            "DELETE FROM record WHERE space = ? AND key = ?",
            params![space, &key[..]],
        ),
        StoreChange::DeleteRecords { space, prefix } => match end_of_prefix(prefix) {
            Some(end) => statements.execute(
                "DELETE FROM record WHERE space = ? AND key >= ? AND key < ?",
                params![space, &prefix[..], end],
            ),
            None => statements.execute(
                "DELETE FROM record WHERE space = ? AND key >= ?",
                params![space, &prefix[..]],
            ),
        },
    }
}

fn expect_record(
    statements: &mut Statements<'_>,
    space: &'static str,
    key: &[u8],
    expected: Option<&[u8]>,
) -> Result<(), StoreError> {
    let value: Option<Vec<u8>> = statements
        .prepare("SELECT value FROM record WHERE space = ? AND key = ?")?
        .query_row(params![space, key], |row| row.get(0))
        .optional()?;
    if value.as_deref() == expected {
        Ok(())
    } else {
        Err(StoreError::Outdated { space })
    }
}

fn add_to_quarantine(
    statements: &mut Statements<'_>,
    kept: &mut KeptTotals,
    entry: &QuarantineEntry,
) -> Result<(), StoreError> {
    add_to_journal(statements, kept, &entry.journal)?;
    let properties = rows::properties_to_text(entry.properties.as_deref());
    let bytes = entry.body.len() + properties.as_ref().map_or(0, String::len);
    let is_new = table::QUARANTINE.add(
        statements,
        params![
            rows::id_to_row(entry.journal.id),
            &entry.body[..],
            properties,
            entry.retain,
        ],
    )?;
    if is_new {
        kept.quarantine.add(bytes as u64);
    }
    Ok(())
}

fn add_to_journal(
    statements: &mut Statements<'_>,
    kept: &mut KeptTotals,
    entry: &JournalEntry,
) -> Result<(), StoreError> {
    if with_journal_row(entry, |values| table::JOURNAL.add(statements, values))? {
        kept.journal.add(0);
    }
    Ok(())
}

/// Adds a publication to the history unless it is there.
fn restore_history(
    statements: &mut Statements<'_>,
    kept: &mut KeptTotals,
    position: MessageId,
    publication: &Publication,
) -> Result<(), StoreError> {
    let has_it = with_publication_row(publication, |values, _| {
        table::HISTORY.has_key_of(statements, values)
    })?;
    if has_it {
        return Ok(());
    }
    add_to_history(statements, kept, position, publication)
}

fn add_to_history(
    statements: &mut Statements<'_>,
    kept: &mut KeptTotals,
    position: MessageId,
    publication: &Publication,
) -> Result<(), StoreError> {
    with_publication_row(publication, |values, bytes| {
        let place = rows::id_to_row(position);
        if table::HISTORY.add_at(statements, place, values)? {
            kept.history.add(bytes as u64);
        }
        Ok(())
    })
}

/// Provides the values of the publication's row, in the order of the columns of the history and of
/// retained messages, and the bytes of its texts.
fn with_publication_row<T>(
    publication: &Publication,
    write: impl FnOnce(&[&dyn rusqlite::ToSql], usize) -> T,
) -> T {
    let properties = rows::properties_to_text(publication.properties.as_deref());
    let bytes = publication.topic.as_str().len()
        + publication.payload.len()
        + properties.as_ref().map_or(0, String::len);
    let values = params![
        rows::id_to_row(publication.id),
        publication.topic.as_str(),
        publication.qos.level(),
        &publication.payload[..],
        properties,
    ];
    write(values, bytes)
}

/// Provides the values of the entry's row, in the order of the table's columns.
fn with_journal_row<T>(
    entry: &JournalEntry,
    write: impl FnOnce(&[&dyn rusqlite::ToSql]) -> T,
) -> T {
    let envelope = &entry.envelope;
    write(params![
        rows::id_to_row(entry.id),
        envelope.listener.name(),
        envelope.peer.to_string(),
        envelope.client,
        envelope.user,
        envelope.sender,
        rows::recipients_to_text(&envelope.recipients),
        entry.topic.as_ref().map(gatepost_message::Topic::as_str),
        entry.subject,
        entry.size as i64,
        entry.action.name(),
        entry.score.map(|score| score.value),
        entry.score.map(|score| score.required),
        rows::hits_to_text(&entry.hits),
        entry.reason,
        entry.procedure,
        entry.duration.as_micros() as i64,
        entry.deliveries as i64,
        rows::topics_to_text(&entry.topics),
    ])
}
