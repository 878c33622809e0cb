//! The assignment of the rows of each page to their tables.
//!
//! The trees are walked from the roots that the schema names, and every page that is reached
//! belongs to its root's table. If a page in the middle of a tree is damaged, the pages below it
//! are not reached: they are found by reading every page of the file, and their rows are recognised
//! by their checksum. Pages on the free list contain removed rows and are skipped.

use std::collections::{HashMap, HashSet};
use std::io;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::Recovery;
use super::image::{DatabaseImage, u32_at};
use super::page::{DatabasePage, PageKind, RawRow};
use crate::StoreError;
use crate::checksum::checksum_of;
use crate::table::{self, StoreTable};

/// A table of the new database, with the layout of its rows in a file.
struct TableLayout {
    table: &'static StoreTable,
    /// Columns in the order of the file, without the checksum, which is the last.
    columns: Vec<String>,
    is_real: Vec<bool>,
    /// The column that is the row id, and is NULL in the record.
    rowid: Option<usize>,
    has_rowid: bool,
    insert: String,
}

pub(super) struct Salvage<'a> {
    image: &'a DatabaseImage,
    new: &'a Connection,
    layouts: Vec<TableLayout>,
    /// The layout of each page that a tree reaches; `None` for trees of no interest.
    owners: HashMap<u32, Option<usize>>,
    free: HashSet<u32>,
    recovery: Recovery,
}

/// Copies every row that can be read into `new`.
pub(super) fn salvage(image: &DatabaseImage, new: &Connection) -> Result<Recovery, SalvageFailure> {
    let layouts = table::ALL
        .iter()
        .map(|table| TableLayout::of(table, new))
        .collect::<rusqlite::Result<_>>()?;
    let mut salvage = Salvage {
        image,
        new,
        layouts,
        owners: HashMap::new(),
        free: free_pages(image)?,
        recovery: Recovery::default(),
    };
    salvage.walk_trees()?;
    let transaction = new.unchecked_transaction()?;
    for number in 1..=image.pages() {
        salvage.copy_page(number)?;
    }
    transaction.commit()?;
    Ok(salvage.recovery)
}

/// The reasons for which a recovery ended: neither is damage.
pub(super) enum SalvageFailure {
    Read(io::Error),
    Write(StoreError),
}

impl From<io::Error> for SalvageFailure {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<rusqlite::Error> for SalvageFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Write(error.into())
    }
}

impl Salvage<'_> {
    fn walk_trees(&mut self) -> Result<(), SalvageFailure> {
        let mut roots = Vec::new();
        self.walk(1, None, &mut |row| {
            if let [
                Value::Text(kind),
                Value::Text(name),
                _,
                Value::Integer(root),
                ..,
            ] = &row.values[..]
            {
                roots.push((kind == "table", name.clone(), *root));
            }
        })?;
        for (is_table, name, root) in roots {
            let found = |layout: &TableLayout| is_table && layout.table.name == name;
            let owner = self.layouts.iter().position(found);
            if let Ok(root) = u32::try_from(root) {
                self.walk(root, owner, &mut |_| {})?;
            }
        }
        Ok(())
    }

    /// Records the owner of all pages of a tree.
    fn walk(
        &mut self,
        root: u32,
        owner: Option<usize>,
        visit: &mut dyn FnMut(&RawRow),
    ) -> Result<(), SalvageFailure> {
        let mut waiting = vec![root];
        while let Some(number) = waiting.pop() {
            if self.owners.contains_key(&number) {
                continue;
            }
            if number == 0 || number > self.image.pages() {
                self.lose_page(owner);
                continue;
            }
            self.owners.insert(number, owner);
            let Some(page) = DatabasePage::read(self.image, number)? else {
                self.lose_page(owner);
                continue;
            };
            page.rows.iter().for_each(&mut *visit);
            waiting.extend(page.children);
        }
        Ok(())
    }

    fn lose_page(&mut self, owner: Option<usize>) {
        self.recovery.pages_damaged += 1;
        self.mark_incomplete(owner);
    }

    fn mark_incomplete(&mut self, owner: Option<usize>) {
        let Some(owner) = owner else {
            return;
        };
        let name = self.layouts[owner].table.name;
        if !self.recovery.tables_incomplete.contains(&name) {
            self.recovery.tables_incomplete.push(name);
        }
    }

    fn copy_page(&mut self, number: u32) -> Result<(), SalvageFailure> {
        let owner = self.owners.get(&number).copied();
        if owner == Some(None) || self.free.contains(&number) {
            return Ok(());
        }
        let Some(page) = DatabasePage::read(self.image, number)? else {
            return Ok(());
        };
        if let Some(Some(owner)) = owner {
            let damaged = page.damaged;
            self.recovery.rows_damaged += damaged;
            if damaged > 0 {
                self.mark_incomplete(Some(owner));
            }
            for row in page.rows {
                self.copy_row(owner, row)?;
            }
            return Ok(());
        }
        // The page is below a damaged one. A page that only resembles a page of a tree has no row
        // with a correct checksum.
        for row in page.rows {
            let fits = |layout: &TableLayout| layout.recognises(page.kind, &row);
            if let Some(owner) = self.layouts.iter().position(fits) {
                self.copy_row(owner, row)?;
            }
        }
        Ok(())
    }

    fn copy_row(&mut self, owner: usize, row: RawRow) -> Result<(), SalvageFailure> {
        let layout = &self.layouts[owner];
        let Some(values) = layout.values(&row).filter(|values| layout.is_whole(values)) else {
            self.recovery.rows_damaged += 1;
            self.mark_incomplete(Some(owner));
            return Ok(());
        };
        let mut insert = self.new.prepare_cached(&layout.insert)?;
        let copied = insert.execute(rusqlite::params_from_iter(values))?;
        self.recovery.rows_recovered += copied as u64;
        Ok(())
    }
}

