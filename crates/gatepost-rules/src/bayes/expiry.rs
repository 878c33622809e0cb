//! Forgetting tokens that were of no use for long.
