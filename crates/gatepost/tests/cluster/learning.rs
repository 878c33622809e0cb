//! Learning of all nodes from the lessons of one: taught with `gatepost learn` and with spamc, and
//! learned automatically.

use tempfile::TempDir;

use super::nats::{self, Nats};
use super::support::{Gateway, await_some, run, text_of};
use super::upgrade::{await_unreadable, remove, write_later};
use super::{await_joined, metric, readyz};

const SETTINGS: &str = "listeners.lmtp.bind = []\nlisteners.milter.bind = []\n\
    listeners.call.bind = []\nlisteners.pop3.bind = []\nrules.paths = [\"own.cf\"]\n\
    backbone.append_wait_max = \"2s\"\n";
/// Rules with Bayes, which learn a message with certain words automatically as spam.
const RULES: &str = "loadplugin Mail::SpamAssassin::Plugin::Bayes\nbayes_min_spam_num 3\n\
    bayes_min_ham_num 3\nbayes_auto_learn_threshold_spam 6\n\
    bayes_auto_learn_threshold_nonspam -100\n\
    body CERTAIN /certain winner/\nscore CERTAIN 7\ntflags CERTAIN autolearn_force\n\
    header CERTAIN_TOO Subject =~ /certain/\nscore CERTAIN_TOO 4\n\
    body BAYES_99 eval:check_bayes('0.99', '1.00')\ntflags BAYES_99 learn\nscore BAYES_99 3\n\
    body BAYES_00 eval:check_bayes('0.00', '0.01')\ntflags BAYES_00 learn\nscore BAYES_00 -2\n";
const SPAM_WORDS: &str = "cheap replica watches luxury discount offer";
const HAM_WORDS: &str = "meeting agenda minutes project schedule tomorrow";

/// The beginning of the name of the file with what a server had learned before it joined.
const EARLIER: &str = "learned-before-cluster-";

/// The folder of a node, which outlives it.
pub(super) struct Node {
    folder: TempDir,
    settings: String,
}

impl Node {
    fn of(settings: &str) -> Self {
        Self::with_rules(settings, RULES)
    }

    pub(super) fn with_rules(settings: &str, rules: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("own.cf"), rules).expect("written");
        let settings = format!("{settings}{SETTINGS}");
        Self { folder, settings }
    }

    pub(super) fn start(&self) -> Gateway {
        Gateway::start_in(self.folder.path(), &self.settings)
    }

    /// Starts it as a server without a cluster.
    pub(super) fn start_alone(&self) -> Gateway {
        let settings = SETTINGS.replace("backbone.append_wait_max = \"2s\"\n", "");
        Gateway::start_in(self.folder.path(), &settings)
    }

    /// `gatepost learn` beside the server, or without it.
    pub(super) fn learn(&self, arguments: &[&str], mail: &str) -> (Option<i32>, String) {
        let config = self.folder.path().join("gatepost.toml");
        let config = config.display().to_string();
        let data = format!(
            "data={}",
            self.folder.path().join("gatepost-data").display()
        );
        let rules = self.folder.path().join("own.cf").display().to_string();
        let rules = format!("rules.paths=[\"{rules}\"]");
        let place = ["--config", &config, "--set", &data, "--set", &rules];
        let program = env!("CARGO_BIN_EXE_gatepost");
        let output = run(
            program,
            &[&["learn"], arguments, &place].concat(),
            mail.as_bytes(),
        );
        (output.status.code(), text_of(&output))
    }

    /// The learned messages and tokens.
    fn totals(&self) -> String {
        let (code, said) = self.learn(&["--status"], "");
        assert_eq!(code, Some(0), "{said}");
        let totals = said.lines().find(|line| line.starts_with("learned in all"));
        totals.expect("the totals").to_owned()
    }

    fn await_totals(&self, expected: &str) {
        await_some(expected, || self.totals().contains(expected).then_some(()));
    }

    /// Teaches so many messages of each class. A node may need a moment after it has joined.
    fn teach(&self, count: u32) {
        for number in 0..count {
            for (class, words) in [("--spam", SPAM_WORDS), ("--ham", HAM_WORDS)] {
                let mail = message(&format!("{class}{number}"), words);
                await_some("the message is learned", || {
                    (self.learn(&[class, "-"], &mail).0 == Some(0)).then_some(())
                });
            }
        }
    }
}

fn message(name: &str, words: &str) -> String {
    format!(
        "From: otto@example.org\nTo: {name}@example.org\nSubject: {name}\n\
         Date: Thu, 22 Aug 2002 10:00:00 +0000\nMessage-Id: <{name}@example.org>\n\n{words}\n"
    )
}

/// The lines of spamc's report that have the score and the rules.
pub(super) fn report(gateway: &Gateway, mail: &str) -> String {
    let output = run(
        "spamc",
        &["-R", "-p", &gateway.port("spamd")],
        mail.as_bytes(),
    );
    text_of(&output)
}

