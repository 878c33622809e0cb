//! Scopes, the procedure registry, the built-in procedures and the Luau host.
