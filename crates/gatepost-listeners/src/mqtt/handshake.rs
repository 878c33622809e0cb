//! CONNECT (MQTT 5 section 3.1) and CONNACK (section 3.2).

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{
    Attachment, Broker, ConnectError, ConnectOptions, Connected, ConnectionGreeting,
    IN_PROCESS_PREFIX, RuleViolation, SessionName, SessionWill,
};
use gatepost_message::{BRIDGE_STATE_BYTES_MAX, Publication, Topic, is_bridge_state};
use gatepost_mqtt::{
    Connack, Connect, Packet, PacketType, PropertiesBuffer, Property, Reason, Version,
};
use gatepost_store::{StoreError, Ticket};
use gatepost_users::{Identity, ScramLogin};
use smallvec::SmallVec;

use super::MqttSettings;
use super::connect_properties::{ConnectProperties, ConnectRefusal, NotOpened, expiry};
use super::encoder::{PacketFraming, format};
use super::input::{ControlFrames, MqttInput};
use super::login::{MqttLogin, Reauthentication, log_in};
use super::opening::{OpeningConnection, refusal, whole};
use super::rights::authorization;
use crate::mount::MountPrefix;

/// The longest client id of MQTT 3.1, in characters.
const CLIENT_ID_3_1_MAX: usize = 23;
/// As long as the client ids that the broker makes.
const ASSIGNED_CLIENT_ID: &str = "auto-0123456789abc-12345678901234567890";

/// The data of CONNECT that the connection needs afterwards.
pub(super) struct OpenedSession {
    pub(super) version: Version,
    pub(super) attachment: Attachment,
    pub(super) identity: Option<Identity>,
    /// The method for logging in again, if CONNECT named one.
    pub(super) authentication: Option<Box<Reauthentication>>,
    /// Whether the session has state of an earlier connection.
    pub(super) session_present: bool,
    /// Whether reason strings may accompany failures \[MQTT-3.1.2-29\].
    pub(super) wants_reasons: bool,
    /// The largest packet that the client accepts.
    pub(super) packet_bytes_max: usize,
    /// The Session Expiry Interval of CONNECT, in seconds.
    pub(super) expiry_seconds: u32,
    /// The changes whose commit the CONNACK waits for: see [`OpenedSession::greet`].
    tickets: SmallVec<[Result<Ticket, StoreError>; 2]>,
}

impl OpenedSession {
    /// Waits until the changes that the CONNACK promises are durable, and sends it. The session was
    /// kept, or an earlier one deleted; either must still be true after a crash.
    pub(super) async fn greet(&mut self) -> Result<(), ConnectRefusal> {
        if self.tickets.is_empty() {
            return Ok(());
        }
        for ticket in self.tickets.drain(..) {
            let outcome = match ticket {
                Ok(ticket) => ticket.committed().await,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                // The store logs the cause, once a second.
                tracing::debug!(target: "mqtt", %error, "refused: its session cannot be stored");
                return Err(ConnectRefusal {
                    version: self.version,
                    reason: Reason::SERVER_UNAVAILABLE,
                });
            }
        }
        self.attachment.begin();
        Ok(())
    }
}

impl OpeningConnection<'_> {
    /// Opens the connection; `received` came with a WebSocket handshake.
    pub(super) async fn open(
        &self,
        input: &mut MqttInput,
        received: &[u8],
    ) -> Option<OpenedSession> {
        let mut controls = ControlFrames::default();
        input.take_frames(received, &mut controls, |_| 0);
        self.handle_controls(controls).await?;
        match self.greet(input).await {
            Ok(opened) => Some(opened),
            Err(refusal) => {
                if let Some(refusal) = refusal {
                    self.refuse(refusal).await;
                }
                None
            }
        }
    }

    /// Waits for the first packet, which must be CONNECT \[MQTT-3.1.0-1\], authenticates its sender
    /// and answers it.
    async fn greet(&self, input: &mut MqttInput) -> Result<OpenedSession, NotOpened> {
        let bytes = self.packet(input, PacketType::Connect).await.ok_or(None)?;
        let frame = whole(&bytes).ok_or(None)?;
        let connect = match Packet::decode(Version::Mqtt5, frame) {
            Ok(Packet::Connect(connect)) => connect,
            Ok(_) => return Err(None),
            Err(error) => {
                self.note_fault();
                return Err(refusal(frame.body, error));
            }
        };
        let requested = ConnectProperties::new(&connect);
        let refuse = |reason| {
            Some(ConnectRefusal {
                version: connect.version,
                reason,
            })
        };
        check(&connect, &self.context.settings).map_err(refuse)?;
        let login = log_in(self, input, &connect, &requested)
            .await
            .map_err(|reason| reason.and_then(refuse))?;
        self.claim_session(&connect, &requested, &login)
            .await
            .map_err(refuse)?;
        let mut opened = connect_session(&connect, &requested, login, self)?;
        opened.greet().await?;
        Ok(opened)
    }
}

