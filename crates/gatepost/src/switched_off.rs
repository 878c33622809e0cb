//! The limits of a config that are switched off.

use toml::Value;

use crate::config::Config;

/// Settings that set no limit if they are 0.
const LIMITS: [&str; 30] = [
    "listeners.smtp.connections_max",
    "listeners.smtp.connections_per_address_max",
    "listeners.lmtp.connections_max",
    "listeners.lmtp.connections_per_address_max",
    "listeners.milter.connections_max",
    "listeners.milter.connections_per_address_max",
    "listeners.spamd.connections_max",
    "listeners.spamd.connections_per_address_max",
    "listeners.call.connections_max",
    "listeners.call.connections_per_address_max",
    "listeners.pop3.connections_max",
    "listeners.pop3.connections_per_address_max",
    "listeners.mqtt.connections_max",
    "listeners.mqtt.connections_per_address_max",
    "listeners.http.connections_max",
    "listeners.http.connections_per_address_max",
    "listeners.smtp.data_rate_min",
    "listeners.lmtp.data_rate_min",
    "listeners.mqtt.packet_rate_min",
    "listeners.http.body_rate_min",
    "listeners.http.write_rate_min",
    "listeners.http.requests_per_second",
    "listeners.http.requests_per_second_per_address",
    "listeners.http.bandwidth",
    "listeners.http.bandwidth_per_address",
    "broker.connections_per_user_max",
    "broker.connects_per_second_max",
    "broker.publishes_per_second_max",
    "broker.memory_max",
    "bans.connects_per_second",
];

/// The limits that are 0.
pub(crate) fn switched_off(config: &Config) -> Vec<&'static str> {
    let Ok(config) = Value::try_from(config) else {
        return Vec::new();
    };
    let mut limits = LIMITS.to_vec();
    limits.retain(|key| is_zero(&config, key));
    limits
}

fn is_zero(config: &Value, key: &str) -> bool {
    let value = key
        .split('.')
        .try_fold(config, |table, part| table.get(part));
    value.is_some_and(|value| value.as_integer() == Some(0) || value.as_str() == Some("0B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_a_setting() {
        let config = Value::try_from(Config::default()).expect("a table");
        for key in LIMITS {
            let value = key
                .split('.')
                .try_fold(&config, |table, part| table.get(part));
            assert!(value.is_some(), "{key}");
        }
    }
}
