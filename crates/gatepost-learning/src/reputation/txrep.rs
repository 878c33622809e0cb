//! TxRep: moves a score towards the averages of several identities of its sender.

use super::history::SenderHistory;
use super::key::{key, network, of_all_networks};
use super::lesson::SenderChange;
use super::sender::Sender;
use super::settings::TxrepSettings;
use super::table::ReputationTable;
use crate::bayes::Class;

/// Below this score the border of trust is ignored.
const LOW_SCORE: f64 = 2.0;

/// An average in which a message counts.
struct WeightedAverage {
    key: Vec<u8>,
    weight: f64,
}

impl ReputationTable {
    /// The adjustment of TxRep for a message with the score `points`, and the changes that count
    /// the message. `None` if there is no adjustment.
    pub fn txrep(
        &self,
        sender: &Sender,
        points: f64,
        settings: &TxrepSettings,
    ) -> (Option<f64>, Vec<SenderChange>) {
        let mut changes = Vec::new();
        if !settings.enabled || sender.address.is_empty() {
            return (None, changes);
        }
        let message = message_key(sender);
        if settings.track_messages
            && let Some(known) = self.history(&message).and_then(SenderHistory::mean)
        {
            // The message is known: its earlier score counts, and no average changes.
            let drawn = (points + settings.factor * known) / (1.0 + settings.factor);
            return (delta_of(drawn - points), changes);
        }
        if settings.welcomelist_out > 0.0 {
            // A local user writes to these addresses.
            let recipients = sender.recipients.iter();
            changes.extend(recipients.map(|recipient| {
                SenderChange::of_person(recipient, Some(-settings.welcomelist_out))
            }));
        }
        let (mut sum, mut weight_sum) = (0.0, 0.0);
        for identity in identities(sender, points, settings) {
            // One of them may be there twice.
            let entry = self.history_after(&changes, &identity.key);
            sum += identity.weight * draw(entry, points);
            weight_sum += identity.weight;
            changes.push(SenderChange::count(identity.key, points));
        }
        let delta = if weight_sum > 0.0 {
            settings.factor * sum / weight_sum
        } else {
            0.0
        };
        if settings.track_messages {
            changes.push(SenderChange::Note(message, points + delta));
        }
        (delta_of(delta), changes)
    }

    /// The history of a key after changes by this message.
    fn history_after(&self, changes: &[SenderChange], key: &[u8]) -> SenderHistory {
        let known = self.history(key).unwrap_or_default();
        changes
            .iter()
            .fold(known, |mut history, change| match change {
                SenderChange::Set(prefix, points) if of_all_networks(prefix) == key => {
                    SenderHistory::of_one(*points, 0)
                }
                SenderChange::Set(prefix, _) if key.starts_with(prefix) => SenderHistory::default(),
                SenderChange::Add(counted, count, total) if counted == key => {
                    history.add(*count, *total, 0);
                    history
                }
                _ => history,
            })
    }

    /// The changes by which a person's classification of a message counts.
    pub fn txrep_learn(
        &self,
        sender: &Sender,
        class: Class,
        settings: &TxrepSettings,
    ) -> Vec<SenderChange> {
        if !settings.enabled || sender.address.is_empty() {
            return Vec::new();
        }
        let points = match class {
            Class::Spam => settings.learn_penalty,
            Class::Ham => -settings.learn_bonus,
        };
        let message = message_key(sender);
        let known = self.history(&message);
        // A count above one means that the message was learned before: that is undone first.
        let mut changes = if known.is_some_and(|entry| entry.count > 1) {
            self.txrep_forget(sender, settings)
        } else {
            Vec::new()
        };
        changes.push(SenderChange::Learn {
            keys: keys(sender, points, settings),
            message: settings.track_messages.then_some(message),
            points,
        });
        changes
    }

    /// The changes that subtract the contribution of a message.
    pub fn txrep_forget(&self, sender: &Sender, settings: &TxrepSettings) -> Vec<SenderChange> {
        if !settings.enabled {
            return Vec::new();
        }
        let message = message_key(sender);
        let points = self.history(&message).and_then(SenderHistory::mean);
        let unlearn = points.map(|points| SenderChange::Unlearn {
            keys: keys(sender, points, settings),
            message,
        });
        unlearn.into_iter().collect()
    }
}

/// The keys of the averages in which a message counts.
fn keys(sender: &Sender, points: f64, settings: &TxrepSettings) -> Vec<Vec<u8>> {
    let identities = identities(sender, points, settings).into_iter();
    identities.map(|identity| identity.key).collect()
}

fn delta_of(delta: f64) -> Option<f64> {
    let delta = (delta * 1000.0).round() / 1000.0;
    (delta != 0.0).then_some(delta)
}

fn message_key(sender: &Sender) -> Vec<u8> {
    key(&String::from_utf8_lossy(&sender.message_id), None)
}

/// The movement of a score by one average: towards the average that includes the message, but never
/// across it when both have the same sign.
fn draw(entry: SenderHistory, points: f64) -> f64 {
    let count = 1.0 + f64::from(entry.count);
    let delta = (entry.total + points) / count - points;
    let softens_spam = entry.total > 0.0 && points > 0.0 && delta < 0.0;
    let hardens_ham = entry.total < 0.0 && points < 0.0 && delta > 0.0;
    if softens_spam || hardens_ham {
        entry.total / count
    } else {
        delta
    }
}

