//! Contents of a site: the user's pages, files and forms, the dashboard and the user guide.

pub(super) mod assets;
pub(super) mod digest;
pub(super) mod error_page;
pub(super) mod files;
mod forms;
pub(super) mod guide;
pub(super) mod home;
pub(super) mod login;
mod login_page;
mod lookup;
mod multipart;
pub(super) mod pages;
mod plain_page;
mod readers;
pub(super) mod release;
mod release_page;
pub(super) mod representation;
