//! The login of the clients at the broker under test.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ClientName;
use crate::error::BenchError;
use crate::password_file;

/// The part of a user name or a password that stands for the client's number.
const NUMBER: &str = "%i";

/// The login of the clients, if the broker under test requires one.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize)]
pub struct LoginArguments {
    /// The user name of the clients at the server (MQTT and NATS); %i stands for the number of
    /// each client, from 0
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// A file with the password of --user in its first line; %i as there
    #[arg(long, value_name = "FILE", requires = "user")]
    #[serde(skip)]
    password_file: Option<PathBuf>,
}

impl LoginArguments {
    /// Refuses a login of clients on agents: it would be sent through the agents' broker, and an
    /// agent that reads a file by an order could be made to send any file.
    pub(crate) fn refuse_on_agents(&self) -> Result<(), BenchError> {
        if self.user.is_none() {
            return Ok(());
        }
        let reason = "--user is not possible with --join: agents have no login for the server";
        Err(BenchError::Settings(reason.into()))
    }

    /// Reads the password.
    pub(super) fn credentials(&self) -> Result<Option<ClientCredentials>, BenchError> {
        let Some(user) = self.user.clone() else {
            return Ok(None);
        };
        let password = password_file::read(self.password_file.as_deref())?;
        Ok(Some(ClientCredentials { user, password }))
    }
}

/// User name and password, for all clients or for each by its number.
#[derive(Clone)]
pub(super) struct ClientCredentials {
    user: String,
    password: Option<String>,
}

impl ClientCredentials {
    /// The user name and the password of a client.
    pub(super) fn of(&self, client: &ClientName) -> (String, Option<String>) {
        let numbered = |text: &String| text.replace(NUMBER, &client.number.to_string());
        (numbered(&self.user), self.password.as_ref().map(numbered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::BrokerEndpoint;
    use crate::target::Endpoint;
    use gatepost_mqtt::{Packet, Version, decode_next};

    fn broker(url: &str, login: &LoginArguments) -> Result<BrokerEndpoint, BenchError> {
        let Endpoint::Url(url) = url.parse().expect("a target") else {
            panic!("{url} is a URL");
        };
        let broker = BrokerEndpoint::of(&url).expect("an address");
        broker.expect("a broker").with_login(login)
    }

    #[test]
    fn each_client_has_the_login_of_its_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("password");
        std::fs::write(&file, "a %i b\nmore\n").expect("written");
        let login = LoginArguments {
            user: Some("dev\"%i".into()),
            password_file: Some(file),
        };
        let client = ClientName {
            id: "c".into(),
            number: 12,
        };
        let mut bytes = Vec::new();
        let mqtt = broker("mqtt5://127.0.0.1:1", &login).expect("a login");
        mqtt.open(&client, "", &mut bytes);
        let decoded = decode_next(Version::Mqtt5, &bytes, 1_000).expect("valid");
        let Some((Packet::Connect(connect), _)) = decoded else {
            panic!("{decoded:?}");
        };
        assert_eq!(connect.user_name, Some("dev\"12"));
        assert_eq!(connect.password, Some(b"a 12 b".as_slice()));

        let mut bytes = Vec::new();
        let nats = broker("nats://127.0.0.1:1", &login).expect("a login");
        nats.login(&client, &mut bytes);
        let text = String::from_utf8(bytes).expect("text");
        let (connect, ping) = text.split_once("\r\n").expect("two lines");
        let connect = connect.strip_prefix("CONNECT ").expect(connect);
        let connect: serde_json::Value = serde_json::from_str(connect).expect("JSON");
        assert_eq!(
            (&connect["user"], &connect["pass"], &connect["name"]),
            (&"dev\"12".into(), &"a 12 b".into(), &"c".into())
        );
        assert_eq!(ping, "PING\r\n");

        for url in ["redis://127.0.0.1:1", "sse://127.0.0.1:1/{topic}"] {
            assert!(broker(url, &login).is_err(), "{url}");
            assert!(broker(url, &LoginArguments::default()).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_result_keeps_the_user_but_no_password() {
        let login = LoginArguments {
            user: Some("dev%i".into()),
            password_file: Some("secret".into()),
        };
        let stored = serde_json::json!(login);
        assert_eq!(stored, serde_json::json!({"user": "dev%i"}));
        assert!(login.refuse_on_agents().is_err());
        assert_eq!(
            serde_json::json!(LoginArguments::default()),
            serde_json::json!({})
        );
    }
}
