//! Made-up traffic for the dashboard: a judged message now and then, and figures each second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_listeners::http::state::{
    JOURNAL_TOPIC, ListenerState, ProcedureStats, STATS_TOPIC, SessionStats, State, Stats,
    TopicStats, Verdicts,
};
use gatepost_message::MessageId;
use gatepost_settings::Bind;
use serde_json::{Value, json};

use super::world::World;

/// Seconds of figures that a new page starts from.
const STATS_KEPT: usize = 120;
/// Journal entries that a new page starts from.
const JOURNAL_KEPT: usize = 60;

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

pub(super) async fn run(world: Arc<World>, bind: Bind) {
    let mut dice = Dice(7);
    let mut stats = VecDeque::new();
    let mut journal = VecDeque::new();
    let mut totals = Stats::default();
    let started_unix_ms = unix_ms() - 3_600_000 * 27;
    for past in (0..STATS_KEPT as u64).rev() {
        step(&mut totals, &mut dice, unix_ms() - past * 1_000);
        stats.push_back(totals.clone());
    }
    for _ in 0..20 {
        journal.push_front(entry(&mut dice));
    }
    loop {
        step(&mut totals, &mut dice, unix_ms());
        totals.listeners = listeners(&bind, totals.messages_in);
        stats.push_back(totals.clone());
        if stats.len() > STATS_KEPT {
            stats.pop_front();
        }
        if dice.roll(3) == 0 {
            let entry = entry(&mut dice);
            world.publish_text(JOURNAL_TOPIC, entry.to_string());
            journal.push_front(entry);
            journal.truncate(JOURNAL_KEPT);
        }
        *world.state.lock() = State {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ms,
            listeners: totals.listeners.clone(),
            stats: stats.iter().cloned().collect(),
            journal: journal.iter().cloned().collect(),
        };
        world.publish_text(STATS_TOPIC, json!(totals).to_string());
        world.publish_text(
            "sensors/hall",
            format!("{:.1} °C", 19.0 + dice.roll(40) as f64 / 10.0),
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn step(totals: &mut Stats, dice: &mut Dice, now: u64) {
    let wave = ((now / 1_000) as f64 / 9.0).sin() * 60.0 + 130.0;
    totals.unix_ms = now;
    totals.messages_in_per_second = wave + dice.roll(50) as f64;
    totals.deliveries_per_second = totals.messages_in_per_second * 5.2 + dice.roll(120) as f64;
    totals.messages_in += totals.messages_in_per_second as u64;
    totals.deliveries += totals.deliveries_per_second as u64;
    totals.dropped = 0;
    totals.verdicts.accept += 20 + dice.roll(20);
    totals.verdicts.tag += dice.roll(4);
    totals.verdicts.reject += dice.roll(8);
    totals.verdicts.quarantine += dice.roll(3) / 2;
    totals.verdicts.drop += dice.roll(5) / 4;
    totals.verdicts.defer += dice.roll(12) / 11;
    totals.subscriptions = 3_412;
    totals.sessions_connected = 1_208 + dice.roll(9);
    totals.retained = 341;
    totals.memory_bytes = 61_000_000 + dice.roll(2_000_000);
    totals.cpu_cores = 0.11 + dice.roll(8) as f64 / 100.0;
    totals.topics = [
        ("sensors/hall", 41.0),
        ("ups/rack-2/load", 22.5),
        ("alarms/fire", 0.4),
        ("backup/nightly", 0.1),
    ]
    .map(|(topic, per_second)| TopicStats {
        topic: topic.to_owned(),
        per_second,
        messages: totals.messages_in * per_second as u64 / 100 + 12,
        bytes: 0,
    })
    .to_vec();
    totals.sessions = [
        ("wall-display", "websocket", 0, 0),
        ("history-writer", "mqtt", 18, 0),
        ("phone-anna", "sse", 3, 2),
        ("door-sensor-7", "mqtt", 0, 0),
    ]
    .map(|(client, kind, queued, dropped)| SessionStats {
        client: client.to_owned(),
        kind: kind.to_owned(),
        connected: client != "phone-anna",
        subscriptions: 1 + queued / 4,
        queued,
        dropped,
        dropped_by: [("outbox_full".to_owned(), dropped)].into(),
    })
    .to_vec();
    totals.procedures = [
        ("/spamcheck", 0.0021, 1),
        ("/sizecheck", 0.000_001, 0),
        ("/mail/greylist", 0.000_04, 0),
    ]
    .map(|(path, mean, errors)| ProcedureStats {
        path: path.to_owned(),
        requests: totals.messages_in / 7,
        errors,
        cpu_seconds: totals.messages_in as f64 / 7.0 * mean,
        verdicts: Verdicts::default(),
    })
    .to_vec();
}

fn listeners(http: &Bind, messages: u64) -> Vec<ListenerState> {
    let rows = [
        ("mqtt", "127.0.0.1:1883", 1_187, 90),
        ("http", "", 21, 8),
        ("smtp", "127.0.0.1:2525", 2, 2),
        ("spamd", "127.0.0.1:7830", 0, 0),
        ("call", "127.0.0.1:7887", 0, 0),
    ];
    rows.map(|(name, bind, connections, share)| ListenerState {
        name: name.to_owned(),
        bind: if bind.is_empty() {
            http.to_string()
        } else {
            bind.to_owned()
        },
        open: true,
        error: None,
        connections,
        messages: messages * share / 100,
    })
    .to_vec()
}

fn entry(dice: &mut Dice) -> Value {
    const SAMPLES: [(&str, &str, &str, f64, &str); 6] = [
        (
            "accept",
            "UPS rack-2: on battery, 38 min left",
            "ups@rack-2.example",
            -0.4,
            "alarms/ups",
        ),
        (
            "accept",
            "Backup of files.example finished, 212 GB",
            "backup@files.example",
            0.1,
            "backup/nightly",
        ),
        (
            "reject",
            "You have WON a cruise!!! Claim now",
            "winner@lucky-prizes.example",
            14.7,
            "alarms/fire",
        ),
        (
            "tag",
            "Newsletter: autumn offers",
            "news@shop.example",
            3.9,
            "office/mail",
        ),
        (
            "quarantine",
            "Invoice 4711 attached",
            "billing@parcel.example",
            6.2,
            "office/mail",
        ),
        (
            "accept",
            "Camera 3: motion in the yard",
            "camera-3@yard.example",
            0.0,
            "alarms/motion",
        ),
    ];
    let (action, subject, sender, score, topic) = SAMPLES[dice.roll(6) as usize];
    let hits = if score > 3.0 {
        json!([{ "name": "ALL_CAPS_SUBJECT", "score": 1.6 }, { "name": "PRIZE_CLAIM", "score": score - 2.1 }, { "name": "HTML_ONLY", "score": 0.7 }, { "name": "KNOWN_RELAY", "score": -0.2 }])
    } else {
        json!([])
    };
    json!({
        "id": MessageId::next().to_string(),
        "unix_ms": unix_ms() - dice.roll(900),
        "listener": "smtp", "peer": "192.0.2.17:40312", "client": "relay.example",
        "sender": sender, "recipients": [format!("{}@gate.example", topic.replace('/', "+"))],
        "topic": topic, "subject": subject, "size": 4_000 + dice.roll(20_000),
        "action": action, "score": score, "required": 5.0, "hits": hits,
        "reason": if action == "reject" { "score 14.7 reaches the 5.0 from which mail is refused" } else { "" },
        "procedure": "/spamcheck", "duration_us": 900 + dice.roll(2_000), "deliveries": dice.roll(40),
    })
}
