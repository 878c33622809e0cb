//! Distinguishes settings from other environment variables with the prefix `GATEPOST_`.
//!
//! Kubernetes and Docker describe the services that a container can reach by variables, named after
//! the service. The variables of a service called `gatepost` or `gatepost-mqtt` have our prefix and
//! must not stop the server as unknown keys. Their names have fixed endings and never two
//! consecutive underscores, and no top-level setting has such a name. Therefore a name with `__` is
//! always a setting, one with such an ending never is, and any other name is a setting, so that a
//! misspelt one is still reported.

/// Reserved names that are not settings: the path of the configuration, and variables of the tests.
const RESERVED: [&str; 2] = ["CONFIG", "TEST_"];

/// Whether the variable with this name after the prefix is a setting.
pub(super) fn is_setting(rest: &str) -> bool {
    let is_reserved = RESERVED.iter().any(|reserved| rest.starts_with(reserved));
    !is_reserved && (rest.contains("__") || !describes_service(rest))
}

/// Whether a container platform defines such a name: `{NAME}_SERVICE_HOST`,
/// `{NAME}_SERVICE_PORT[_{PORT NAME}]`, `{NAME}_PORT`, `{NAME}_PORT_1883_TCP[_ADDR|_PORT|_PROTO]`,
/// and for Docker's links `{NAME}_NAME` and `{NAME}_ENV_{VARIABLE}`.
fn describes_service(rest: &str) -> bool {
    let words: Vec<&str> = rest.split('_').collect();
    let follows = |at: usize| words.get(at + 1..).unwrap_or_default();
    words.iter().enumerate().any(|(at, &word)| match word {
        "SERVICE" => matches!(follows(at), ["HOST"] | ["PORT", ..]),
        "PORT" => matches!(
            follows(at),
            [] | [_, "TCP" | "UDP" | "SCTP"]
                | [_, "TCP" | "UDP" | "SCTP", "ADDR" | "PORT" | "PROTO"]
        ),
        "NAME" => follows(at).is_empty(),
        "ENV" => !follows(at).is_empty(),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_services_are_no_settings() {
        for rest in [
            "PORT",
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_MQTT_TLS",
            "PORT_1883_TCP",
            "PORT_1883_TCP_ADDR",
            "PORT_1883_TCP_PORT",
            "PORT_1883_TCP_PROTO",
            "PORT_53_UDP_ADDR",
            "MQTT_SERVICE_HOST",
            "MQTT_PORT_1883_TCP_ADDR",
            "DATA_PORT",
            "NAME",
            "ENV_PATH",
            "CONFIG",
            "TEST_CORPORA",
        ] {
            assert!(!is_setting(rest), "{rest}");
        }
        for rest in [
            "DATA",
            "DTA",
            "LOG__LEVEL",
            "LISTENERS__SMTP__PORT",
            "SERVICE__HOST",
            "SANDBOX",
        ] {
            assert!(is_setting(rest), "{rest}");
        }
    }
}