impl OpeningConnection<'_> {
    /// Waits until the client's session is on this node, if the server has several.
    async fn claim_session(
        &self,
        connect: &Connect<'_>,
        requested: &ConnectProperties<'_>,
        login: &MqttLogin,
    ) -> Result<(), Reason> {
        let broker = &self.context.broker;
        // A name that the broker chooses is new.
        if !broker.is_node() || connect.client_id.is_empty() {
            return Ok(());
        }
        let user = login.identity.as_ref().and_then(Identity::user);
        let name = SessionName {
            user: user.map(Arc::from),
            client_id: Arc::from(connect.client_id),
        };
        let expiry_max = broker.settings().session_expiry_max.duration();
        let expiry = expiry(requested.expiry_seconds).min(expiry_max);
        let Some(claim) = broker.claim_session(&name, connect.clean_start, expiry) else {
            return Ok(());
        };
        claim.await.map_err(|error| {
            tracing::info!(target: "mqtt", peer = %self.peer, client = connect.client_id, %error,
                "refused: its session is not here");
            Reason::SERVER_UNAVAILABLE
        })
    }
}

/// Gives the client its session, or returns the refusal. The CONNACK of success is the session's
/// first frame; it is not yet flushed.
fn connect_session(
    connect: &Connect<'_>,
    requested: &ConnectProperties<'_>,
    login: MqttLogin,
    opening: &OpeningConnection<'_>,
) -> Result<OpenedSession, NotOpened> {
    let version = connect.version;
    let (framing, context) = (opening.framing, opening.context);
    let settings = &context.settings;
    let refuse = |reason| Some(ConnectRefusal { version, reason });
    let keep_alive_seconds = keep_alive(connect, settings);
    let silence_max = Duration::from_millis(u64::from(keep_alive_seconds) * 1_500);
    let identity = login.identity.as_ref();
    let mount = MountPrefix::of(identity);
    let will = checked_will(connect, identity, mount.as_ref(), &context.broker).map_err(refuse)?;
    let user: Option<Arc<str>> = identity.and_then(Identity::user).map(Arc::from);
    let options = ConnectOptions {
        client_id: (!connect.client_id.is_empty()).then(|| connect.client_id.to_owned()),
        user,
        authorization: identity.map(authorization),
        slow_subscriber: settings.slow_subscriber,
        peer: opening.peer,
        kind: match framing {
            PacketFraming::Plain => "mqtt",
            PacketFraming::WebSocket => "websocket",
        },
        clean_start: connect.clean_start,
        expiry: expiry(requested.expiry_seconds),
        receive_max: requested.receive_max,
        frame_bytes_max: framing.frame_bytes_max(requested.packet_bytes_max),
        alias_max: requested.alias_max,
        silence_max: (keep_alive_seconds > 0).then_some(silence_max),
        will,
        format: format(version, framing, mount.as_ref()),
        socket: opening.stream.clone(),
    };
    let expiry_max = context.broker.settings().session_expiry_max.duration();
    let greeting = ConnackContents {
        version,
        settings,
        keep_alive_seconds: (keep_alive_seconds != connect.keep_alive_seconds)
            .then_some(keep_alive_seconds),
        expiry_seconds: (expiry(requested.expiry_seconds) > expiry_max)
            .then_some(expiry_max.as_secs() as u32),
        proof: login.proof.as_deref(),
    };
    if requested
        .packet_bytes_max
        .is_some_and(|bytes| greeting.length(connect) > bytes as usize)
    {
        return Err(None); // The client would not accept even the answer [MQTT-3.1.2-24].
    }
    let connected = enter(options, &greeting, opening).map_err(refuse)?;
    let method = requested.authentication_method;
    let auth = opening.auth.filter(|_| method.is_some());
    let authentication = auth.map(|auth| Box::new(Reauthentication::new(auth.clone())));
    Ok(OpenedSession {
        version,
        attachment: connected.attachment,
        identity: login.identity,
        authentication,
        session_present: connected.session_present,
        tickets: connected.tickets,
        wants_reasons: requested.wants_reasons,
        packet_bytes_max: requested
            .packet_bytes_max
            .map_or(usize::MAX, |bytes| bytes as usize),
        expiry_seconds: requested.expiry_seconds,
    })
}

/// Creates or resumes the session.
fn enter(
    options: ConnectOptions,
    greeting: &ConnackContents<'_>,
    opening: &OpeningConnection<'_>,
) -> Result<Connected, Reason> {
    let framing = opening.framing;
    let greet = |welcome: ConnectionGreeting<'_>, out: &mut BytesMut| {
        framing.put(out, |out| greeting.encode(welcome, out));
    };
    let connected = opening.context.broker.connect(options, greet);
    connected.map_err(|error| match error {
        ConnectError::TooManySessions | ConnectError::TooManyOfUser | ConnectError::OutOfMemory => {
            Reason::QUOTA_EXCEEDED
        }
        ConnectError::TooFast => Reason::CONNECTION_RATE_EXCEEDED,
        ConnectError::Superseded => Reason::SERVER_UNAVAILABLE,
    })
}

