//! Two of three NATS servers are gone: nothing durable is acknowledged, everything else goes on,
//! and the node says so.

use super::nats::{self, Nats};
use super::support::{Client, Gateway, await_some, free_port, post, run, swaks, text_of};
use super::{PLAIN, await_joined, metric, publish, readyz};

const SETTINGS: &str = "listeners.lmtp.bind = []\nlisteners.milter.bind = []\n\
    listeners.call.bind = []\nrules.paths = [\"own.cf\"]\nbackbone.append_wait_max = \"1s\"\n";
/// One of the rules by which mail is scanned meanwhile.
const RULES: &str = "body CHEAP_WATCHES /cheap watches/\nscore CHEAP_WATCHES 9\n";

fn start(servers: &[Nats], number: u8, folder: &std::path::Path) -> Gateway {
    std::fs::write(folder.join("own.cf"), RULES).expect("written");
    let settings = Nats::settings_of_all(servers, number);
    Gateway::start_in(folder, &format!("{settings}{SETTINGS}"))
}

fn mail(gateway: &Gateway, to: &str) -> String {
    let server = gateway.address("smtp").to_string();
    text_of(&swaks(&server, "otto@example.org", to, &[]))
}

/// The reason why a node is not part of its cluster, as the dashboard shows it.
fn trouble(gateway: &Gateway) -> Option<String> {
    let state = run("curl", &["-s", &gateway.url("/admin/state")], b"");
    let state: serde_json::Value = serde_json::from_slice(&state.stdout).ok()?;
    let cluster = &state["stats"].as_array()?.last()?["cluster"];
    cluster["trouble"].as_str().map(str::to_owned)
}

#[test]
fn only_what_is_durable_waits_for_a_majority() {
    if nats::program().is_none() {
        return;
    }
    let mut servers = Nats::cluster();
    let folder = tempfile::tempdir().expect("a folder");
    let one = start(&servers, 1, folder.path());
    await_joined(&one, 0);
    let said = mail(&one, "alarms+fire@localhost");
    assert!(said.contains(" accepted"), "{said}");

    servers[0].kill();
    servers[1].kill();
    let said = mail(&one, "alarms+fire@localhost");
    assert!(said.contains("<** 451 4."), "{said}");
    await_some("the loss is noticed", || {
        readyz(&one).contains("degraded: backbone").then_some(())
    });
    assert!(readyz(&one).contains(" 200 "), "it serves its own clients");
    let said = mail(&one, "alarms+fire@localhost");
    assert!(said.contains("<** 451 4."), "{said}");
    let said = post(&one, "alarms/fire", "x");
    assert!(said.contains(" 503 "), "{said}");
    assert_eq!(metric(&one, "gatepost_backbone_joined "), 0);
    assert_eq!(metric(&one, "gatepost_backbone_nodes "), 0);
    await_some("the dashboard shows the reason", || trouble(&one));

    let mut near = Client::subscribe(&one, "t/#", "%t %p");
    publish(&one, "t/a", "at most once", &[]);
    near.await_line("t/a at most once");
    let page = text_of(&run("curl", &["-si", &one.url("/topics/alarms/fire")], b""));
    assert!(
        page.contains(" 200 ") && page.contains("otto@example.org"),
        "{page}"
    );
    let dashboard = text_of(&run("curl", &["-si", &one.url("/")], b""));
    assert!(dashboard.contains(" 200 "), "{dashboard}");
    let port = one.port("spamd");
    let scanned = b"Subject: an offer\n\ncheap watches\n";
    let report = text_of(&run("spamc", &["-R", "-p", &port], scanned));
    assert!(report.contains("CHEAP_WATCHES"), "{report}");

    servers[0].start_again();
    servers[1].start_again();
    await_joined(&one, 0);
    await_some("the dashboard shows it", || {
        trouble(&one).is_none().then_some(())
    });
    // The sender repeats it while the servers choose leaders.
    await_some("mail is accepted again", || {
        let said = mail(&one, "alarms+fire@localhost");
        said.contains(" accepted").then_some(())
    });
}

/// A server that can be reached, but reaches no other one, is no reason to stay outside.
#[test]
fn a_node_leaves_a_server_that_has_no_majority() {
    if nats::program().is_none() {
        return;
    }
    let [listen, other] = [free_port(), free_port()];
    let alone = Nats::start(&format!(
        "cluster {{ name: c, listen: \"127.0.0.1:{listen}\", \
         routes: [\"nats://127.0.0.1:{other}\"] }}"
    ));
    // Node 1 begins with the second server of two.
    let servers = [Nats::start(""), alone];
    let settings = Nats::settings_of_all(&servers, 1).replace("replicas = 2", "replicas = 1");
    let one = Gateway::start(&format!("{settings}{PLAIN}"));
    await_joined(&one, 0);
    let log = one.log();
    assert!(log.contains("not part of its cluster"), "{log}");
    let joined = format!("server=\"{}\"", servers[0].name());
    assert!(log.contains(&joined), "{log}");
}
