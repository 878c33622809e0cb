//! AWL: moves a score towards the average of its sender's messages.

use super::key::{key, network};
use super::lesson::SenderChange;
use super::sender::Sender;
use super::settings::AwlSettings;
use super::table::ReputationTable;

impl ReputationTable {
    /// The adjustment of AWL for a message with the score `points`, and the changes that count the
    /// message. No adjustment if AWL is disabled, or the sender is unknown or new, or the average
    /// equals the score.
    pub fn awl(
        &self,
        sender: &Sender,
        points: f64,
        settings: &AwlSettings,
    ) -> (Option<f64>, Vec<SenderChange>) {
        let mut changes = Vec::new();
        if !settings.enabled || !sender.from_field {
            return (None, changes);
        }
        let network = sender
            .first_public_ip
            .as_deref()
            .and_then(|ip| network(ip, settings.ipv4_bits, settings.ipv6_bits));
        let own = key(&sender.address, network.as_deref());
        let mut entry = self.history(&own).unwrap_or_default();
        if entry.count == 0 && sender.first_public_ip.is_some() {
            // An address that was entered manually takes on the network from which it is first
            // seen.
            let anywhere = key(&sender.address, None);
            if let Some(known) = self.history(&anywhere).filter(|known| known.count > 0) {
                changes.push(SenderChange::TakeOver(own.clone(), anywhere));
                entry = known;
            }
        }
        // Counted without the adjustment: otherwise early scores would reinforce themselves.
        changes.push(SenderChange::count(own, points));
        let delta = entry.mean().map(|mean| (mean - points) * settings.factor);
        let delta = delta.map(|delta| (delta * 1000.0).round() / 1000.0);
        (delta.filter(|delta| *delta != 0.0), changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(address: &str, ip: &str) -> Sender {
        Sender {
            address: address.to_owned(),
            from_field: true,
            first_public_ip: Some(ip.to_owned()),
            ..Sender::default()
        }
    }

    fn scanned(table: &ReputationTable, sender: &Sender, points: f64) -> Option<f64> {
        let (delta, changes) = table.awl(sender, points, &AwlSettings::default());
        table.carry_out(&changes, 1);
        delta
    }

    #[test]
    fn a_score_is_drawn_half_way_to_the_average_of_before() {
        let table = ReputationTable::in_memory();
        let anna = sender("anna@example.org", "192.0.2.1");
        assert_eq!(scanned(&table, &anna, 2.0), None, "she is new");
        assert_eq!(scanned(&table, &anna, 10.0), Some(-4.0));
        // The average is now (2 + 10) / 2.
        assert_eq!(scanned(&table, &anna, 6.0), None);
        let elsewhere = sender("anna@example.org", "198.51.100.1");
        assert_eq!(
            scanned(&table, &elsewhere, 6.0),
            None,
            "another network is new"
        );
        let entry = table.entry("anna@example.org", Some("192.0"));
        assert_eq!(entry.map(|entry| entry.count), Some(3));
    }

    #[test]
    fn switched_off_it_neither_reads_nor_writes() {
        let table = ReputationTable::in_memory();
        let settings = AwlSettings {
            enabled: false,
            ..AwlSettings::default()
        };
        let anna = sender("anna@example.org", "192.0.2.1");
        for _ in 0..3 {
            assert_eq!(table.awl(&anna, 5.0, &settings), (None, Vec::new()));
        }
        assert!(table.is_empty());
    }

    #[test]
    fn an_address_that_was_entered_takes_the_first_network() {
        let table = ReputationTable::in_memory();
        table.carry_out(
            &[SenderChange::of_person("Anna@example.org", Some(-100.0))],
            1,
        );
        let anna = sender("anna@example.org", "192.0.2.1");
        assert_eq!(scanned(&table, &anna, 2.0), Some(-51.0));
        let entry = table.entry("anna@example.org", Some("192.0"));
        assert_eq!(entry.map(|entry| entry.count), Some(2));
        assert_eq!(table.len(), 1);
        table.carry_out(&[SenderChange::of_person("anna@example.org", None)], 2);
        assert!(table.is_empty());
    }
}