/// TELL, by spamc.
fn tell(gateway: &Gateway, class: &str, mail: &str) -> (Option<i32>, String) {
    let arguments = ["-L", class, "-p", &gateway.port("spamd")];
    let output = run("spamc", &arguments, mail.as_bytes());
    (output.status.code(), text_of(&output))
}

#[test]
fn a_lesson_of_one_node_changes_the_scores_of_all() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let nodes = [1, 2].map(|number| Node::of(&nats.settings(number)));
    let [one, two] = [nodes[0].start(), nodes[1].start()];
    await_joined(&one, 1);
    await_joined(&two, 1);
    let unknown = message("new", "luxury replica watches, cheap offer");
    assert!(
        !report(&two, &unknown).contains("BAYES"),
        "nothing is learned"
    );
    nodes[0].teach(3);
    nodes[1].await_totals("3 spam, 3 ham");
    let here = report(&one, &unknown);
    assert!(here.contains("BAYES_99"), "{here}");
    assert_eq!(report(&two, &unknown), here);

    // The same message counts once, wherever it is learned.
    let again = message("--spam0", SPAM_WORDS);
    let (_, said) = tell(&two, "spam", &again);
    assert!(said.contains("already un/learned"), "{said}");
    let (_, said) = tell(&one, "ham", &again);
    assert!(said.contains("successfully un/learned"), "{said}");
    for node in &nodes {
        node.await_totals("2 spam, 4 ham");
    }
    let (_, said) = tell(&two, "forget", &again);
    assert!(said.contains("successfully un/learned"), "{said}");
    for node in &nodes {
        node.await_totals("2 spam, 3 ham");
    }
    assert_eq!(nodes[0].totals(), nodes[1].totals());
}

#[test]
fn a_restart_neither_loses_nor_repeats_a_lesson() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let nodes = [1, 2].map(|number| Node::of(&nats.settings(number)));
    let [one, two] = [nodes[0].start(), nodes[1].start()];
    await_joined(&one, 1);
    await_joined(&two, 1);
    nodes[0].teach(1);
    nodes[1].await_totals("1 spam, 1 ham");
    two.kill();
    nodes[0].teach(3);
    let forgotten = message("--spam0", SPAM_WORDS);
    let (code, said) = nodes[0].learn(&["--forget", "-"], &forgotten);
    assert_eq!(code, Some(0), "{said}");
    let two = nodes[1].start();
    await_joined(&two, 1);
    nodes[1].await_totals("2 spam, 3 ham");
    one.kill();
    let one = nodes[0].start();
    await_joined(&one, 1);
    let (_, said) = tell(&one, "spam", &forgotten);
    assert!(said.contains("successfully"), "{said}");
    for node in &nodes {
        node.await_totals("3 spam, 3 ham");
    }
    assert_eq!(nodes[0].totals(), nodes[1].totals());
}

#[test]
fn a_new_node_takes_the_snapshot_and_the_lessons_after_it() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let bounded = |number| format!("{}backbone.lessons_max = 4\n", nats.settings(number));
    let nodes = [1, 2, 3].map(|number| Node::of(&bounded(number)));
    let one = nodes[0].start();
    await_joined(&one, 0);
    let two = nodes[1].start();
    await_joined(&two, 1);
    nodes[0].teach(1);
    nodes[1].await_totals("1 spam, 1 ham");
    two.kill();
    nodes[0].teach(6);
    let lessons = || {
        let asked = "{\"subjects_filter\":\"gp.learned.lessons\"}";
        let info = nats.request("$JS.API.STREAM.INFO.GP_LEARNED", asked);
        let info: serde_json::Value = serde_json::from_str(&info).expect("an answer");
        info["state"]["subjects"]["gp.learned.lessons"]
            .as_u64()
            .unwrap_or(0)
    };
    // 12 lessons and the repeated ones.
    await_some("a snapshot replaces lessons", || {
        (lessons() <= 5).then_some(())
    });
    let two = nodes[1].start();
    let three = nodes[2].start();
    await_joined(&two, 2);
    await_joined(&three, 2);
    for node in &nodes {
        node.await_totals("6 spam, 6 ham");
    }
    assert_eq!(nodes[0].totals(), nodes[1].totals());
    assert_eq!(nodes[0].totals(), nodes[2].totals());
    let unknown = message("new", "luxury replica watches, cheap offer");
    assert_eq!(report(&three, &unknown), report(&one, &unknown));
    let (_, said) = tell(&three, "spam", &message("--spam5", SPAM_WORDS));
    assert!(said.contains("already"), "it was learned before: {said}");
}