/// Refuses invalid requests before the login is checked.
fn check(connect: &Connect<'_>, settings: &MqttSettings) -> Result<(), Reason> {
    let is_lasting_and_nameless =
        connect.client_id.is_empty() && !connect.clean_start && !connect.version.has_properties();
    // MQTT 3.1 section 3.1: 1 to 23 characters.
    let is_3_1_misnamed = connect.version == Version::Mqtt31
        && !(1..=CLIENT_ID_3_1_MAX).contains(&connect.client_id.chars().count());
    if is_lasting_and_nameless // 3.1.1 [MQTT-3.1.3-8]
        || is_3_1_misnamed
        || connect.client_id.len() > settings.client_id_bytes_max
        || connect.client_id.starts_with(IN_PROCESS_PREFIX)
    {
        return Err(Reason::CLIENT_IDENTIFIER_NOT_VALID);
    }
    Ok(())
}

/// The keep alive in force \[MQTT-3.1.2-21\]. MQTT 3 has no field for another one.
fn keep_alive(connect: &Connect<'_>, settings: &MqttSettings) -> u16 {
    let max = settings.keep_alive_max_seconds;
    let requested = connect.keep_alive_seconds;
    if connect.version.has_properties() && max > 0 && (requested == 0 || requested > max) {
        max
    } else {
        requested
    }
}

/// The will, if the client may publish it.
fn checked_will(
    connect: &Connect<'_>,
    identity: Option<&Identity>,
    mount: Option<&MountPrefix>,
    broker: &Broker,
) -> Result<Option<SessionWill>, Reason> {
    let Some(will) = connect.will.as_ref() else {
        return Ok(None);
    };
    let will = self::will(will, mount).map_err(|_| Reason::TOPIC_NAME_INVALID)?;
    let publication = &will.publication;
    let is_bridge_state = is_bridge_state(publication.topic.as_str(), connect.client_id)
        && publication.payload.len() <= BRIDGE_STATE_BYTES_MAX;
    if publication.topic.is_internal() && !is_bridge_state {
        return Err(Reason::TOPIC_NAME_INVALID);
    }
    let (topic, retain) = (publication.topic.as_str(), publication.retain);
    if identity.is_some_and(|identity| !identity.may_publish(topic, retain).is_allowed()) {
        return Err(Reason::NOT_AUTHORIZED);
    }
    match broker.rule_violation(publication) {
        None | Some(RuleViolation::TooMany(_)) => Ok(Some(will)),
        Some(RuleViolation::PayloadTooLarge(_)) => Err(Reason::PACKET_TOO_LARGE),
        Some(RuleViolation::Schema(_)) => Err(Reason::PAYLOAD_FORMAT_INVALID),
        Some(RuleViolation::Retained) => Err(Reason::RETAIN_NOT_SUPPORTED),
    }
}

fn will(
    will: &gatepost_mqtt::Will<'_>,
    mount: Option<&MountPrefix>,
) -> Result<SessionWill, gatepost_message::TopicError> {
    let payload = bytes::Bytes::copy_from_slice(will.payload);
    let mut publication =
        Publication::new(Topic::new(&MountPrefix::topic(mount, will.topic))?, payload);
    publication.qos = will.qos;
    publication.retain = will.retain;
    publication.properties = will.properties.carried();
    if let Some(properties) = &mut publication.properties {
        MountPrefix::complete(mount, properties);
    }
    let delay_seconds = will.properties.find(|property| match property {
        Property::WillDelayInterval(seconds) => Some(seconds),
        _ => None,
    });
    Ok(SessionWill {
        publication,
        delay: Duration::from_secs(u64::from(delay_seconds.unwrap_or(0))),
    })
}

/// The contents of a CONNACK of success.
struct ConnackContents<'a> {
    version: Version,
    settings: &'a MqttSettings,
    keep_alive_seconds: Option<u16>,
    expiry_seconds: Option<u32>,
    /// The server's part of enhanced authentication.
    proof: Option<&'a [u8]>,
}

impl ConnackContents<'_> {
    /// The maximum length of the CONNACK.
    fn length(&self, connect: &Connect<'_>) -> usize {
        let mut out = BytesMut::new();
        let welcome = ConnectionGreeting {
            session_present: false,
            client_id: ASSIGNED_CLIENT_ID,
            was_assigned: connect.client_id.is_empty(),
        };
        self.encode(welcome, &mut out);
        out.len()
    }

    fn encode(&self, welcome: ConnectionGreeting<'_>, out: &mut BytesMut) {
        let mut properties = PropertiesBuffer::new();
        if self.version.has_properties() {
            for property in self.properties(welcome) {
                // Only a client id could be too long, and the client sent it in a string of that
                // length.
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

    fn properties<'w>(
        &'w self,
        welcome: ConnectionGreeting<'w>,
    ) -> impl Iterator<Item = Property<'w>> {
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
