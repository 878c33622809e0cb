//! The options of `gatepost pub` and `gatepost sub`. They are those of mosquitto's clients, so that
//! scripts need no changes.

use clap::Args;
use gatepost_message::Qos;
use gatepost_mqtt::Version;

use super::login::LoginOptions;
use super::{BrokerAddress, CertificateOptions, ClientError};

#[derive(Debug, Args)]
pub(crate) struct ClientOptions {
    /// The broker's host, or the path of its Unix socket [default: localhost]
    #[arg(short = 'h', long = "host", value_name = "HOST")]
    host: Option<String>,
    /// The broker's port [default: 1883, with TLS 8883]
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<u16>,
    /// Host, port, user, password and topic in one: mqtt://USER:PASSWORD@HOST:PORT/TOPIC, or
    /// mqtts://
    #[arg(short = 'L', long, value_name = "URL", conflicts_with_all = ["host", "port"])]
    url: Option<String>,
    /// The QoS: 0 at most once, 1 at least once, 2 exactly once
    #[arg(
        short, long, value_name = "0|1|2", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=2),
    )]
    qos: u8,
    /// The client id; without one the broker chooses
    #[arg(short, long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    login: LoginOptions,
    #[command(flatten)]
    pub(super) certificates: CertificateOptions,
    /// Use TLS, trusting the system's authorities
    #[arg(long)]
    tls: bool,
    /// The version of the protocol: 5, 311 or 31 (also as mqttv5, mqttv311, mqttv31)
    #[arg(
        id = "protocol_version", short = 'V', long = "protocol-version", value_name = "VERSION",
        default_value = "5", value_parser = version,
    )]
    pub(crate) version: Version,
    /// The longest silence, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) keepalive: u16,
    /// The time for which the session outlives the connection, in seconds; -1 for no expiry
    /// (version 5)
    #[arg(
        short = 'x',
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true
    )]
    pub(super) session_expiry_interval: Option<i64>,
    /// A property (repeatable): -D publish content-type text/plain, -D publish user-property k v
    #[arg(
        short = 'D', long, value_names = ["PACKET", "NAME", "VALUE"], num_args = 3..=4,
        action = clap::ArgAction::Append,
    )]
    pub(super) property: Vec<String>,
    /// The topic of the will
    #[arg(long, value_name = "TOPIC")]
    pub(super) will_topic: Option<String>,
    /// The will's payload
    #[arg(long, value_name = "TEXT", requires = "will_topic")]
    pub(super) will_payload: Option<String>,
    /// The will's QoS
    #[arg(
        long, value_name = "0|1|2", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=2),
    )]
    pub(super) will_qos: u8,
    /// Retain the will for later subscribers
    #[arg(long, requires = "will_topic")]
    pub(super) will_retain: bool,
    /// Exit when the connection is lost, instead of reconnecting with growing pauses
    #[arg(long)]
    pub(crate) no_reconnect: bool,
    /// Also retry if the first connection fails
    #[arg(long, conflicts_with = "no_reconnect")]
    pub(crate) retry: bool,
    /// Print the events of the connection
    #[arg(short = 'd', long)]
    pub(crate) debug: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

fn version(text: &str) -> Result<Version, String> {
    match text {
        "5" | "mqttv5" => Ok(Version::Mqtt5),
        "311" | "mqttv311" => Ok(Version::Mqtt311),
        "31" | "mqttv31" => Ok(Version::Mqtt31),
        _ => Err("the versions are 5, 311 and 31".to_owned()),
    }
}

impl ClientOptions {
    pub(crate) fn address(&self) -> Result<BrokerAddress, ClientError> {
        let mut address = match &self.url {
            Some(url) => BrokerAddress::parse(url)?,
            None => BrokerAddress {
                host: self.host.clone().unwrap_or_else(|| "localhost".to_owned()),
                port: self.port,
                ..BrokerAddress::default()
            },
        };
        address.tls |= self.tls || self.certificates.cafile.is_some();
        self.login.add_to(&mut address)?;
        Ok(address)
    }

    pub(crate) fn qos(&self) -> Qos {
        Qos::from_level(self.qos).unwrap_or_default()
    }

    /// Empty if the broker must choose one, which MQTT 3.1 does not support.
    pub(crate) fn client_id(&self) -> String {
        match &self.id {
            Some(id) => id.clone(),
            None if self.version == Version::Mqtt31 => format!("gatepost-{}", std::process::id()),
            None => String::new(),
        }
    }

    /// Prints a line about the connection, with `--debug`.
    pub(crate) fn print_verbose(&self, text: std::fmt::Arguments<'_>) {
        if self.debug {
            eprintln!("gatepost: {text}");
        }
    }
}
