//! CONNECT (MQTT 5 § 3.1) and CONNACK (§ 3.2).

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{Attachment, ConnectOptions, Sink, Welcome, Will};
use gatepost_message::{Publication, Topic};
use gatepost_mqtt::{Connack, Connect, Properties, PropertiesBuffer, Property, Reason, Version};

use super::encoder::{Framing, carried, format};
use super::{MqttContext, MqttSettings};

/// Session Expiry Interval that never ends (§ 3.1.2.11.2).
const EXPIRY_NEVER: u32 = u32::MAX;
const RECEIVE_MAX_DEFAULT: u16 = u16::MAX;
/// As long as the client ids that the broker makes.
const ASSIGNED_CLIENT_ID: &str = "auto-0123456789abc-12345678901234567890";

/// What the connection must know of its CONNECT afterwards.
pub(super) struct Agreed {
    pub(super) version: Version,
    pub(super) attachment: Attachment,
    pub(super) user: Option<Arc<str>>,
    /// Whether reason strings may accompany failures \[MQTT-3.1.2-29\].
    pub(super) tell_why: bool,
    /// The largest packet that the client takes.
    pub(super) packet_bytes_max: usize,
    /// The Session Expiry Interval of CONNECT, in seconds.
    pub(super) expiry_seconds: u32,
}

/// A refused CONNECT: the reason for the CONNACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) version: Version,
    pub(super) reason: Reason,
}

/// The properties of CONNECT.
struct Wishes {
    expiry_seconds: u32,
    receive_max: u16,
    packet_bytes_max: Option<u32>,
    alias_max: u16,
    tell_why: bool,
    has_authentication: bool,
}

impl Wishes {
    fn new(connect: &Connect<'_>) -> Self {
        // [MQTT-3.1.2-23]: before MQTT 5 a session lasts exactly if it is not clean.
        let is_lasting = !connect.version.has_properties() && !connect.clean_start;
        let mut wishes = Self {
            expiry_seconds: if is_lasting { EXPIRY_NEVER } else { 0 },
            receive_max: RECEIVE_MAX_DEFAULT,
            packet_bytes_max: None,
            alias_max: 0,
            tell_why: true,
            has_authentication: false,
        };
        for property in connect.properties.iter() {
            match property {
                Property::SessionExpiryInterval(seconds) => wishes.expiry_seconds = seconds,
                Property::ReceiveMaximum(count) => wishes.receive_max = count,
                Property::MaximumPacketSize(bytes) => wishes.packet_bytes_max = Some(bytes),
                Property::TopicAliasMaximum(max) => wishes.alias_max = max,
                Property::RequestProblemInformation(wanted) => wishes.tell_why = wanted,
                Property::AuthenticationMethod(_) | Property::AuthenticationData(_) => {
                    wishes.has_authentication = true;
                }
                _ => {}
            }
        }
        wishes
    }
}

/// Gives the client its session, or says why not. The CONNACK of success is the session's first
/// frame; it is not yet flushed. `None` instead of a reason where nothing can be said.
pub(super) fn connect(
    connect: &Connect<'_>,
    framing: Framing,
    sink: Arc<dyn Sink>,
    context: &MqttContext,
) -> Result<Agreed, Option<Refused>> {
    let version = connect.version;
    let settings = &context.settings;
    let wishes = Wishes::new(connect);
    let refuse = |reason| Some(Refused { version, reason });
    check(connect, &wishes, settings).map_err(refuse)?;
    let keep_alive_seconds = keep_alive(connect, settings);
    let silence_max = Duration::from_secs(u64::from(keep_alive_seconds) * 3 / 2);
    let will = connect.will.as_ref().map(will);
    let has_will_topic_of_ours = will.as_ref().is_some_and(|will| {
        will.as_ref()
            .is_ok_and(|will| will.publication.topic.is_internal())
    });
    let will = match will.transpose() {
        Ok(will) if !has_will_topic_of_ours => will,
        _ => return Err(refuse(Reason::TOPIC_NAME_INVALID)),
    };
    let options = ConnectOptions {
        client_id: (!connect.client_id.is_empty()).then(|| connect.client_id.to_owned()),
        user: None,
        kind: match framing {
            Framing::Plain => "mqtt",
            Framing::WebSocket => "websocket",
        },
        clean_start: connect.clean_start,
        expiry: expiry(wishes.expiry_seconds),
        receive_max: wishes.receive_max,
        frame_bytes_max: wishes.packet_bytes_max,
        alias_max: wishes.alias_max,
        silence_max: (keep_alive_seconds > 0).then_some(silence_max),
        will,
        format: format(version, framing),
        sink,
    };
    let expiry_max = context.broker.settings().session_expiry_max.duration();
    let greeting = Greeting {
        version,
        settings,
        keep_alive_seconds: (keep_alive_seconds != connect.keep_alive_seconds)
            .then_some(keep_alive_seconds),
        expiry_seconds: (expiry(wishes.expiry_seconds) > expiry_max)
            .then_some(expiry_max.as_secs() as u32),
    };
    if wishes
        .packet_bytes_max
        .is_some_and(|bytes| greeting.length(connect) > bytes as usize)
    {
        return Err(None); // Not even the answer would be taken [MQTT-3.1.2-24].
    }
    let greet = |welcome: Welcome<'_>, out: &mut BytesMut| {
        framing.put(out, |out| greeting.encode(welcome, out));
    };
    let connected = context
        .broker
        .connect(options, greet)
        .map_err(|_| refuse(Reason::QUOTA_EXCEEDED))?;
    Ok(Agreed {
        version,
        attachment: connected.attachment,
        user: connect.user_name.map(Arc::from),
        tell_why: wishes.tell_why,
        packet_bytes_max: wishes
            .packet_bytes_max
            .map_or(usize::MAX, |bytes| bytes as usize),
        expiry_seconds: wishes.expiry_seconds,
    })
}

