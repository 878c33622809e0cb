//! `/admin/procedures/files`: the texts of procedures, tried and changed by administrators.

use gatepost_operations::Operations;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// Stored messages on which a text is tried, the latest ones.
const TRIED_MESSAGES: usize = 200;

/// The body of a PUT.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcedureText {
    text: String,
    /// The version that the text replaces.
    version: String,
}

/// The body of a POST.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    tag = "action",
    rename_all = "lowercase",
    expecting = "an object with action = try or undo"
)]
enum ProcedureAction {
    /// Compiles a text and runs it on stored messages.
    Try { text: String },
    /// The text before the last change returns.
    Undo,
}

/// `/admin/procedures/files`, `/admin/procedures/files/PATH`
pub(super) async fn respond(
    operations: &Operations,
    request: &HttpRequest,
    path: &str,
) -> Result<HttpResponse, HttpError> {
    if path.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        return Ok(HttpResponse::json(200, &list(operations)));
    }
    expect_method(
        request,
        &["GET", "HEAD", "PUT", "POST"],
        "GET, HEAD, PUT, POST",
    )?;
    let path = format!("/{path}");
    let trial = match request.method() {
        "PUT" => {
            let ProcedureText { text, version } = body(request)?;
            operations.change_procedure(path, text, version).await?
        }
        "POST" => match body(request)? {
            ProcedureAction::Undo => operations.undo_procedure(path).await?,
            ProcedureAction::Try { text } => {
                operations.try_procedure(path, text, TRIED_MESSAGES).await?
            }
        },
        _ => {
            let file = operations.procedure_file(path).await?;
            return Ok(HttpResponse::json(200, &file).with("Cache-Control", "no-store"));
        }
    };
    // After a mistake, the text in force remains.
    let status = if trial.is_usable() { 200 } else { 422 };
    Ok(HttpResponse::json(status, &trial))
}

fn list(operations: &Operations) -> Value {
    let listed = operations.procedures().into_iter();
    let listed = listed.map(|one| {
        json!({
            "path": one.path,
            "file": one.file.map(|file| file.display().to_string()),
            "scopes": one.scopes,
        })
    });
    json!({
        "editable": operations.procedure_files.is_editable(),
        "procedures": listed.collect::<Vec<_>>(),
    })
}
