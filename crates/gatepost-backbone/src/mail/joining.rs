//! The begin of a connection: the mail in the database and that of the stream become the same.
//!
//! - Mail of this server's own, such as that of a server before it joined the cluster, is added to
//!   the stream.
//! - Mail that the stream had and no longer has was removed, however long ago: it is removed here.
//! - Mail that the stream has and the database does not is read afterwards.
//!
//! If the stream is another one, or ends before the position of the database, it was lost or
//! restored. Then all mail is this server's own: some may return that was removed, and none is
//! lost.

use std::collections::HashSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use gatepost_store::{Store, StoreChange};

use super::piece::MailName;
use super::position::{self, MailPosition, remove_mail, stored_mail};
use super::stream::{MailRefusal, MailStream, StreamContents};
use crate::error::BackboneError;

/// Mail that is checked, and removals that are stored, at the same time.
const AT_ONCE: usize = 32;

/// The mail of a database beside that of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct MailDifferences {
    /// Mail that is to be added to the stream.
    own: Vec<MailName>,
    /// Mail that the stream no longer has.
    gone: Vec<MailName>,
}

/// Makes the mail of both the same; returns the position from which on the stream is to be read.
pub(super) async fn join(
    store: &Store,
    mail_stream: &MailStream,
) -> Result<MailPosition, BackboneError> {
    store.flush().await;
    let contents = mail_stream.contents().await?;
    let known = blocking(store, MailPosition::stored).await?;
    let known = known.filter(|known| known.stream == mail_stream.number());
    let is_continued = known.is_some_and(|known| known.sequence <= contents.last_sequence);
    let position = known.filter(|_| is_continued).unwrap_or(MailPosition {
        stream: mail_stream.number(),
        sequence: 0,
    });
    let was_restored = known.is_some() && !is_continued;
    let stored = blocking(store, stored_mail).await?;
    let differences = compare(
        stored,
        &contents,
        |name| mail_stream.subject(name),
        (!was_restored).then_some(mail_stream.number()),
    );
    remove_gone(store, mail_stream, differences.gone).await?;
    if !was_restored {
        remove_left(store, mail_stream).await?;
    }
    add_own(store, mail_stream, differences.own).await?;
    Ok(position)
}

/// `number` is that of the stream, if what the database notes about it is still true.
fn compare(
    stored: Vec<(MailName, Option<u64>)>,
    contents: &StreamContents,
    subject_of: impl Fn(&MailName) -> String,
    number: Option<u64>,
) -> MailDifferences {
    let subjects: &HashSet<String> = &contents.subjects;
    let mut differences = MailDifferences::default();
    for (name, of_stream) in stored {
        if subjects.contains(&subject_of(&name)) {
            continue;
        }
        if of_stream.is_some() && of_stream == number {
            differences.gone.push(name);
        } else {
            differences.own.push(name);
        }
    }
    differences
}

async fn remove_gone(
    store: &Store,
    mail_stream: &MailStream,
    names: Vec<MailName>,
) -> Result<(), BackboneError> {
    // The list of the stream's subjects comes in pages, between which it may change.
    let checked = stream::iter(names).map(|name| async move {
        let found = mail_stream.find(&name).await?;
        Ok::<_, BackboneError>(found.is_none().then_some(name))
    });
    let checked = checked.buffer_unordered(AT_ONCE);
    let gone: Vec<Option<MailName>> = checked.try_collect().await?;
    let gone: Vec<MailName> = gone.into_iter().flatten().collect();
    for names in gone.chunks(AT_ONCE) {
        let changes = names.iter().flat_map(|name| remove_mail(name, b""));
        let changes: Vec<StoreChange> = changes.collect();
        let removed = async { store.submit(changes)?.committed().await };
        removed.await.map_err(not_stored)?;
    }
    Ok(())
}

/// Removes from the stream what has left the quarantine of the database by age or by a limit.
pub(super) async fn remove_left(
    store: &Store,
    mail_stream: &MailStream,
) -> Result<(), BackboneError> {
    let number = mail_stream.number();
    let left = blocking(store, move |store| position::left_quarantine(store, number)).await?;
    let removals = stream::iter(left).map(|name| async move {
        let removed = mail_stream.remove(&name, b"").await;
        removed
            .map(drop)
            .map_err(|error| BackboneError::request("removing old mail", error))
    });
    removals.buffer_unordered(AT_ONCE).try_collect().await
}

async fn add_own(
    store: &Store,
    mail_stream: &MailStream,
    names: Vec<MailName>,
) -> Result<(), BackboneError> {
    let (mut added, mut left) = (0_u64, 0_u64);
    for name in names {
        let of_name = name.clone();
        let content = move |store: &Store| position::content(store, &of_name);
        let Some(mail) = blocking(store, content).await? else {
            continue;
        };
        match mail_stream.add(&name, &mail, 0).await {
            Ok(()) => added += 1,
            // Another node was first, or a client has removed it.
            Err(MailRefusal::Changed) => {}
            Err(MailRefusal::Failed(cause)) => {
                return Err(BackboneError::request("adding mail to the cluster", cause));
            }
            Err(refusal) => {
                left += 1;
                tracing::error!(target: "backbone", place = ?name.place, message = %name.id,
                    error = %refusal, "this server has a mail that the cluster does not store");
            }
        }
    }
    if added > 0 {
        tracing::info!(target: "backbone", added,
            "mail of this server was added to the mailboxes of the cluster");
    }
    if left > 0 {
        tracing::error!(target: "backbone", left,
            "mail stays on this server only; adding it is tried again at the next connection");
    }
    Ok(())
}

/// Reads from the database, on a thread of the blocking pool: there may be much mail, and the
/// thread of the backbone forwards messages.
async fn blocking<T: Send + 'static>(
    store: &Store,
    read: impl FnOnce(&Store) -> Result<T, gatepost_store::StoreError> + Send + 'static,
) -> Result<T, BackboneError> {
    let store = store.clone();
    let reading = tokio::task::spawn_blocking(move || read(&store)).await;
    let read = reading.map_err(|error| BackboneError::request("reading the database", error))?;
    read.map_err(|error| BackboneError::request("reading the database", error))
}

fn not_stored(error: gatepost_store::StoreError) -> BackboneError {
    BackboneError::request("storing mail", error)
}

#[cfg(test)]
mod tests {
    use gatepost_message::MessageId;

    use super::*;

    #[test]
    fn mail_is_removed_only_if_this_stream_had_it() {
        let name = |id| MailName::in_mailbox("anna", MessageId::from_number(id));
        let subject = |name: &MailName| name.id.number().to_string();
        let contents = StreamContents {
            subjects: ["1", "2"].map(str::to_owned).into(),
            last_sequence: 9,
        };
        let stored = vec![
            (name(1), Some(7)),
            (name(2), None),
            (name(3), Some(7)),
            (name(4), Some(6)),
            (name(5), None),
        ];
        let found = compare(stored.clone(), &contents, subject, Some(7));
        assert_eq!(found.gone, [name(3)]);
        assert_eq!(found.own, [name(4), name(5)]);
        let restored = compare(stored, &contents, subject, None);
        assert_eq!(restored.gone, []);
        assert_eq!(restored.own, [name(3), name(4), name(5)]);
    }
}