fn check(connect: &Connect<'_>, wishes: &Wishes, settings: &MqttSettings) -> Result<(), Reason> {
    if wishes.has_authentication {
        return Err(Reason::BAD_AUTHENTICATION_METHOD); // § 4.12
    }
    let is_lasting_and_nameless =
        connect.client_id.is_empty() && !connect.clean_start && !connect.version.has_properties();
    if is_lasting_and_nameless // 3.1.1 [MQTT-3.1.3-8]
        || connect.client_id.len() > settings.client_id_bytes_max
    {
        return Err(Reason::CLIENT_IDENTIFIER_NOT_VALID);
    }
    Ok(())
}

/// What the keep alive is to be \[MQTT-3.1.2-21\]. Before MQTT 5 the client cannot be told of
/// another one.
fn keep_alive(connect: &Connect<'_>, settings: &MqttSettings) -> u16 {
    let max = settings.keep_alive_max_seconds;
    let asked = connect.keep_alive_seconds;
    if connect.version.has_properties() && max > 0 && (asked == 0 || asked > max) {
        max
    } else {
        asked
    }
}

pub(super) const fn expiry(seconds: u32) -> Duration {
    if seconds == EXPIRY_NEVER {
        Duration::MAX
    } else {
        Duration::from_secs(seconds as u64)
    }
}

fn will(will: &gatepost_mqtt::Will<'_>) -> Result<Will, gatepost_message::TopicError> {
    let payload = bytes::Bytes::copy_from_slice(will.payload);
    let mut publication = Publication::new(Topic::new(will.topic)?, payload);
    publication.qos = will.qos;
    publication.retain = will.retain;
    publication.properties = carried(will.properties);
    let delay_seconds = will.properties.find(|property| match property {
        Property::WillDelayInterval(seconds) => Some(seconds),
        _ => None,
    });
    Ok(Will {
        publication,
        delay: Duration::from_secs(u64::from(delay_seconds.unwrap_or(0))),
    })
}

/// What CONNACK says on success.
struct Greeting<'a> {
    version: Version,
    settings: &'a MqttSettings,
    keep_alive_seconds: Option<u16>,
    expiry_seconds: Option<u32>,
}

impl Greeting<'_> {
    /// How long the CONNACK will be at most.
    fn length(&self, connect: &Connect<'_>) -> usize {
        let mut out = BytesMut::new();
        let welcome = Welcome {
            session_present: false,
            client_id: ASSIGNED_CLIENT_ID,
            was_assigned: connect.client_id.is_empty(),
        };
        self.encode(welcome, &mut out);
        out.len()
    }

    fn encode(&self, welcome: Welcome<'_>, out: &mut BytesMut) {
        let mut properties = PropertiesBuffer::new();
        if self.version.has_properties() {
            for property in self.properties(welcome) {
                // Only a client id could be too long, and it came by a string of that length.
                let _ = properties.push(&property);
            }
        }
        let connack = Connack {
            session_present: welcome.session_present,
            reason: Reason::SUCCESS,
            properties: properties.as_properties(),
        };
        let _ = connack.encode(self.version, out);
    }

    fn properties<'w>(&self, welcome: Welcome<'w>) -> impl Iterator<Item = Property<'w>> {
        let settings = self.settings;
        let packet_max = u32::try_from(settings.packet_max.bytes()).ok();
        [
            self.expiry_seconds.map(Property::SessionExpiryInterval),
            Some(Property::ReceiveMaximum(settings.receive_max.max(1))),
            packet_max.map(Property::MaximumPacketSize),
            welcome
                .was_assigned
                .then_some(Property::AssignedClientIdentifier(welcome.client_id)),
            (settings.topic_alias_max > 0)
                .then_some(Property::TopicAliasMaximum(settings.topic_alias_max)),
            self.keep_alive_seconds.map(Property::ServerKeepAlive),
        ]
        .into_iter()
        .flatten()
    }
}

impl Refused {
    /// Appends the CONNACK.
    pub(super) fn encode(self, framing: Framing, out: &mut BytesMut) {
        let connack = Connack {
            session_present: false, // [MQTT-3.2.2-6]
            reason: self.reason,
            properties: Properties::EMPTY,
        };
        // Without properties it always fits.
        framing.put(out, |out| {
            let _ = connack.encode(self.version, out);
        });
    }
}
