//! Topic tree, sessions, fan-out, retained messages and history.
