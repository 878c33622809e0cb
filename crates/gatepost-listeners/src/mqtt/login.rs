//! Authentication: by the user name and password of CONNECT, by its certificate, by the login of
//! the browser that opened the WebSocket, or by enhanced authentication (section 4.12), before and
//! after the CONNACK.

use bytes::BytesMut;
use gatepost_mqtt::{
    Connect, Packet, PacketType, PropertiesBuffer, Property, Reason, ReasonedPacket, Version,
};
use gatepost_users::{
    Credentials, Identity, ListenerAuth, LoginRefusal, ScramLogin, ScramStep, Secret,
};

use super::connect_properties::ConnectProperties;
use super::input::MqttInput;
use super::opening::{OpeningConnection, whole};
use crate::stream::TlsSession;

/// A client that may have a session.
#[derive(Default)]
pub(super) struct MqttLogin {
    /// `None` where no login is needed.
    pub(super) identity: Option<Identity>,
    /// The server's proof for the CONNACK, if the login used enhanced authentication.
    pub(super) proof: Option<Vec<u8>>,
}

/// The reason code for a refused login, in CONNACK (section 3.2.2.2).
const fn connack_reason(denied: &LoginRefusal) -> Reason {
    match denied {
        LoginRefusal::Anonymous | LoginRefusal::Disabled => Reason::NOT_AUTHORIZED,
        LoginRefusal::Credentials | LoginRefusal::Malformed(_) => Reason::BAD_USER_NAME_OR_PASSWORD,
        LoginRefusal::TooMany { .. } => Reason::CONNECTION_RATE_EXCEEDED,
        LoginRefusal::Busy => Reason::SERVER_BUSY,
        LoginRefusal::Banned { .. } => Reason::BANNED,
    }
}

/// The same in DISCONNECT, which has no code for a wrong password (section 3.14.2.1).
pub(super) const fn disconnect_reason(denied: &LoginRefusal) -> Reason {
    match denied {
        LoginRefusal::Credentials | LoginRefusal::Malformed(_) => Reason::NOT_AUTHORIZED,
        other => connack_reason(other),
    }
}

/// Authenticates the sender of a CONNECT. The reason is for its CONNACK; `None` if the client
/// disconnected.
pub(super) async fn log_in(
    opening: &OpeningConnection<'_>,
    input: &mut MqttInput,
    connect: &Connect<'_>,
    requested: &ConnectProperties<'_>,
) -> Result<MqttLogin, Option<Reason>> {
    let Some(auth) = opening.auth else {
        return match requested.authentication_method {
            Some(_) => Err(Some(Reason::BAD_AUTHENTICATION_METHOD)), // [MQTT-4.12.0-1]
            None => Ok(MqttLogin::default()),
        };
    };
    let client = Some(connect.client_id).filter(|client_id| !client_id.is_empty());
    let reason = |denied: LoginRefusal| Some(connack_reason(&denied));
    if let Some(method) = requested.authentication_method {
        if method != ScramLogin::MECHANISM {
            return Err(Some(Reason::BAD_AUTHENTICATION_METHOD)); // [MQTT-4.12.0-1]
        }
        let mut scram = auth.scram(opening.peer, client);
        let first = scram.step(requested.authentication_data.unwrap_or_default());
        return converse(opening, input, &mut scram, first.map_err(reason)?).await;
    }
    // A page of the server's own needs no login beyond that of the browser that shows it.
    if connect.user_name.is_none()
        && connect.password.is_none()
        && let Some(identity) = opening.handshake.and_then(|start| start.identity)
    {
        return Ok(MqttLogin {
            identity: Some(identity.for_client(client)),
            proof: None,
        });
    }
    let credentials = credentials(connect, opening);
    let auth = opening.of_account(auth);
    let identity = auth.authenticate(credentials, opening.peer, client).await;
    Ok(MqttLogin {
        identity: Some(identity.map_err(reason)?),
        proof: None,
    })
}

/// A password alone is a token; without either, a certificate may name the user.
fn credentials(connect: &Connect<'_>, opening: &OpeningConnection<'_>) -> Credentials {
    // Bytes that are not UTF-8 match no password.
    let password = connect
        .password
        .map(|bytes| Secret::new(String::from_utf8_lossy(bytes)));
    let certified = || match opening.handshake {
        Some(start) => start.certified.map(str::to_owned),
        None => opening.stream.tls().and_then(TlsSession::user),
    };
    match (connect.user_name, password) {
        (Some(user), password) if password.is_some() || !user.is_empty() => Credentials::Password {
            user: user.to_owned(),
            password: password.unwrap_or_else(|| Secret::new("")),
        },
        (None, Some(token)) => Credentials::Bearer(token),
        _ => certified().map_or(Credentials::Anonymous, |user| Credentials::Certificate {
            user,
        }),
    }
}

/// Continues the enhanced authentication until the client is logged in \[MQTT-4.12.0-2\].
async fn converse(
    opening: &OpeningConnection<'_>,
    input: &mut MqttInput,
    scram: &mut ScramLogin,
    mut step: ScramStep,
) -> Result<MqttLogin, Option<Reason>> {
    loop {
        match step {
            ScramStep::Challenge(data) => {
                opening.send(|out| put_auth(Reason::CONTINUE_AUTHENTICATION, &data, out));
            }
            ScramStep::Done { last, identity } => {
                return Ok(MqttLogin {
                    identity: Some(identity),
                    proof: Some(last),
                });
            }
        }
        let bytes = opening.packet(input, PacketType::Auth).await.ok_or(None)?;
        let frame = whole(&bytes).ok_or(None)?;
        let Ok(Packet::Auth(auth)) = Packet::decode(Version::Mqtt5, frame) else {
            return Err(Some(Reason::MALFORMED_PACKET));
        };
        if auth.reason != Reason::CONTINUE_AUTHENTICATION || method(&auth) != ScramLogin::MECHANISM
        {
            return Err(Some(Reason::PROTOCOL_ERROR)); // [MQTT-4.12.0-3], [MQTT-4.12.0-5]
        }
        step = scram
            .step(data(&auth))
            .map_err(|denied| Some(connack_reason(&denied)))?;
    }
}

/// A connection's means to log in again (section 4.12.1).
pub(super) struct Reauthentication {
    pub(super) auth: ListenerAuth,
    /// The exchange in progress, while the client proves its identity.
    pub(super) exchange: Option<ScramLogin>,
}

impl Reauthentication {
    pub(super) const fn new(auth: ListenerAuth) -> Self {
        Self {
            auth,
            exchange: None,
        }
    }
}

/// Appends an AUTH packet of the server.
pub(super) fn put_auth(reason: Reason, data: &[u8], out: &mut BytesMut) {
    let mut properties = PropertiesBuffer::new();
    // Challenges and proofs are short.
    let _ = properties.push(&Property::AuthenticationMethod(ScramLogin::MECHANISM));
    let _ = properties.push(&Property::AuthenticationData(data));
    let _ = ReasonedPacket::new(reason, properties.as_properties()).encode_auth(out);
}

pub(super) fn method<'a>(auth: &ReasonedPacket<'a>) -> &'a str {
    let method = auth.properties.find(|property| match property {
        Property::AuthenticationMethod(method) => Some(method),
        _ => None,
    });
    method.unwrap_or_default()
}

pub(super) fn data<'a>(auth: &ReasonedPacket<'a>) -> &'a [u8] {
    let data = auth.properties.find(|property| match property {
        Property::AuthenticationData(data) => Some(data),
        _ => None,
    });
    data.unwrap_or_default()
}
