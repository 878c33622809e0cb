//! `/admin/users` and `/admin/tokens`: the users, their credentials and their rights.
//!
//! Changes have the same effect as those of `gatepost user`: a change is on disk when it is
//! answered, and applies to open connections too. Secrets are accepted and never returned, except
//! for a new token, once.

use gatepost_settings::Period;
use gatepost_users::{ANONYMOUS, AccessSet, EVERYONE, Effect, Secret, Users, UsersError};
use serde::Deserialize;
use serde_json::json;

use super::body;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewUser {
    name: String,
    password: String,
    #[serde(default)]
    admin: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserChanges {
    password: Option<String>,
    admin: Option<bool>,
    enabled: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRule {
    #[serde(default = "allow")]
    effect: Effect,
    access: AccessSet,
    filter: String,
}

const fn allow() -> Effect {
    Effect::Allow
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewToken {
    #[serde(default)]
    label: String,
    /// A period such as `90d`.
    expires: Option<Period>,
    /// The restrictions of the token.
    allow: Option<Vec<AccessEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessEntry {
    access: AccessSet,
    filter: String,
}

/// `/admin/users…`; `rest` is what follows the slash.
pub(super) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
    rest: &str,
) -> Result<HttpResponse, HttpError> {
    let users = users(context, request)?;
    let (name, what) = rest.split_once('/').unwrap_or((rest, ""));
    match (name, what) {
        ("", _) => all(users, request).await,
        (name, "") => one(users, request, name).await,
        (name, "rules") => rules(users, request, name).await,
        (name, "tokens") => token(users, request, name).await,
        _ => Err(HttpError::NotFound(request.path.clone())),
    }
}

/// `/admin/tokens/ID`
pub(super) async fn revoke(
    context: &HttpContext,
    request: &HttpRequest,
    id: &str,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["DELETE"], "DELETE")?;
    users(context, request)?.remove_token(id).await?;
    Ok(HttpResponse::empty(204))
}

fn users<'a>(context: &'a HttpContext, request: &HttpRequest) -> Result<&'a Users, HttpError> {
    let auth = context.auth.as_ref();
    auth.map(gatepost_users::ListenerAuth::users)
        .ok_or_else(|| HttpError::NotFound(request.path.clone()))
}

async fn all(users: &Users, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
    if request.method() != "POST" {
        return Ok(HttpResponse::json(
            200,
            &json!({
                "users": users.list(),
                "everyone": users.rules(EVERYONE),
                "anonymous": users.rules(ANONYMOUS),
            }),
        ));
    }
    let new: NewUser = body(request)?;
    if !new.admin && !has_other_admin(users, None) {
        return Err(HttpError::Conflict(
            "the first user must be an administrator: otherwise no user could change anything here"
                .to_owned(),
        ));
    }
    let password = Secret::new(new.password);
    users.add(&new.name, password, new.admin).await?;
    let mut response = user_response(users, &new.name)?;
    response.status = 201;
    Ok(response)
}

async fn one(users: &Users, request: &HttpRequest, name: &str) -> Result<HttpResponse, HttpError> {
    expect_method(
        request,
        &["GET", "HEAD", "PATCH", "DELETE"],
        "GET, HEAD, PATCH, DELETE",
    )?;
    match request.method() {
        "PATCH" => {
            let changes: UserChanges = body(request)?;
            user_response(users, name)?;
            let demotes = changes.admin == Some(false) || changes.enabled == Some(false);
            if demotes {
                expect_another_admin(users, name)?;
            }
            if let Some(password) = changes.password {
                users.set_password(name, Secret::new(password)).await?;
            }
            if changes.admin.is_some() || changes.enabled.is_some() {
                let disabled = changes.enabled.map(|enabled| !enabled);
                users.set_standing(name, disabled, changes.admin).await?;
            }
            user_response(users, name)
        }
        "DELETE" => {
            user_response(users, name)?;
            // The very last user may be removed: then this machine needs no login again.
            if users.list().len() > 1 {
                expect_another_admin(users, name)?;
            }
            users.remove(name).await?;
            Ok(HttpResponse::empty(204))
        }
        _ => user_response(users, name),
    }
}

