//! Three real NATS servers that form a cluster on this machine.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, Context, stream};
use tempfile::TempDir;

/// The longest wait for the cluster: an election takes some seconds, on a busy machine more.
pub(crate) const WAIT_MAX: Duration = Duration::from_mins(1);
const COUNT: usize = 3;

pub(crate) struct Servers {
    ports: Vec<u16>,
    children: Vec<Child>,
    folder: TempDir,
}

impl Servers {
    /// Starts them; `None` where nats-server is not installed, which the output says.
    pub(crate) fn start() -> Option<Self> {
        let version = Command::new("nats-server").arg("--version").output();
        if version.is_err() {
            eprintln!("SKIPPED: nats-server is not installed here (tests/install-peers)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // All listeners exist at the same time, so that no port is given twice.
        let listeners: Vec<TcpListener> = (0..2 * COUNT)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let port = |one: &TcpListener| one.local_addr().expect("an address").port();
        let mut ports: Vec<u16> = listeners.iter().map(port).collect();
        drop(listeners);
        let cluster_ports = ports.split_off(COUNT);
        let routes: Vec<String> = cluster_ports
            .iter()
            .map(|port| format!("\"nats-route://127.0.0.1:{port}\""))
            .collect();
        for (number, (port, cluster_port)) in ports.iter().zip(&cluster_ports).enumerate() {
            let text = format!(
                "listen: 127.0.0.1:{port}\nserver_name: server{number}\n\
                 jetstream {{ store_dir: \"{}\", sync_interval: always }}\n\
                 cluster {{\n  name: contract\n  listen: \"127.0.0.1:{cluster_port}\"\n  \
                 routes: [{}]\n}}\n",
                folder.path().join(format!("store{number}")).display(),
                routes.join(", "),
            );
            std::fs::write(config(&folder, number), text).expect("written");
        }
        let children = (0..COUNT).map(|number| spawn(&folder, number)).collect();
        Some(Self {
            ports,
            children,
            folder,
        })
    }

    /// A client that connects to any of them.
    pub(crate) async fn connect(&self) -> Context {
        let addresses: Vec<String> = self
            .ports
            .iter()
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
        let client = options.connect(addresses).await.expect("connects");
        let mut context = jetstream::new(client);
        context.set_timeout(Duration::from_secs(2));
        context
    }

    /// Creates a stream with a replica on each server, once the cluster has a leader.
    pub(crate) async fn create_stream(&self, context: &Context, name: &str) -> stream::Stream {
        let config = stream::Config {
            name: name.to_owned(),
            subjects: vec![format!("{name}.>")],
            num_replicas: COUNT,
            duplicate_window: Duration::from_mins(2),
            allow_atomic_publish: true,
            ..stream::Config::default()
        };
        eventually("the stream is created", || {
            context.create_stream(config.clone())
        })
        .await
    }

    /// The number of the server that leads a stream.
    pub(crate) async fn leader(&self, context: &Context, stream: &str) -> usize {
        let leader = eventually("the stream has a leader", || async {
            let info = context.get_stream(stream).await?.get_info().await?;
            let leader = info.cluster.and_then(|cluster| cluster.leader);
            leader.ok_or_else(|| async_nats::Error::from("no leader"))
        })
        .await;
        let number = leader.trim_start_matches("server").parse();
        number.expect("the name of a server")
    }

    /// `kill -9` of the server that leads a stream. Returns its number.
    pub(crate) async fn kill_leader(&mut self, context: &Context, stream: &str) -> usize {
        let number = self.leader(context, stream).await;
        let child = &mut self.children[number];
        child.kill().expect("our child");
        child.wait().expect("our child");
        number
    }

    /// SIGSTOP, or SIGCONT.
    pub(crate) fn signal(&self, number: usize, name: &str) {
        let process = self.children[number].id().to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// A client that connects to one of them.
    pub(crate) async fn connect_to(&self, number: usize) -> Context {
        let address = format!("nats://127.0.0.1:{}", self.ports[number]);
        let client = async_nats::connect(address).await.expect("connects");
        let mut context = jetstream::new(client);
        context.set_timeout(Duration::from_secs(2));
        context
    }

    pub(crate) fn start_again(&mut self, number: usize) {
        self.children[number] = spawn(&self.folder, number);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn config(folder: &TempDir, number: usize) -> PathBuf {
    folder.path().join(format!("server{number}.conf"))
}

fn spawn(folder: &TempDir, number: usize) -> Child {
    Command::new("nats-server")
        .arg("--config")
        .arg(config(folder, number))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server starts")
}

/// Repeats a request until it succeeds.
pub(crate) async fn eventually<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    mut request: impl FnMut() -> F,
) -> T {
    let begun = Instant::now();
    loop {
        match request().await {
            Ok(done) => return done,
            Err(error) => {
                let waited = begun.elapsed();
                assert!(waited < WAIT_MAX, "did not happen: {what}: {error}");
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
