//! The prepared statements of one commit, each looked up once in the connection's cache.
//!
//! A commit runs few different statements, thousands of times: finding each by its text again would
//! cost more than binding its values.

use rusqlite::{CachedStatement, Connection, ToSql};

use crate::StoreError;

pub(crate) struct Statements<'c> {
    connection: &'c Connection,
    /// By the address of the text, so equal texts at different addresses are prepared twice.
    prepared: Vec<(&'static str, CachedStatement<'c>)>,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            prepared: Vec::new(),
        }
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(crate) fn prepare(
        &mut self,
        sql: &'static str,
    ) -> rusqlite::Result<&mut CachedStatement<'c>> {
        let found = self
            .prepared
            .iter()
            .position(|(text, _)| std::ptr::eq(*text, sql));
        let index = if let Some(index) = found {
            index
        } else {
            let statement = self.connection.prepare_cached(sql)?;
            self.prepared.push((sql, statement));
            self.prepared.len() - 1
        };
        Ok(&mut self.prepared[index].1)
    }

    /// Runs a statement for its effect alone.
    pub(crate) fn execute(
        &mut self,
        sql: &'static str,
        values: &[&dyn ToSql],
    ) -> Result<(), StoreError> {
        self.prepare(sql)?.execute(values)?;
        Ok(())
    }
}