/// The averages in which a message counts.
fn identities(sender: &Sender, points: f64, settings: &TxrepSettings) -> Vec<WeightedAverage> {
    let (ip, helo) = origin(sender, points);
    let network = ip
        .as_deref()
        .and_then(|ip| network(ip, settings.ipv4_bits, settings.ipv6_bits));
    let network = network.as_deref();
    // Inside, an address has one average, the one that messages to it improve.
    let is_inside = settings.welcomelist_out > 0.0 && !sender.recipients.is_empty();
    let network_of_address = network.filter(|_| !is_inside);
    let weights = &settings.weights;
    let (address, domain) = (sender.address.as_str(), sender.domain());
    let mut all = vec![
        (key(address, network_of_address), weights.email_ip),
        (key(domain, network), weights.domain),
    ];
    if let Some(helo) = helo {
        all.push((key(&helo, None), weights.helo));
    }
    if let Some(ip) = &ip {
        all.push((key(address, None), weights.email));
        all.push((key(ip, None), weights.ip));
    }
    all.into_iter()
        .filter(|(_, weight)| *weight > 0.0)
        .map(|(key, weight)| WeightedAverage { key, weight })
        .collect()
}

/// The address from which the first untrusted relay received the message, and the last relay name
/// that is more specific than the address.
fn origin(sender: &Sender, points: f64) -> (Option<String>, Option<String>) {
    let (mut origin, mut name) = (None, None);
    for (index, (ip, is_private, helo)) in sender.relays.iter().enumerate() {
        let says_more = !helo.is_empty()
            && helo.trim_start_matches('[').trim_end_matches(']') != ip
            && !helo.eq_ignore_ascii_case(sender.domain())
            && !helo.eq_ignore_ascii_case(&sender.address);
        if says_more {
            name = Some(helo.clone());
        }
        if ip.is_empty() {
            continue;
        }
        if (index <= sender.trusted || points < LOW_SCORE) && !is_private {
            origin = Some(ip.clone());
        }
        if index < sender.trusted && origin.is_none() && *is_private {
            origin = Some("127.0.0.1".to_owned());
        }
    }
    (origin, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(message: &str) -> Sender {
        Sender {
            address: "anna@example.org".to_owned(),
            from_field: true,
            relays: vec![("192.0.2.1".to_owned(), false, "mx.example.net".to_owned())],
            message_id: message.as_bytes().to_vec(),
            ..Sender::default()
        }
    }

    fn on() -> TxrepSettings {
        TxrepSettings {
            enabled: true,
            ..TxrepSettings::default()
        }
    }

    fn scanned(table: &ReputationTable, sender: &Sender, points: f64) -> Option<f64> {
        scanned_with(table, sender, points, &on())
    }

    fn scanned_with(
        table: &ReputationTable,
        sender: &Sender,
        points: f64,
        settings: &TxrepSettings,
    ) -> Option<f64> {
        let (delta, changes) = table.txrep(sender, points, settings);
        table.carry_out(&changes, 1);
        delta
    }

    #[test]
    fn a_known_sender_draws_the_score() {
        let table = ReputationTable::in_memory();
        assert_eq!(scanned(&table, &sender("1"), -4.0), None, "all is new");
        // All averages agree: ((-4 + 6) / 2 - 6) / 2.
        assert_eq!(scanned(&table, &sender("2"), 6.0), Some(-2.5));
        assert_eq!(table.len(), 5 + 2, "five averages and two messages");
        let before = table.entry("anna@example.org", None);
        assert!(scanned(&table, &sender("2"), 6.0).is_some());
        assert_eq!(
            table.entry("anna@example.org", None),
            before,
            "counted once"
        );
    }

    #[test]
    fn learning_is_counted_and_undone_by_forgetting() {
        let (table, settings) = (ReputationTable::in_memory(), on());
        let changes = table.txrep_learn(&sender("1"), Class::Spam, &settings);
        table.carry_out(&changes, 1);
        let entry = table.entry("anna@example.org", None).expect("is known");
        assert!((entry.total - 20.0).abs() < 1e-9);
        let changes = table.txrep_forget(&sender("1"), &settings);
        table.carry_out(&changes, 2);
        let entry = table.entry("anna@example.org", None).expect("is known");
        assert!(entry.total.abs() < 1e-9);
        assert!(scanned_with(&table, &sender("2"), 5.0, &TxrepSettings::default()).is_none());
    }

    #[test]
    fn outbound_mail_improves_the_reputation_of_its_recipients() {
        let table = ReputationTable::in_memory();
        let outbound = Sender {
            recipients: vec!["bert@example.net".to_owned()],
            ..sender("1")
        };
        let off = TxrepSettings {
            welcomelist_out: 0.0,
            ..on()
        };
        scanned_with(&table, &outbound, 1.0, &off);
        assert_eq!(table.entry("bert@example.net", None), None);
        let second = Sender {
            message_id: b"2".to_vec(),
            ..outbound
        };
        scanned(&table, &second, 1.0);
        let entry = table.entry("bert@example.net", None).expect("is known");
        assert_eq!(
            (entry.count, entry.total.to_bits()),
            (1, (-10.0_f64).to_bits())
        );
        // His own message from inside counts with this average, by both weights of addresses: -10
        // of one message, and then -9 of two.
        let answer = Sender {
            address: "bert@example.net".to_owned(),
            recipients: vec!["anna@example.org".to_owned()],
            relays: vec![("192.0.2.1".to_owned(), false, String::new())],
            ..sender("3")
        };
        let weights = &on().weights;
        let sum = weights.email_ip * -5.5 + weights.email * (-8.0 / 3.0 - 1.0);
        let all = weights.email_ip + weights.domain + weights.email + weights.ip;
        let expected = (0.5 * sum / all * 1000.0).round() / 1000.0;
        assert_eq!(scanned(&table, &answer, 1.0), Some(expected));
    }
}
