//! Birth certificates of Sparkplug over several nodes.

use super::nats::{self, Nats};
use super::retained::retained;
use super::support::{Client, Gateway, await_some};
use super::{PLAIN, await_joined, publish};

const BIRTHS: &str = "spBv1.0/+/NBIRTH/+";

/// Publishes a birth at one node until the other one has its copy.
fn await_copy(publisher: &Gateway, reader: &Gateway, payload: &str) {
    let topic = "spBv1.0/G/NBIRTH/e";
    let copy = format!("$sparkplug/certificates/{topic}");
    await_some("the copy", || {
        publish(publisher, topic, payload, &[]);
        (retained(reader, &copy).as_deref() == Some(payload)).then_some(())
    });
}

#[test]
fn every_aware_node_copies_each_birth() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let node = |number| {
        let settings = nats.settings(number);
        Gateway::start(&format!("{settings}broker.sparkplug = true\n{PLAIN}"))
    };
    let (one, two) = (node(1), node(2));
    await_joined(&one, 1);
    await_joined(&two, 1);
    await_copy(&one, &one, "first");
    await_copy(&one, &two, "first");
    // A subscriber of all births that subscribes and unsubscribes changes nothing.
    let mut client = Client::subscribe(&two, BIRTHS, "got %p");
    publish(&one, "spBv1.0/G/NBIRTH/e", "second", &[]);
    client.await_line("got second");
    drop(client);
    await_copy(&one, &two, "third");
    await_copy(&two, &one, "fourth");
}
