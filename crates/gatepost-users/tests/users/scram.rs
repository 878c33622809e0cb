//! SCRAM: a login without the password on the wire.

use super::*;

/// A client of SCRAM, written from the RFC independently of the server.
mod scram_client {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use ring::{digest, hmac, pbkdf2};

    pub(super) struct Client {
        pub(super) first: String,
        password: String,
    }

    impl Client {
        pub(super) fn new(user: &str, password: &str) -> Self {
            Self {
                first: format!("n,,n={user},r=clientnonce"),
                password: password.to_owned(),
            }
        }

        /// The client's last message, and the reply that the server must send.
        pub(super) fn answer(&self, challenge: &[u8]) -> (String, String) {
            let challenge = std::str::from_utf8(challenge).expect("text");
            let field = |name: &str| {
                let mut fields = challenge.split(',');
                fields
                    .find_map(|field| field.strip_prefix(name))
                    .expect("a field")
            };
            assert!(field("r=").starts_with("clientnonce"));
            let salt = STANDARD.decode(field("s=")).expect("base64");
            let iterations = field("i=").parse().expect("a number");
            let mut salted = [0; 32];
            let password = self.password.as_bytes();
            pbkdf2::derive(
                pbkdf2::PBKDF2_HMAC_SHA256,
                iterations,
                &salt,
                password,
                &mut salted,
            );
            let mac = |key: &[u8], text: &[u8]| {
                let key = hmac::Key::new(hmac::HMAC_SHA256, key);
                hmac::sign(&key, text).as_ref().to_vec()
            };
            let client_key = mac(&salted, b"Client Key");
            let stored = digest::digest(&digest::SHA256, &client_key);
            let without_proof = format!("c=biws,r={}", field("r="));
            let transcript = format!("{},{challenge},{without_proof}", &self.first[3..]);
            let signature = mac(stored.as_ref(), transcript.as_bytes());
            let proof: Vec<u8> = client_key
                .iter()
                .zip(signature)
                .map(|(a, b)| a ^ b)
                .collect();
            let server = mac(&mac(&salted, b"Server Key"), transcript.as_bytes());
            (
                format!("{without_proof},p={}", STANDARD.encode(proof)),
                format!("v={}", STANDARD.encode(server)),
            )
        }
    }
}

#[tokio::test]
async fn scram_lets_in_without_the_password_on_the_wire() {
    let users = users();
    anna(&users).await;
    let client = scram_client::Client::new("anna", "secret");
    let mut login = users.scram(origin());
    let Ok(ScramStep::Challenge(challenge)) = login.step(client.first.as_bytes()) else {
        panic!("no challenge");
    };
    let (answer, expected) = client.answer(&challenge);
    match login.step(answer.as_bytes()) {
        Ok(ScramStep::Done { last, identity }) => {
            assert_eq!(String::from_utf8(last), Ok(expected));
            assert_eq!(identity.user(), Some("anna"));
        }
        other => panic!("{other:?}"),
    }
    assert!(login.step(answer.as_bytes()).is_err(), "no step twice");
    let mut replay = users.scram(origin());
    replay.step(client.first.as_bytes()).expect("a challenge");
    let replayed = replay.step(answer.as_bytes());
    assert!(
        matches!(replayed, Err(LoginRefusal::Malformed(_))),
        "{replayed:?}"
    );
}

#[tokio::test]
async fn scram_refuses_wrong_passwords_and_answers_for_unknown_users_alike() {
    let users = users();
    anna(&users).await;
    for (user, secret) in [("anna", "wrong"), ("otto", "secret")] {
        let client = scram_client::Client::new(user, secret);
        let mut login = users.scram(origin());
        let Ok(ScramStep::Challenge(challenge)) = login.step(client.first.as_bytes()) else {
            panic!("no challenge for {user}");
        };
        let text = String::from_utf8(challenge.clone()).expect("text");
        assert!(text.ends_with(",i=4096"), "{text}");
        let refused = login.step(client.answer(&challenge).0.as_bytes());
        assert!(
            matches!(refused, Err(LoginRefusal::Credentials)),
            "{user}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn letter_case_shows_no_difference_between_known_and_unknown_users() {
    let users = users();
    anna(&users).await;
    let salt = |user: &str| {
        let first = format!("n,,n={user},r=clientnonce");
        let Ok(ScramStep::Challenge(challenge)) = users.scram(origin()).step(first.as_bytes())
        else {
            panic!("no challenge for {user}");
        };
        let challenge = String::from_utf8(challenge).expect("text");
        let salt = challenge
            .split(',')
            .find_map(|field| field.strip_prefix("s="));
        salt.expect("a salt").to_owned()
    };
    assert_eq!(salt("anna"), salt("ANNA"), "one user");
    assert_eq!(salt("otto"), salt("OTTO"), "as of a known one");
    assert_ne!(salt("otto"), salt("anna"));
}

/// Exchanges that started before the first failure are limited like any others.
#[tokio::test]
async fn guesses_by_scram_in_parallel_are_limited() {
    let users = users_with_ban_after(&settings(), 5);
    anna(&users).await;
    let begin = |secret: &str| {
        let client = scram_client::Client::new("anna", secret);
        let mut login = users.scram(origin());
        let Ok(ScramStep::Challenge(challenge)) = login.step(client.first.as_bytes()) else {
            panic!("no challenge");
        };
        (login, client.answer(&challenge).0)
    };
    let mut begun: Vec<_> = (0..20).map(|_| begin("wrong")).collect();
    begun.push(begin("secret"));
    let answers: Vec<_> = begun
        .iter_mut()
        .map(|(login, answer)| login.step(answer.as_bytes()))
        .collect();
    let tried = answers
        .iter()
        .filter(|answer| matches!(answer, Err(LoginRefusal::Credentials)));
    assert_eq!(tried.count(), 5);
    assert!(matches!(
        answers.last(),
        Some(Err(LoginRefusal::TooMany { .. }))
    ));
}
