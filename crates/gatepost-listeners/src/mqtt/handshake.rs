//! CONNECT (MQTT 5 § 3.1) and CONNACK (§ 3.2).

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{Attachment, ConnectError, ConnectOptions, Connected, Welcome, Will};
use gatepost_message::{Publication, Topic};
use gatepost_mqtt::{Connack, Connect, Properties, PropertiesBuffer, Property, Reason, Version};
use gatepost_store::{StoreError, Ticket};
use gatepost_users::{Identity, ScramLogin};
use smallvec::SmallVec;

use super::MqttSettings;
use super::encoder::{Framing, carried, format};
use super::login::{Authentication, Login};
use super::opening::{NotOpened, Opening};

/// Session Expiry Interval that never ends (§ 3.1.2.11.2).
const EXPIRY_NEVER: u32 = u32::MAX;
const RECEIVE_MAX_DEFAULT: u16 = u16::MAX;
/// As long as the client ids that the broker makes.
const ASSIGNED_CLIENT_ID: &str = "auto-0123456789abc-12345678901234567890";

/// What the connection must know of its CONNECT afterwards.
pub(super) struct Agreed {
    pub(super) version: Version,
    pub(super) attachment: Attachment,
    pub(super) identity: Option<Identity>,
    /// How to log in anew, where CONNECT named a method for it.
    pub(super) authentication: Option<Box<Authentication>>,
    /// Whether the session has state of an earlier connection.
    pub(super) session_present: bool,
    /// Whether reason strings may accompany failures \[MQTT-3.1.2-29\].
    pub(super) tell_why: bool,
    /// The largest packet that the client takes.
    pub(super) packet_bytes_max: usize,
    /// The Session Expiry Interval of CONNECT, in seconds.
    pub(super) expiry_seconds: u32,
    /// What the CONNACK promises: see [`Agreed::greet`].
    promises: SmallVec<[Result<Ticket, StoreError>; 2]>,
}

impl Agreed {
    /// Waits until what the CONNACK says is durable, and lets it go out. A CONNACK says that the
    /// session is kept, or that an earlier one is gone; after a crash either must still be true.
    pub(super) async fn greet(&mut self) -> Result<(), Refused> {
        if self.promises.is_empty() {
            return Ok(());
        }
        for promise in self.promises.drain(..) {
            let outcome = match promise {
                Ok(ticket) => ticket.committed().await,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                tracing::warn!(target: "mqtt", %error, "refused: its session cannot be stored");
                return Err(Refused {
                    version: self.version,
                    reason: Reason::SERVER_UNAVAILABLE,
                });
            }
        }
        self.attachment.begin();
        Ok(())
    }
}

/// A refused CONNECT: the reason for the CONNACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) version: Version,
    pub(super) reason: Reason,
}

/// The properties of CONNECT.
pub(super) struct Wishes<'a> {
    expiry_seconds: u32,
    receive_max: u16,
    packet_bytes_max: Option<u32>,
    alias_max: u16,
    tell_why: bool,
    pub(super) authentication_method: Option<&'a str>,
    pub(super) authentication_data: Option<&'a [u8]>,
}

impl<'a> Wishes<'a> {
    pub(super) fn new(connect: &Connect<'a>) -> Self {
        // [MQTT-3.1.2-23]: before MQTT 5 a session lasts exactly if it is not clean.
        let is_lasting = !connect.version.has_properties() && !connect.clean_start;
        let mut wishes = Self {
            expiry_seconds: if is_lasting { EXPIRY_NEVER } else { 0 },
            receive_max: RECEIVE_MAX_DEFAULT,
            packet_bytes_max: None,
            alias_max: 0,
            tell_why: true,
            authentication_method: None,
            authentication_data: None,
        };
        for property in connect.properties.iter() {
            match property {
                Property::SessionExpiryInterval(seconds) => wishes.expiry_seconds = seconds,
                Property::ReceiveMaximum(count) => wishes.receive_max = count,
                Property::MaximumPacketSize(bytes) => wishes.packet_bytes_max = Some(bytes),
                Property::TopicAliasMaximum(max) => wishes.alias_max = max,
                Property::RequestProblemInformation(wanted) => wishes.tell_why = wanted,
                Property::AuthenticationMethod(method) => {
                    wishes.authentication_method = Some(method);
                }
                Property::AuthenticationData(data) => wishes.authentication_data = Some(data),
                _ => {}
            }
        }
        wishes
    }
}

