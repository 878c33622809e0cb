//! Contents of a site: the user's pages, files and forms, and the dashboard.

pub(super) mod assets;
pub(super) mod error_page;
pub(super) mod files;
mod forms;
mod lookup;
mod multipart;
pub(super) mod pages;
pub(super) mod representation;
