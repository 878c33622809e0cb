//! Mistakes in `[[topics]]` that no single value reveals.

use gatepost_message::{TopicFilter, filter_covers};

use crate::schema::JsonSchema;
use crate::settings::TopicSettings;

/// A mistake: the key, as in `topics.0.filter`, and what is wrong with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMistake {
    /// The dotted key.
    pub key: String,
    /// The cause and the remedy.
    pub reason: String,
}

/// The mistakes in all tables. Reads the schemas.
pub fn mistakes(tables: &[TopicSettings]) -> Vec<TopicMistake> {
    let mut found = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let mut add = |field: &str, reason: String| {
            let key = format!("topics.{number}.{field}");
            found.push(TopicMistake { key, reason });
        };
        if let Some(reason) = filter_mistake(&table.filter, &tables[..number]) {
            add("filter", reason);
        }
        if table.messages_max > 0 && table.messages_per.duration().is_zero() {
            add("messages_per", "write a time, such as \"1m\"".to_owned());
        }
        if table
            .history_age_max
            .is_some_and(|age| age.duration().is_zero())
        {
            let reason = "write a time, or history_messages_max = 0 for no history";
            add("history_age_max", reason.to_owned());
        }
        if table.priority > 5 {
            add(
                "priority",
                "write a number from 1 to 5, or 0 for none".to_owned(),
            );
        }
        if let Some(file) = &table.schema
            && let Err(reason) = JsonSchema::read(file)
        {
            add("schema", reason);
        }
    }
    found
}

fn filter_mistake(filter: &str, earlier: &[TopicSettings]) -> Option<String> {
    if let Err(error) = TopicFilter::new(filter) {
        return Some(format!("write the filter of the topics: {error}"));
    }
    if filter.starts_with('$') {
        return Some("topics that begin with $ are the server's".to_owned());
    }
    let covering = |table: &&TopicSettings| filter_covers(&table.filter, filter);
    earlier.iter().find(covering).map(|table| {
        format!(
            "never applies, because the earlier filter {:?} matches the same topics; write the \
             more specific filter first",
            table.filter
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_settings::Period;

    fn table(change: impl FnOnce(&mut TopicSettings)) -> TopicSettings {
        let mut table = TopicSettings {
            filter: "a/b".to_owned(),
            ..TopicSettings::default()
        };
        change(&mut table);
        table
    }

    #[test]
    fn each_mistake_is_found_at_its_key() {
        let later = |filter: &str| {
            let filter = filter.to_owned();
            [table(|_| {}), table(|table| table.filter = filter)]
        };
        assert_eq!(mistakes(&later("a/#")), []);
        assert_eq!(mistakes(&later("a/b/c")), []);
        for filter in ["a/b", "", "$SYS/#", "a/#/b"] {
            let found = mistakes(&later(filter));
            let keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
            assert_eq!(keys, ["topics.1.filter"], "{filter}");
        }
        for (key, wrong) in [
            (
                "topics.0.messages_per",
                table(|table| {
                    table.messages_max = 1;
                    table.messages_per = Period::seconds(0);
                }),
            ),
            (
                "topics.0.history_age_max",
                table(|table| table.history_age_max = Some(Period::seconds(0))),
            ),
            ("topics.0.priority", table(|table| table.priority = 6)),
            (
                "topics.0.schema",
                table(|table| table.schema = Some("/nowhere/schema.json".into())),
            ),
        ] {
            let found = mistakes(&[wrong]);
            let keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
            assert_eq!(keys, [key]);
        }
    }
}
