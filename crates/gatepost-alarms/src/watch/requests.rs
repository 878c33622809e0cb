//! Requests of operators: to acknowledge, to snooze, to forget.

use std::sync::Arc;
use std::time::Duration;

use super::AlarmWatch;
use crate::notice::NoticeState;
use crate::topic_state::{AlarmMoment, RaisedAlarm};

/// The longest time for which an alarm can be snoozed: ten years.
const SNOOZE_TIME_MAX: Duration = Duration::from_hours(10 * 365 * 24);

impl AlarmWatch {
    /// Forgets a topic; a topic that is watched by name gets a new state.
    pub(crate) fn forget(&mut self, topic: &str, now: AlarmMoment) -> bool {
        let Some((topic, mut state)) = self.topics.remove_entry(topic) else {
            return false;
        };
        if let Some(armed) = state.armed {
            self.due.remove(&(armed, topic.clone()));
        }
        let notice = state
            .raised
            .take()
            .and_then(|raised| self.notice(&topic, NoticeState::Cleared, raised, None));
        self.changed(&topic, notice);
        self.begin(now);
        true
    }

    /// Acknowledges raised alarms; returns the number of topics.
    pub(crate) fn acknowledge(&mut self, topic: Option<&str>, by: &str) -> usize {
        let mut acknowledged = 0;
        for topic in self.named(topic) {
            let state = self.topics.get_mut(&topic);
            let Some(state) = state else { continue };
            if let Some(raised) = &mut state.raised {
                raised.acknowledged_by = Some(by.to_owned());
                state.announce_at = None;
                acknowledged += 1;
                self.changed(&topic, None);
            }
        }
        acknowledged
    }

    /// Suppresses notices of these topics until then; returns their number.
    pub(crate) fn snooze(
        &mut self,
        topic: Option<&str>,
        time: Duration,
        now: AlarmMoment,
    ) -> usize {
        let time = time.min(SNOOZE_TIME_MAX);
        let until = AlarmMoment {
            steady: now.steady + time,
            unix_ms: now.unix_ms.saturating_add(time.as_millis() as u64),
        };
        let named = self.named(topic);
        for topic in &named {
            if let Some(state) = self.topics.get_mut(topic) {
                state.snoozed_until = (!time.is_zero()).then_some(until);
                // The end of the snooze publishes the alarm again; if the snooze is cancelled
                // early, only an alarm that is not acknowledged.
                let reminds =
                    |raised: &RaisedAlarm| !time.is_zero() || raised.acknowledged_by.is_none();
                let is_raised = state.raised.as_ref().is_some_and(reminds);
                state.announce_at = is_raised.then_some(until.steady);
            }
            self.changed(topic, None);
            self.evaluate_topic(topic, now);
        }
        named.len()
    }

    /// The topics that an operator means: one, or all.
    fn named(&self, topic: Option<&str>) -> Vec<Arc<str>> {
        match topic {
            None => self.topics.keys().cloned().collect(),
            Some(topic) => {
                let known = self.topics.get_key_value(topic);
                known.map(|(topic, _)| topic.clone()).into_iter().collect()
            }
        }
    }
}
