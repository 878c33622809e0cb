//! The averages of senders (AWL) on all nodes, from the mail that each of them scans.

use super::learning::{Node, report};
use super::nats::{self, Nats};
use super::support::{Gateway, await_some};
use super::{await_joined, metric};

/// Rules that give ten or four points for a word, and move them half way to the sender's average.
const RULES: &str = "loadplugin Mail::SpamAssassin::Plugin::AWL\n\
    body TEN /tenfold/\nscore TEN 10\nbody FOUR /fourfold/\nscore FOUR 4\n\
    header AWL eval:check_from_in_auto_welcomelist()\n\
    tflags AWL userconf noautolearn\nscore AWL 1\n";

fn node(settings: &str) -> Node {
    Node::with_rules(settings, RULES)
}

/// The points that AWL adds to a message with this word, which counts in the sender's average then.
fn awl(gateway: &Gateway, sender: &str, word: &str) -> Option<f64> {
    let mail = format!(
        "From: {sender}@example.org\nTo: otto@example.org\nSubject: news\n\
         Date: Thu, 22 Aug 2002 10:00:00 +0000\nMessage-Id: <{word}@example.org>\n\n{word}\n"
    );
    let report = report(gateway, &mail);
    let line = report.lines().find(|line| line.contains(" AWL "))?;
    let points = line.split_whitespace().next()?;
    Some(points.parse().expect("a number"))
}

/// Two messages of a sender, whose average is 7 then.
fn scan_two(gateway: &Gateway, sender: &str) {
    for word in ["tenfold", "fourfold"] {
        awl(gateway, sender, word);
    }
}

/// Waits until a node has carried out what another one has scanned so far: lessons are carried out
/// in their order, and the last one is about a sender of its own.
fn await_carried_out(from: &Gateway, to: &Gateway) {
    let mut number = 0;
    await_some("a node has the averages of another one", || {
        number += 1;
        let sender = format!("mark-{}-{number}", from.port("spamd"));
        scan_two(from, &sender);
        await_some("the lessons are sent", || {
            (metric(from, "gatepost_backbone_lessons_unsent ") == 0).then_some(())
        });
        awl(to, &sender, "plain").filter(|points| *points > 3.0)
    });
}

#[test]
fn the_average_of_a_sender_is_that_of_all_nodes_after_restarts_too() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let nodes = [1, 2].map(|number| node(&nats.settings(number)));
    let [one, two] = [nodes[0].start(), nodes[1].start()];
    await_joined(&one, 1);
    await_joined(&two, 1);
    scan_two(&one, "anna");
    await_carried_out(&one, &two);
    two.kill();
    let two = nodes[1].start();
    await_joined(&two, 1);
    // Two messages of 14 points.
    assert_eq!(awl(&two, "anna", "plain"), Some(3.5));
    await_carried_out(&two, &one);
    one.kill();
    let one = nodes[0].start();
    await_joined(&one, 1);
    // Three of 14 points, and neither one less nor one twice.
    assert_eq!(awl(&one, "anna", "plain"), Some(2.3));

    // What a person enters is in force on all nodes.
    let (code, said) = nodes[0].learn(&["--welcome-sender", "anna@example.org"], "");
    assert_eq!(code, Some(0), "{said}");
    await_carried_out(&one, &two);
    assert_eq!(awl(&two, "anna", "tenfold"), Some(-55.0));
    let (code, said) = nodes[1].learn(&["--forget-sender", "anna@example.org"], "");
    assert_eq!(code, Some(0), "{said}");
    await_carried_out(&two, &one);
    assert_eq!(awl(&one, "anna", "tenfold"), None);
}

#[test]
fn mail_that_is_scanned_without_nats_servers_counts_later() {
    if nats::program().is_none() {
        return;
    }
    let mut nats = Nats::start("");
    let nodes = [1, 2].map(|number| node(&nats.settings(number)));
    let [one, two] = [nodes[0].start(), nodes[1].start()];
    await_joined(&one, 1);
    await_joined(&two, 1);
    await_carried_out(&one, &two);
    nats.kill();
    scan_two(&one, "anna");
    assert!(metric(&one, "gatepost_backbone_lessons_unsent ") >= 2);
    let (code, said) = nodes[0].learn(&["--block-sender", "otto@example.org"], "");
    assert_eq!(code, Some(69), "{said}");
    nats.start_again();
    await_joined(&one, 1);
    await_joined(&two, 1);
    await_carried_out(&one, &two);
    assert_eq!(awl(&two, "anna", "plain"), Some(3.5));
    assert_eq!(metric(&one, "gatepost_backbone_lessons_dropped_total "), 0);
}

#[test]
fn a_server_adds_its_averages_to_those_of_the_cluster() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let nodes = [1, 2].map(|number| node(&nats.settings(number)));
    for (node, word) in nodes.iter().zip(["tenfold", "fourfold"]) {
        let alone = node.start_alone();
        awl(&alone, "anna", word);
        assert_eq!(alone.terminate(), Some(0));
    }
    let one = nodes[0].start();
    await_joined(&one, 0);
    let two = nodes[1].start();
    await_joined(&two, 1);
    await_carried_out(&two, &one);
    assert_eq!(awl(&one, "anna", "plain"), Some(3.5));
    await_carried_out(&one, &two);

    // It has left the cluster and joins again: nothing counts twice.
    assert_eq!(two.terminate(), Some(0));
    let alone = nodes[1].start_alone();
    assert_eq!(alone.terminate(), Some(0));
    let two = nodes[1].start();
    await_joined(&two, 1);
    await_carried_out(&two, &one);
    assert_eq!(awl(&one, "anna", "plain"), Some(2.3));
    let (code, said) = nodes[0].learn(&["--welcome-sender", "x@example.org"], "");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(one.terminate(), Some(0));
    let (code, said) = nodes[0].learn(&["--welcome-sender", "x@example.org"], "");
    assert_eq!(code, Some(75), "{said}");
}
