//! Bans as a listener uses them, and as an operator changes them.

use gatepost_bans::{BanError, Bans, BansSettings, Offence};
use gatepost_message::Peer;
use gatepost_settings::PeerNetwork;
use gatepost_store::Store;

fn settings() -> BansSettings {
    BansSettings {
        points_max: 6,
        ..BansSettings::default()
    }
}

fn peer(address: &str) -> Peer {
    let ip: std::net::IpAddr = address.parse().expect("an address");
    Peer::Address((ip, 4321).into())
}

fn network(text: &str) -> PeerNetwork {
    text.parse().expect("a network")
}

/// Two failed logins: six points.
fn offend(bans: &Bans, address: &str) {
    bans.note(peer(address), Offence::Login);
    bans.note(peer(address), Offence::Login);
}

#[test]
fn offences_of_all_kinds_lead_to_a_ban_of_the_client_alone() {
    let bans = Bans::new(&settings());
    bans.note(peer("192.0.2.1"), Offence::Login);
    bans.note(peer("192.0.2.1"), Offence::UnknownRecipient);
    assert!(!bans.refuses(peer("192.0.2.1")));
    bans.note(peer("192.0.2.1"), Offence::Spam);
    assert!(bans.refuses(peer("192.0.2.1")));
    assert!(bans.refuses(peer("::ffff:192.0.2.1")), "the same address");
    assert!(!bans.refuses(peer("192.0.2.2")));
    offend(&bans, "2001:db8:0:1::1");
    assert!(bans.refuses(peer("2001:db8:0:1:ffff::2")), "the same /64");
    assert!(!bans.refuses(peer("2001:db8:0:2::1")));
    let reasons: Vec<String> = bans.list().into_iter().map(|ban| ban.reason).collect();
    let mixed = "failed logins: 1, unknown recipients: 1, spam messages: 1";
    assert!(reasons.contains(&mixed.to_owned()), "{reasons:?}");
    let totals = bans.totals();
    assert_eq!((totals.in_force, totals.imposed, totals.refused), (2, 2, 3));
    assert_eq!(totals.offences, [3, 1, 0, 1]);
}

#[test]
fn neighbours_are_one_client_where_the_settings_say_so() {
    let bans = Bans::new(&BansSettings {
        ipv4_bits: 24,
        ..settings()
    });
    bans.note(peer("192.0.2.1"), Offence::Login);
    bans.note(peer("192.0.2.99"), Offence::Login);
    assert!(bans.refuses(peer("192.0.2.200")) && !bans.refuses(peer("192.0.3.1")));
}

#[tokio::test]
async fn this_machine_and_allowed_networks_are_never_banned() {
    let bans = Bans::new(&BansSettings {
        allowed: vec![network("198.51.100.0/24")],
        ..settings()
    });
    for exempt in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "198.51.100.7"] {
        for _ in 0..100 {
            offend(&bans, exempt);
        }
        assert!(!bans.refuses(peer(exempt)), "{exempt}");
    }
    for refused in ["127.0.0.1", "127.0.0.0/8", "198.51.100.7"] {
        let added = bans.add(network(refused), None, "").await;
        assert!(matches!(added, Err(BanError::Exempt(_))), "{refused}");
    }
    for refused in ["0.0.0.0/0", "10.0.0.0/7", "::/0"] {
        let added = bans.add(network(refused), None, "").await;
        assert!(matches!(added, Err(BanError::TooLarge(_))), "{refused}");
    }
    assert!(matches!(
        bans.add(PeerNetwork::Unix, None, "").await,
        Err(BanError::NoAddress)
    ));
    let strict = Bans::new(&BansSettings {
        exempt_local: false,
        ..settings()
    });
    offend(&strict, "127.0.0.1");
    assert!(strict.refuses(peer("127.0.0.1")));
    assert!(!strict.refuses(Peer::Local));
}

#[tokio::test]
async fn operators_ban_and_pardon_whole_networks() {
    let bans = Bans::new(&settings());
    let added = bans.add(network("192.0.2.77/24"), None, "abuse").await;
    let added = added.expect("added");
    assert_eq!((added.network.as_str(), added.ends), ("192.0.2.0/24", None));
    assert!(bans.refuses(peer("192.0.2.1")) && !bans.refuses(peer("192.0.3.1")));
    assert!(matches!(
        bans.remove(network("192.0.3.0/24")).await,
        Err(BanError::NotBanned(_))
    ));
    bans.remove(network("192.0.2.0/24")).await.expect("lifted");
    assert!(!bans.refuses(peer("192.0.2.1")));
    // A single address stands for its /64, which is banned.
    offend(&bans, "2001:db8::1");
    bans.remove(network("2001:db8::9")).await.expect("lifted");
    assert!(!bans.refuses(peer("2001:db8::1")) && bans.list().is_empty());
}

#[tokio::test]
async fn bans_survive_a_restart() {
    let store = Store::in_memory().expect("a store");
    let bans = Bans::open(&settings(), store.clone()).expect("bans");
    bans.add(network("192.0.2.0/24"), None, "abuse")
        .await
        .expect("added");
    offend(&bans, "203.0.113.9");
    store.flush().await;
    let again = Bans::open(&settings(), store.clone()).expect("bans");
    assert_eq!(again.list(), bans.list());
    assert!(again.refuses(peer("192.0.2.1")) && again.refuses(peer("203.0.113.9")));
    again.remove(network("203.0.113.9")).await.expect("lifted");
    let last = Bans::open(&settings(), store).expect("bans");
    assert_eq!(last.list().len(), 1);
}

#[test]
fn the_table_is_bounded() {
    const NETWORKS_MAX: usize = 50;
    let bans = Bans::new(&BansSettings {
        networks_max: NETWORKS_MAX,
        ..settings()
    });
    for third in 0..4 {
        for fourth in 0..=255 {
            offend(&bans, &format!("203.0.{third}.{fourth}"));
        }
    }
    assert_eq!(bans.list().len(), NETWORKS_MAX);
}

#[test]
fn switched_off_nothing_is_banned_by_itself() {
    let bans = Bans::new(&BansSettings {
        enabled: false,
        ..settings()
    });
    for _ in 0..100 {
        offend(&bans, "192.0.2.1");
    }
    assert!(!bans.refuses(peer("192.0.2.1")));
}
