//! A database as a text of SQL statements, which a change of the repository can show.

use std::fmt::Write;
use std::path::Path;

use rusqlite::Connection;

/// The statements that make a database with the same schema, version and rows.
pub(crate) fn of(database: &Path) -> String {
    let connection = Connection::open(database).expect("a database");
    let version: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("a version");
    let mut text =
        format!("PRAGMA auto_vacuum = INCREMENTAL;\nPRAGMA user_version = {version};\nBEGIN;\n");
    let objects = texts(
        &connection,
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name",
    );
    for object in objects {
        writeln!(text, "{object};").expect("a string");
    }
    let tables = texts(
        &connection,
        "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
    );
    for table in tables {
        let columns = texts(
            &connection,
            &format!("SELECT name FROM pragma_table_info('{table}')"),
        );
        let values: Vec<String> = columns
            .iter()
            .map(|name| format!("quote({name})"))
            .collect();
        let rows = texts(
            &connection,
            &format!(
                "SELECT {} FROM {table} ORDER BY 1",
                values.join(" || ',' || ")
            ),
        );
        for row in rows {
            writeln!(text, "INSERT INTO {table} VALUES({row});").expect("a string");
        }
    }
    text.push_str("COMMIT;\n");
    text
}

/// Makes a database from such a text.
pub(crate) fn read(text: &str, database: &Path) {
    let connection = Connection::open(database).expect("a database");
    connection.execute_batch(text).expect("the statements");
}

/// The first column of a query's rows.
fn texts(connection: &Connection, query: &str) -> Vec<String> {
    let mut statement = connection.prepare(query).expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}
