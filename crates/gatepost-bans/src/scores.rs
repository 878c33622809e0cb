//! The points of each network with recent offences.
//!
//! Each point moves a timestamp into the future, and the network has recovered when that time is
//! reached (the generic cell rate algorithm), so one timestamp per network is sufficient and no
//! timer runs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gatepost_settings::PeerNetwork;

use crate::BansSettings;
use crate::offence::{Offence, OffenceCounts};

/// The number of entries that are compared when the table is full; the one with the fewest points
/// is removed.
const COMPARED: usize = 8;

#[derive(Debug)]
pub(crate) struct Scores {
    by_network: HashMap<PeerNetwork, OffenceScore>,
    networks_max: usize,
    /// The time in which one point expires.
    per_point: Duration,
    window: Duration,
}

#[derive(Debug)]
struct OffenceScore {
    recovered: Instant,
    counts: OffenceCounts,
}

impl Scores {
    pub(crate) fn new(settings: &BansSettings) -> Self {
        let window = settings.window.duration();
        Self {
            by_network: HashMap::new(),
            networks_max: settings.networks_max.max(1),
            per_point: window / settings.points_max.max(1),
            window,
        }
    }

    /// Counts an offence. Returns the offences of a network that has reached the limit, and resets
    /// them.
    pub(crate) fn add(
        &mut self,
        network: PeerNetwork,
        offence: Offence,
        points: u32,
        now: Instant,
    ) -> Option<OffenceCounts> {
        if !self.by_network.contains_key(&network) {
            self.make_room(now);
        }
        let score = self.by_network.entry(network).or_insert(OffenceScore {
            recovered: now,
            counts: OffenceCounts::default(),
        });
        if score.recovered <= now {
            *score = OffenceScore {
                recovered: now,
                counts: OffenceCounts::default(),
            };
        }
        score.recovered += self.per_point.saturating_mul(points).min(self.window);
        let count = &mut score.counts[offence as usize];
        *count = count.saturating_add(1);
        // A fraction of a point that expired since the first offence counts as a whole point.
        let is_over = score.recovered + self.per_point > now + self.window;
        if !is_over {
            return None;
        }
        self.by_network.remove(&network).map(|score| score.counts)
    }

    /// Deletes networks that have recovered.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.by_network.retain(|_, score| score.recovered > now);
    }

    fn make_room(&mut self, now: Instant) {
        if self.by_network.len() < self.networks_max {
            return;
        }
        // The map's order is random, so these entries are random ones. An attacker with many
        // addresses cannot displace the worst offenders by filling the table.
        let compared = self.by_network.iter().take(COMPARED);
        let least = compared
            .min_by_key(|(_, score)| score.recovered.saturating_duration_since(now))
            .map(|(network, _)| *network);
        if let Some(network) = least {
            self.by_network.remove(&network);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_network.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_settings::Period;

    fn scores(points_max: u32, networks_max: usize) -> Scores {
        Scores::new(&BansSettings {
            points_max,
            networks_max,
            window: Period::seconds(60),
            ..BansSettings::default()
        })
    }

    fn network(number: u32) -> PeerNetwork {
        PeerNetwork::around(std::net::Ipv4Addr::from_bits(number).into(), 32, 64)
    }

    #[test]
    fn offences_add_up_and_are_forgotten() {
        let mut scores = scores(6, 100);
        let start = Instant::now();
        let mut add = |offence, points, seconds| {
            let now = start + Duration::from_secs(seconds);
            scores.add(network(1), offence, points, now)
        };
        assert_eq!(add(Offence::Login, 3, 0), None);
        assert_eq!(add(Offence::Spam, 2, 0), None);
        assert_eq!(add(Offence::Login, 1, 1), Some([2, 0, 0, 1]));
        assert_eq!(add(Offence::Login, 5, 2), None, "a new start");
        // A point expires in 10 s.
        assert_eq!(add(Offence::Login, 2, 32), None);
        assert_eq!(add(Offence::Login, 2, 33), Some([3, 0, 0, 0]));
    }

    #[test]
    fn a_full_table_keeps_the_worst_offenders() {
        const NETWORKS_MAX: usize = 4;
        let mut scores = scores(1_000, NETWORKS_MAX);
        let now = Instant::now();
        assert_eq!(scores.add(network(0), Offence::Login, 500, now), None);
        for number in 1..10_000 {
            assert_eq!(scores.add(network(number), Offence::Login, 1, now), None);
        }
        assert_eq!(scores.len(), NETWORKS_MAX);
        assert!(scores.add(network(0), Offence::Login, 500, now).is_some());
        scores.sweep(now + Duration::from_mins(2));
        assert_eq!(scores.len(), 0);
    }
}