impl TableLayout {
    fn of(table: &'static StoreTable, new: &Connection) -> rusqlite::Result<Self> {
        let mut statement = new.prepare(&format!("PRAGMA table_info({})", table.name))?;
        let columns = statement
            .query_map([], |row| {
                Ok((row.get(1)?, row.get::<_, String>(2)?, row.get::<_, i64>(5)?))
            })?
            .collect::<rusqlite::Result<Vec<(String, String, i64)>>>()?;
        let sql: String = new.query_row(
            "SELECT sql FROM sqlite_schema WHERE name = ?",
            [table.name],
            |row| row.get(0),
        )?;
        let has_rowid = !sql.contains("WITHOUT ROWID");
        let is_rowid = |(_, kind, key): &(String, String, i64)| *key == 1 && kind == "INTEGER";
        let is_single = columns.iter().filter(|column| column.2 > 0).count() == 1;
        let rowid = columns
            .iter()
            .position(is_rowid)
            .filter(|_| has_rowid && is_single);
        let names: Vec<&str> = columns.iter().map(|column| &*column.0).collect();
        Ok(Self {
            table,
            insert: format!(
                "INSERT OR IGNORE INTO {} ({}) VALUES ({})",
                table.name,
                names.join(", "),
                vec!["?"; names.len()].join(", ")
            ),
            rowid,
            has_rowid,
            is_real: columns.iter().map(|column| column.1 == "REAL").collect(),
            columns: columns.into_iter().map(|column| column.0).collect(),
        })
    }

    /// The values as SQLite would return them; `None` if there are too many.
    fn values(&self, row: &RawRow) -> Option<Vec<Value>> {
        if row.values.len() > self.columns.len() {
            return None;
        }
        let mut values = row.values.clone();
        // Columns that were added later: their default is NULL, or 0 for `retain`.
        for column in &self.columns[values.len()..] {
            values.push(match column.as_str() {
                "retain" => Value::Integer(0),
                _ => Value::Null,
            });
        }
        for (value, is_real) in values.iter_mut().zip(&self.is_real) {
            // A whole number is kept as an integer in a column of real ones.
            if let (Value::Integer(number), true) = (&*value, is_real) {
                *value = Value::Real(*number as f64);
            }
        }
        if let (Some(column), Some(rowid)) = (self.rowid, row.rowid) {
            values[column] = Value::Integer(rowid);
        }
        Some(values)
    }

    /// Whether the checksum is correct. Rows of earlier versions have none.
    fn is_whole(&self, values: &[Value]) -> bool {
        match values.last() {
            Some(Value::Integer(stored)) => *stored == self.checksum(values),
            Some(Value::Null) => true,
            _ => false,
        }
    }

    fn recognises(&self, kind: PageKind, row: &RawRow) -> bool {
        kind.is_table() == self.has_rowid
            && row.values.len() == self.columns.len()
            && matches!(row.values.last(), Some(Value::Integer(_)))
            && self
                .values(row)
                .is_some_and(|values| self.is_whole(&values))
    }

    /// Over the columns in the order of [`StoreTable::columns`].
    fn checksum(&self, values: &[Value]) -> i64 {
        let in_order = self.table.columns.iter().filter_map(|name| {
            let index = self.columns.iter().position(|column| column == name)?;
            values.get(index)
        });
        checksum_of(in_order)
    }
}

/// The pages of the free list (SQLite file format, section 1.5).
fn free_pages(image: &DatabaseImage) -> io::Result<HashSet<u32>> {
    let mut free = HashSet::new();
    let mut trunk = u32_at(&image.page(1)?, 32);
    while trunk != 0 && trunk <= image.pages() && free.insert(trunk) {
        let page = image.page(trunk)?;
        let count = (u32_at(&page, 4) as usize).min(page.len() / 4 - 2);
        free.extend((0..count).map(|leaf| u32_at(&page, 8 + 4 * leaf)));
        trunk = u32_at(&page, 0);
    }
    Ok(free)
}
