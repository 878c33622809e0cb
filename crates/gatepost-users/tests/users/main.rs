//! Users as a listener uses them: accepted and refused logins, and permissions, also when they
//! change during an open connection.

mod changes;
mod credentials;
mod grants;
mod issuers;
mod kept;
mod removed;
mod scram;
mod shared;
mod tokens;

use gatepost_bans::{Bans, BansSettings};
use gatepost_message::{Listener, Peer};
use gatepost_store::Store;
use gatepost_users::*;

fn settings() -> AccessSettings {
    AccessSettings {
        scram_iterations: 4_096,
        ..AccessSettings::default()
    }
}

fn users() -> Users {
    users_with(&settings())
}

fn users_with(settings: &AccessSettings) -> Users {
    Users::open(Store::in_memory().expect("a store"), settings).expect("users")
}

/// Users where this number of failed logins from one address bans it.
fn users_with_ban_after(settings: &AccessSettings, failures: u32) -> Users {
    let bans = BansSettings {
        points_max: failures * BansSettings::default().points.login,
        ..BansSettings::default()
    };
    let store = Store::in_memory().expect("a store");
    Users::open_with_bans(store, settings, Bans::new(&bans)).expect("users")
}

fn origin() -> LoginOrigin {
    from("192.0.2.1:1")
}

fn from(address: &str) -> LoginOrigin {
    let peer = Peer::Address(address.parse().expect("an address"));
    LoginOrigin::new(Listener::Mqtt, peer).with_client("c1")
}

fn password(user: &str, password: &str) -> Credentials {
    Credentials::Password {
        user: user.to_owned(),
        password: password.into(),
    }
}

async fn anna(users: &Users) -> Identity {
    users
        .add("anna", "secret".into(), false)
        .await
        .expect("added");
    login(users, "anna", "secret").await.expect("let in")
}

async fn login(users: &Users, user: &str, secret: &str) -> Result<Identity, LoginRefusal> {
    users.authenticate(password(user, secret), &origin()).await
}

fn access(text: &str) -> AccessSet {
    text.parse().expect("access")
}
