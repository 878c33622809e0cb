//! The tables, and how an older file becomes a newer one.

use rusqlite::Connection;

/// Each step takes the schema from its index to the next version; the file's `user_version` says
/// how many have been taken. Steps are never edited once released, only appended.
const STEPS: [&str; 3] = [
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
        -- order of writing, so that damage takes its neighbours only; the key is an index beside.
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
        -- The highest sequence that may have been sent; NULL where nobody knows.
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
];

/// Opens for use: write-ahead log, an `fsync` with every commit, and the newest schema.
///
/// The log is synced at each commit (`synchronous = FULL`), since a commit is what an
/// acknowledgement stands on; the group commit makes that affordable.
pub(crate) fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    // Quarantined messages have a journal entry, but the journal may be trimmed first.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.set_prepared_statement_cache_capacity(64);

    let version: usize = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let transaction = connection.transaction()?;
    for step in STEPS.iter().skip(version) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", STEPS.len().max(version) as i64)?;
    transaction.commit()
}

/// The tables, in an order in which rows can be copied from a damaged file.
pub(crate) const TABLES: [&str; 10] = [
    "record",
    "session",
    "subscription",
    "message",
    "delivery",
    "received",
    "retained",
    "quarantine",
    "journal",
    "history",
];

/// The columns of the table's key, by which a damaged table is read from both ends.
pub(crate) fn key_of(table: &str) -> &'static str {
    match table {
        "record" => "space, key",
        "retained" => "topic",
        "history" => "rowid",
        "session" | "message" => "number",
        "subscription" => "session, filter",
        "delivery" => "session, sequence",
        "received" => "session, packet",
        _ => "id",
    }
}