/// Gives the client its session, or says why not. The CONNACK of success is the session's first
/// frame; it is not yet flushed.
pub(super) fn connect(
    connect: &Connect<'_>,
    wishes: &Wishes<'_>,
    login: Login,
    opening: &Opening<'_>,
) -> Result<Agreed, NotOpened> {
    let version = connect.version;
    let (framing, context) = (opening.framing, opening.context);
    let settings = &context.settings;
    let refuse = |reason| Some(Refused { version, reason });
    let keep_alive_seconds = keep_alive(connect, settings);
    let silence_max = Duration::from_secs(u64::from(keep_alive_seconds) * 3 / 2);
    let identity = login.identity.as_ref();
    let will = checked_will(connect, identity).map_err(refuse)?;
    let user: Option<Arc<str>> = identity.and_then(Identity::user).map(Arc::from);
    let options = ConnectOptions {
        client_id: (!connect.client_id.is_empty()).then(|| connect.client_id.to_owned()),
        user,
        slow_subscriber: settings.slow_subscriber,
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
        sink: opening.stream.clone(),
    };
    let expiry_max = context.broker.settings().session_expiry_max.duration();
    let greeting = Greeting {
        version,
        settings,
        keep_alive_seconds: (keep_alive_seconds != connect.keep_alive_seconds)
            .then_some(keep_alive_seconds),
        expiry_seconds: (expiry(wishes.expiry_seconds) > expiry_max)
            .then_some(expiry_max.as_secs() as u32),
        proof: login.proof.as_deref(),
    };
    if wishes
        .packet_bytes_max
        .is_some_and(|bytes| greeting.length(connect) > bytes as usize)
    {
        return Err(None); // Not even the answer would be taken [MQTT-3.1.2-24].
    }
    let connected = enter(options, &greeting, opening).map_err(refuse)?;
    let authentication = match opening.door {
        Some(door) if wishes.authentication_method.is_some() => {
            Some(Box::new(Authentication::new(door.clone())))
        }
        _ => None,
    };
    Ok(Agreed {
        version,
        attachment: connected.attachment,
        identity: login.identity,
        authentication,
        session_present: connected.session_present,
        promises: connected.promises,
        tell_why: wishes.tell_why,
        packet_bytes_max: wishes
            .packet_bytes_max
            .map_or(usize::MAX, |bytes| bytes as usize),
        expiry_seconds: wishes.expiry_seconds,
    })
}

/// Gets the session. One that is another user's stays theirs, unless nobody of that name can log
/// in any more: then it is of no use to anybody and ends.
fn enter(
    options: ConnectOptions,
    greeting: &Greeting<'_>,
    opening: &Opening<'_>,
) -> Result<Connected, Reason> {
    let framing = opening.framing;
    let broker = &opening.context.broker;
    let greet = |welcome: Welcome<'_>, out: &mut BytesMut| {
        framing.put(out, |out| greeting.encode(welcome, out));
    };
    let users = opening.door.map(gatepost_users::Door::users);
    if let (Some(users), Some(client_id)) = (users, &options.client_id)
        && let Some(owner) = broker.owner_of(client_id)
        && !users.can_log_in(&owner)
    {
        broker.forget(client_id);
    }
    broker.connect(options, greet).map_err(|error| match error {
        ConnectError::TooManySessions | ConnectError::TooManyOfUser | ConnectError::OutOfMemory => {
            Reason::QUOTA_EXCEEDED
        }
        ConnectError::TooFast => Reason::CONNECTION_RATE_EXCEEDED,
        ConnectError::OtherUser(_) => {
            tracing::info!(target: "mqtt", peer = %opening.peer, "the session is another user's");
            Reason::NOT_AUTHORIZED
        }
    })
}

/// What can be refused whoever it is.
pub(super) fn check(connect: &Connect<'_>, settings: &MqttSettings) -> Result<(), Reason> {
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

/// The will, if it may be left.
fn checked_will(
    connect: &Connect<'_>,
    identity: Option<&Identity>,
) -> Result<Option<Will>, Reason> {
    let Some(will) = connect.will.as_ref() else {
        return Ok(None);
    };
    let will = self::will(will).map_err(|_| Reason::TOPIC_NAME_INVALID)?;
    let publication = &will.publication;
    if publication.topic.is_internal() {
        return Err(Reason::TOPIC_NAME_INVALID);
    }
    let (topic, retain) = (publication.topic.as_str(), publication.retain);
    if identity.is_some_and(|identity| !identity.may_publish(topic, retain).is_allowed()) {
        return Err(Reason::NOT_AUTHORIZED);
    }
    Ok(Some(will))
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
    /// The server's part of enhanced authentication.
    proof: Option<&'a [u8]>,
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

    fn properties<'w>(&'w self, welcome: Welcome<'w>) -> impl Iterator<Item = Property<'w>> {
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
            self.proof
                .map(|_| Property::AuthenticationMethod(ScramLogin::MECHANISM)),
            self.proof.map(Property::AuthenticationData),
        ]
        .into_iter()
        .flatten()
    }
}

impl Refused {
    /// Appends the CONNACK.
    pub(super) fn encode(self, out: &mut BytesMut) {
        let connack = Connack {
            session_present: false, // [MQTT-3.2.2-6]
            reason: self.reason,
            properties: Properties::EMPTY,
        };
        // Without properties it always fits.
        let _ = connack.encode(self.version, out);
    }
}
