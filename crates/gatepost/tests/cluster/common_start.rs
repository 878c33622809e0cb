//! Everything of a new cluster is started at once, as after a power failure or by a container
//! tool, and the NATS servers last.

use std::thread;

use super::log::kept_session;
use super::nats::{self, Nats};
use super::support::{Gateway, await_some};
use super::{PLAIN, await_joined, publish, readyz};

const NODES: [u8; 3] = [1, 2, 3];

/// Starts all nodes at the same time.
fn start_all(servers: &[Nats], folders: &[tempfile::TempDir; 3]) -> Vec<Gateway> {
    thread::scope(|scope| {
        let starts = NODES.into_iter().zip(folders).map(|(number, folder)| {
            let settings = Nats::settings_of_all(servers, number);
            scope.spawn(move || Gateway::start_in(folder.path(), &format!("{settings}{PLAIN}")))
        });
        let starts: Vec<_> = starts.collect();
        let started = starts.into_iter().map(thread::ScopedJoinHandle::join);
        started.map(|node| node.expect("it starts")).collect()
    })
}

fn await_all(servers: &[Nats], nodes: &[Gateway]) {
    for node in nodes {
        await_joined(node, nodes.len() as u64 - 1);
    }
    servers[0].await_replicas(servers.len() as u64);
}

/// Each node's kept session receives what every node publishes.
fn exchange(nodes: &[Gateway], round: u32) {
    let mut sessions: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(place, node)| kept_session(node, &format!("kept{place}"), "c/#", &[]))
        .collect();
    for (place, node) in nodes.iter().enumerate() {
        let retained = ["-q", "1", "-r"];
        publish(
            node,
            &format!("c/{place}"),
            &format!("round{round}"),
            &retained,
        );
    }
    for session in &mut sessions {
        for place in 0..nodes.len() {
            session.await_line(&format!("c/{place} round{round} 1"));
        }
    }
}

#[test]
fn nodes_and_nats_servers_that_start_together_become_a_cluster() {
    if nats::program().is_none() {
        return;
    }
    let mut servers = Nats::cluster();
    for server in &mut servers {
        server.kill();
    }
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let nodes = start_all(&servers, &folders);
    for node in &nodes {
        await_some("the lack of NATS servers is noticed", || {
            readyz(node).contains("degraded: backbone").then_some(())
        });
    }
    for server in &mut servers {
        server.start_again();
    }
    await_all(&servers, &nodes);
    exchange(&nodes, 1);

    // The power fails.
    for node in nodes {
        node.kill();
    }
    for server in &mut servers {
        server.kill();
    }
    let nodes = start_all(&servers, &folders);
    for server in &mut servers {
        server.start_again();
    }
    await_all(&servers, &nodes);
    exchange(&nodes, 2);
}