async fn rules(
    users: &Users,
    request: &HttpRequest,
    subject: &str,
) -> Result<HttpResponse, HttpError> {
    expect_method(
        request,
        &["GET", "HEAD", "POST", "DELETE"],
        "GET, HEAD, POST, DELETE",
    )?;
    if ![EVERYONE, ANONYMOUS].contains(&subject) {
        user_response(users, subject)?;
    }
    match request.method() {
        "POST" => {
            let rule: NewRule = body(request)?;
            if rule.access.is_empty() {
                return Err(HttpError::Body("access: name at least one".to_owned()));
            }
            users
                .grant(subject, rule.effect, rule.access, &rule.filter)
                .await?;
        }
        "DELETE" => {
            let needed = |name: &'static str| {
                request.query_value(name).ok_or(HttpError::Parameter {
                    name,
                    detail: "is needed".to_owned(),
                })
            };
            let (access, filter) = (needed("access")?, needed("filter")?);
            let access = access.parse().map_err(|error| HttpError::Parameter {
                name: "access",
                detail: format!("{error}"),
            });
            users.revoke(subject, access?, &filter).await?;
        }
        _ => {}
    }
    Ok(HttpResponse::json(
        200,
        &json!({ "rules": users.rules(subject) }),
    ))
}

async fn token(
    users: &Users,
    request: &HttpRequest,
    name: &str,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["POST"], "POST")?;
    let new: NewToken = body(request)?;
    let mut parts = new.allow.iter().flatten();
    if parts.any(|part| part.access.is_empty()) {
        return Err(HttpError::Body("access: name at least one".to_owned()));
    }
    let seconds = new.expires.map(|period| period.duration().as_secs());
    let parts = new.allow.map(|parts| {
        let parts = parts.into_iter().map(|part| (part.access, part.filter));
        parts.collect()
    });
    let secret = users.create_token(name, &new.label, seconds, parts).await?;
    // The token is shown only once, so no cache may keep it.
    Ok(
        HttpResponse::json(201, &json!({ "user": name, "token": secret.expose() }))
            .with("Cache-Control", "no-store"),
    )
}

fn user_response(users: &Users, name: &str) -> Result<HttpResponse, HttpError> {
    let list = users.list();
    let user = list.iter().find(|user| user.name == name);
    user.map(|user| HttpResponse::json(200, user))
        .ok_or_else(|| HttpError::Missing(format!("there is no user {name:?}")))
}

/// Whether a user other than `name` can log in as an administrator.
fn has_other_admin(users: &Users, name: Option<&str>) -> bool {
    let list = users.list();
    let mut others = list.iter().filter(|user| Some(user.name.as_str()) != name);
    others.any(|user| user.admin && !user.disabled)
}

fn expect_another_admin(users: &Users, name: &str) -> Result<(), HttpError> {
    if has_other_admin(users, Some(name)) {
        return Ok(());
    }
    Err(HttpError::Conflict(format!(
        "{name} is the last administrator; make another one first"
    )))
}

impl From<UsersError> for HttpError {
    fn from(error: UsersError) -> Self {
        match error {
            UsersError::Exists(_) => Self::Conflict(error.to_string()),
            UsersError::NoUser(_) | UsersError::NoRule { .. } | UsersError::NoToken(_) => {
                Self::Missing(error.to_string())
            }
            UsersError::Name(_)
            | UsersError::Hash(_)
            | UsersError::Filter { .. }
            | UsersError::Password
            | UsersError::WeakPassword { .. } => Self::Body(error.to_string()),
            UsersError::Key { .. } | UsersError::Hashing | UsersError::Store(_) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}
