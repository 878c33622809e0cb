//! The tables, and the upgrade of older files.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

/// The time for which one process waits for another's transaction.
pub(crate) const BUSY_TIME_MAX: Duration = Duration::from_secs(10);
const BUSY_STEP: Duration = Duration::from_millis(10);

/// Each step takes the schema from its index to the next version; the file's `user_version` says
/// how many have been taken. Steps are never edited once released, only appended.
const STEPS: [&str; 5] = [
    "
    CREATE TABLE retained (
        topic TEXT PRIMARY KEY,
        id INTEGER NOT NULL,
        qos INTEGER NOT NULL,
        payload BLOB NOT NULL,
        properties TEXT
    ) WITHOUT ROWID;

    CREATE TABLE history (
        id INTEGER NOT NULL,
        topic TEXT NOT NULL,
        qos INTEGER NOT NULL,
        payload BLOB NOT NULL,
        properties TEXT,
        -- A mail to several recipients is one message under several topics. The rows stay in the
        -- order of writing, so that damage takes its neighbours only; the key is a separate index.
        PRIMARY KEY (id, topic)
    );

    CREATE TABLE journal (
        id INTEGER PRIMARY KEY,
        listener TEXT NOT NULL,
        peer TEXT NOT NULL,
        client TEXT,
        user TEXT,
        sender TEXT,
        recipients TEXT NOT NULL,
        topic TEXT,
        subject TEXT,
        size INTEGER NOT NULL,
        action TEXT NOT NULL,
        score REAL,
        required REAL,
        hits TEXT NOT NULL,
        reason TEXT NOT NULL,
        procedure TEXT NOT NULL,
        duration_us INTEGER NOT NULL,
        deliveries INTEGER NOT NULL
    );

    CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY REFERENCES journal (id),
        body BLOB NOT NULL
    );

    CREATE TABLE record (
        space TEXT NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (space, key)
    ) WITHOUT ROWID;
",
    "
    -- Sessions that outlive their connection. Numbers are given once and never again.
    CREATE TABLE session (
        number INTEGER PRIMARY KEY,
        client TEXT NOT NULL,
        user TEXT,
        kind TEXT NOT NULL,
        expiry_seconds INTEGER NOT NULL,
        -- Unix milliseconds at which its connection ended; NULL while it is connected.
        ended_ms INTEGER,
        -- The highest sequence that may have been sent; NULL if unknown.
        sent INTEGER,
        will_message INTEGER,
        will_delay_seconds INTEGER
    );

    CREATE TABLE subscription (
        session INTEGER NOT NULL,
        filter TEXT NOT NULL,
        qos INTEGER NOT NULL,
        no_local INTEGER NOT NULL,
        retain_as_published INTEGER NOT NULL,
        identifier INTEGER,
        PRIMARY KEY (session, filter)
    ) WITHOUT ROWID;

    -- A publication that sessions wait for, once for all of them.
    CREATE TABLE message (
        number INTEGER PRIMARY KEY,
        id INTEGER NOT NULL,
        topic TEXT NOT NULL,
        qos INTEGER NOT NULL,
        payload BLOB NOT NULL,
        properties TEXT,
        retain INTEGER NOT NULL
    );

    -- One publication's way to one session.
    CREATE TABLE delivery (
        session INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        message INTEGER NOT NULL,
        qos INTEGER NOT NULL,
        retain INTEGER NOT NULL,
        released INTEGER NOT NULL,
        identifiers BLOB NOT NULL,
        PRIMARY KEY (session, sequence)
    ) WITHOUT ROWID;

    -- Packet identifiers of exactly-once publications that a client sent and has not released.
    CREATE TABLE received (
        session INTEGER NOT NULL,
        packet INTEGER NOT NULL,
        PRIMARY KEY (session, packet)
    ) WITHOUT ROWID;
",
    "
    -- All topics that a message was for, and what else a release needs of a quarantined one.
    ALTER TABLE journal ADD COLUMN topics TEXT;
    ALTER TABLE quarantine ADD COLUMN properties TEXT;
    ALTER TABLE quarantine ADD COLUMN retain INTEGER NOT NULL DEFAULT 0;
