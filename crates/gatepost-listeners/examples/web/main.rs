//! The HTTP listener before a small world of its own: serves `pages/` and the dashboard with
//! made-up traffic, to work on pages and on the listener without the rest of the gateway.
//!
//! `cargo run --release --example web -- [ADDRESS] [FOLDER]`

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use gatepost_listeners::acceptor::Acceptor;
use gatepost_listeners::http::{self, HttpContext, HttpSettings};
use gatepost_listeners::workers::{Workers, WorkersSettings};
use gatepost_pages::{AccessLogSettings, PagesSettings};
use gatepost_settings::Bind;
use tokio::sync::watch;

mod traffic;
#[allow(dead_code, unreachable_pub)] // shared with the tests
#[path = "../../tests/http/world.rs"]
mod world;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let bind = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "pages".into()));
    let bind: Bind = bind.parse().map_err(io::Error::other)?;
    let pages = PagesSettings {
        path: folder.clone(),
        ..PagesSettings::default()
    };
    let access_log = AccessLogSettings {
        path: folder.with_extension("access.log"),
        ..AccessLogSettings::default()
    };
    let world = world::World::new();
    let settings = HttpSettings::default();
    let context = HttpContext::new(settings, &pages, &access_log, world.clone())?;
    let workers = Workers::start(&WorkersSettings::default())?;
    let acceptor = Acceptor::bind(&bind)?;
    tokio::spawn(traffic::run(world, acceptor.local().clone()));
    println!("http://{}/", acceptor.local());
    let (_end, shutdown) = watch::channel(false);
    http::serve(acceptor, Arc::new(context), workers, shutdown).await;
    Ok(())
}
