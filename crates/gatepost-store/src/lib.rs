//! The embedded database: retained messages, history, quarantine, journal.