",
    "
    -- CRC-32 of the row's other columns; NULL in rows of earlier versions.
    ALTER TABLE retained ADD COLUMN crc INTEGER;
    ALTER TABLE history ADD COLUMN crc INTEGER;
    ALTER TABLE journal ADD COLUMN crc INTEGER;
    ALTER TABLE quarantine ADD COLUMN crc INTEGER;
    ALTER TABLE record ADD COLUMN crc INTEGER;
    ALTER TABLE session ADD COLUMN crc INTEGER;
    ALTER TABLE subscription ADD COLUMN crc INTEGER;
    ALTER TABLE message ADD COLUMN crc INTEGER;
    ALTER TABLE delivery ADD COLUMN crc INTEGER;
    ALTER TABLE received ADD COLUMN crc INTEGER;

    -- One row: no id of an earlier run is higher than the first number, and the second is the
    -- latest time, in Unix milliseconds, that was trusted.
    CREATE TABLE clock (
        number INTEGER PRIMARY KEY,
        highest_id INTEGER NOT NULL,
        accepted_ms INTEGER
    );
    INSERT INTO clock VALUES (1, 0, NULL);
",
    "
    -- Figures over time. The numbers follow the order of writing, not the clock.
    CREATE TABLE series (
        resolution INTEGER NOT NULL,
        number INTEGER NOT NULL,
        -- Unix milliseconds of the interval's end, by the clock at that time.
        at_ms INTEGER NOT NULL,
        figures TEXT NOT NULL,
        crc INTEGER,
        PRIMARY KEY (resolution, number)
    ) WITHOUT ROWID;
    CREATE INDEX series_by_time ON series (resolution, at_ms);
",
];

/// The newest schema, which this version writes.
pub(crate) const VERSION: usize = STEPS.len();

/// The schema version of a file; 0 for a new one.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Prepares for use: write-ahead log, an `fsync` with every commit, and the newest schema.
///
/// The log is synced at each commit (`synchronous = FULL`), since an acknowledgement depends on it;
/// the group commit makes that affordable. Two processes may do this at once.
pub(crate) fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIME_MAX)?;
    keep_plans(connection)?;
    if version(connection)? == 0 {
        // Free pages can be returned only if this is set when the file is created.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    use_write_ahead_log(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    // Quarantined messages have a journal entry, but the journal may be trimmed first.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.set_prepared_statement_cache_capacity(64);
    if version(connection)? < VERSION {
        create(connection)?;
    }
    Ok(())
}

/// Creates the schema in a new file, of which nothing is synced: if it is not complete, its creator
/// discards it.
pub(crate) fn create_unsynced(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "foreign_keys", false)?;
    // This writes the first page.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    create(connection)
}

/// Executes the steps that the file lacks.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    // The write lock comes first: of two processes, the second finds that the first has done it.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in STEPS.iter().skip(version(&transaction)?) {
        transaction.execute_batch(step)?;
    }
    raise_highest_id(&transaction)?;
    transaction.pragma_update(None, "user_version", VERSION as i64)?;
    transaction.commit()
}

/// Keeps a prepared statement's plan whatever values are bound to it. Otherwise SQLite plans again,
/// which takes longer than most of our reads, whenever a `LIMIT ?` is bound.
pub(crate) fn keep_plans(connection: &Connection) -> rusqlite::Result<bool> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
}

/// SQLite's busy timeout does not cover the change to a write-ahead log.
pub(crate) fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIME_MAX;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                thread::sleep(BUSY_STEP);
            }
            changed => return changed,
        }
    }
}

/// Makes the stored id at least as high as every id in the tables.
pub(crate) fn raise_highest_id(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "UPDATE clock SET highest_id = max(highest_id,
            (SELECT coalesce(max(id), 0) FROM retained),
            (SELECT coalesce(max(id), 0) FROM history),
            (SELECT coalesce(max(id), 0) FROM journal),
            (SELECT coalesce(max(id), 0) FROM message),
            (SELECT coalesce(max(number), 0) FROM message),
            (SELECT coalesce(max(number), 0) FROM session))",
    )
}
