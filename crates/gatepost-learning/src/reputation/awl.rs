//! AWL: moves a score towards the average of its sender's messages.

use super::key::{key, network, prefix};
use super::sender::Sender;
use super::settings::AwlSettings;
use super::table::ReputationTable;

impl ReputationTable {
    /// Returns the adjustment of AWL for a message with the score `points`, and counts the message.
    /// `None` if there is no adjustment: AWL is disabled, or the sender is unknown or new, or the
    /// average equals the score.
    pub fn awl(&self, sender: &Sender, points: f64, settings: &AwlSettings) -> Option<f64> {
        if !settings.enabled || !sender.from_field {
            return None;
        }
        let network = sender
            .first_public_ip
            .as_deref()
            .and_then(|ip| network(ip, settings.ipv4_bits, settings.ipv6_bits));
        let own = key(&sender.address, network.as_deref());
        let anywhere = key(&sender.address, None);
        let mut shard = self.shard(&own);
        let mut entry = shard.get(&own).unwrap_or_default();
        if entry.count == 0
            && sender.first_public_ip.is_some()
            && let Some(known) = shard.get(&anywhere).filter(|known| known.count > 0)
        {
            // An address that was entered manually takes on the network from which it is first
            // seen.
            shard.remove_all(&prefix(&sender.address));
            entry = known;
        }
        let mean = entry.mean();
        // Counted without the adjustment: otherwise early scores would reinforce themselves.
        entry.add(points);
        shard.set(own, entry);
        let delta = (mean? - points) * settings.factor;
        let delta = (delta * 1000.0).round() / 1000.0;
        (delta != 0.0).then_some(delta)
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

    #[test]
    fn a_score_is_drawn_half_way_to_the_average_of_before() {
        let (table, settings) = (ReputationTable::in_memory(), AwlSettings::default());
        let anna = sender("anna@example.org", "192.0.2.1");
        assert_eq!(table.awl(&anna, 2.0, &settings), None, "she is new");
        assert_eq!(table.awl(&anna, 10.0, &settings), Some(-4.0));
        // The average is now (2 + 10) / 2.
        assert_eq!(table.awl(&anna, 6.0, &settings), None);
        let elsewhere = sender("anna@example.org", "198.51.100.1");
        assert_eq!(
            table.awl(&elsewhere, 6.0, &settings),
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
            assert_eq!(table.awl(&anna, 5.0, &settings), None);
        }
        assert!(table.is_empty());
    }
}