#[test]
fn a_server_that_joins_learns_what_the_cluster_has_learned() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let nodes = [1, 2].map(|number| Node::of(&nats.settings(number)));
    for (node, count) in nodes.iter().zip([2, 1]) {
        let alone = node.start_alone();
        node.teach(count);
        node.await_totals(&format!("{count} spam, {count} ham"));
        assert_eq!(alone.terminate(), Some(0));
    }
    let own = nodes[1].totals();
    // The first one brings what it has learned.
    let one = nodes[0].start();
    await_joined(&one, 0);
    let two = nodes[1].start();
    await_joined(&two, 1);
    nodes[1].await_totals("2 spam, 2 ham");
    let files = std::fs::read_dir(two.folder.join("gatepost-data")).expect("a folder");
    let mut paths = files.map(|file| file.expect("a file").path());
    let earlier = paths.find(|path| path.display().to_string().contains(EARLIER));
    let earlier = std::fs::read_to_string(earlier.expect("a file")).expect("text");
    assert!(earlier.contains("v\t1\tnum_spam"), "{own}: {earlier}");
    assert!(two.log().contains(EARLIER), "{}", two.log());
    let (code, said) = nodes[1].learn(&["--import", "-"], &earlier);
    assert_eq!(code, Some(64), "{said}");

    // Alone it keeps it, and joins again as a new one.
    assert_eq!(two.terminate(), Some(0));
    let (code, said) = nodes[1].learn(&["--spam", "-"], &message("x", SPAM_WORDS));
    assert_eq!(code, Some(75), "{said}");
    let two = nodes[1].start_alone();
    nodes[1].await_totals("2 spam, 2 ham");
    nodes[1].teach(3);
    nodes[1].await_totals("3 spam, 3 ham");
    assert_eq!(two.terminate(), Some(0));
    let two = nodes[1].start();
    await_joined(&two, 1);
    nodes[1].await_totals("2 spam, 2 ham");
    drop(one);
}

#[test]
fn without_a_majority_only_lessons_of_persons_are_refused() {
    if nats::program().is_none() {
        return;
    }
    let mut servers = Nats::cluster();
    let node = Node::of(&Nats::settings_of_all(&servers, 1));
    let one = node.start();
    await_joined(&one, 0);
    node.teach(1);
    let said = report(&one, &message("first-certain", "a certain winner"));
    assert!(said.contains("CERTAIN_TOO"), "{said}");
    node.await_totals("2 spam, 1 ham");
    servers[0].kill();
    servers[1].kill();

    let mail = message("refused", SPAM_WORDS);
    let (code, said) = node.learn(&["--spam", "-"], &mail);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("the cluster does not learn it"), "{said}");
    let (_, said) = tell(&one, "spam", &mail);
    assert!(!said.contains("success"), "{said}");
    let certain = message("certain", "a certain winner");
    let said = report(&one, &certain);
    assert!(said.contains("CERTAIN_TOO"), "{said}");
    assert_eq!(metric(&one, "gatepost_backbone_lessons_unsent "), 1);
    node.await_totals("2 spam, 1 ham");

    servers[0].start_again();
    servers[1].start_again();
    await_joined(&one, 0);
    // The lesson that was refused may be among those that the servers have stored nevertheless.
    await_some("the lesson that waited is sent", || {
        (metric(&one, "gatepost_backbone_lessons_unsent ") == 0).then_some(())
    });
    assert_eq!(metric(&one, "gatepost_backbone_lessons_dropped_total "), 0);
    await_some("the lesson is repeated", || {
        (node.learn(&["--spam", "-"], &mail).0 == Some(0)).then_some(())
    });
    node.await_totals("4 spam, 1 ham");
}

#[test]
fn a_lesson_of_a_later_version_is_not_passed_over() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let node = Node::of(&nats.settings(1));
    let one = node.start();
    await_joined(&one, 0);
    node.teach(1);
    let sequence = write_later(&nats, "gp.learned.lessons");
    await_unreadable(&one, 1);
    let (code, said) = node.learn(&["--spam", "-"], &message("x", SPAM_WORDS));
    assert!(code == Some(69) || code == Some(0), "{said}");
    one.kill();
    let one = node.start();
    await_unreadable(&one, 1);
    assert!(node.totals().contains("1 spam, 1 ham"));
    remove(&nats, "GP_LEARNED", sequence);
    await_unreadable(&one, 0);
    assert!(readyz(&one).contains(" 200 "));
    node.teach(2);
    let learned_later = u32::from(code == Some(0));
    node.await_totals(&format!("{} spam, 2 ham", 2 + learned_later));
}

#[test]
fn a_stream_that_is_lost_is_made_again_from_the_data_of_a_node() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let nodes = [1, 2].map(|number| Node::of(&nats.settings(number)));
    let [one, two] = [nodes[0].start(), nodes[1].start()];
    await_joined(&one, 1);
    await_joined(&two, 1);
    nodes[0].teach(2);
    nodes[1].await_totals("2 spam, 2 ham");
    let answer = nats.request("$JS.API.STREAM.DELETE.GP_LEARNED", "");
    assert!(answer.contains("\"success\":true"), "{answer}");
    let lesson = message("later", SPAM_WORDS);
    await_some("a node can be taught again", || {
        (nodes[1].learn(&["--spam", "-"], &lesson).0 == Some(0)).then_some(())
    });
    for node in &nodes {
        node.await_totals("3 spam, 2 ham");
    }
    assert_eq!(nodes[0].totals(), nodes[1].totals());
}
