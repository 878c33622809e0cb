//! Makes the built-in procedures from their settings; a scope's arguments override these.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::builtin::{
    autoreply, dedupe, greylist, jsoncheck, names, noop, ratelimit, signature, sizecheck,
    spamcheck, status, viruscheck,
};
use crate::deferred_rules::DeferredRules;
use crate::host::Resources;
use crate::procedure::Procedure;
use crate::{ProcedureArguments, ProcedureTable};

/// Resources that built-in procedures are made from.
pub(crate) struct BuiltinFactory<'a> {
    pub(crate) table: &'a ProcedureTable,
    pub(crate) rules: &'a DeferredRules,
    pub(crate) resources: &'a Arc<Resources>,
}

impl BuiltinFactory<'_> {
    /// The built-in procedure of this path, with arguments over its settings. `name` distinguishes
    /// it from others of the same path with other arguments.
    pub(crate) fn make(
        &self,
        path: &str,
        name: &str,
        arguments: &ProcedureArguments,
    ) -> Result<Arc<dyn Procedure>, String> {
        let table = self.table;
        Ok(match path {
            names::AUTOREPLY => {
                let settings = with(&table.autoreply, arguments)?;
                Arc::new(autoreply::Autoreply::new(settings, self.resources)?)
            }
            names::DEDUPE => {
                let settings = with(&table.dedupe, arguments)?;
                Arc::new(dedupe::Dedupe::new(name, settings, self.resources))
            }
            names::GREYLIST => {
                let settings = with(&table.greylist, arguments)?;
                Arc::new(greylist::Greylist::new(settings, self.resources)?)
            }
            names::JSONCHECK => Arc::new(jsoncheck::Jsoncheck::new(&with(
                &table.jsoncheck,
                arguments,
            )?)?),
            names::RATELIMIT => {
                let settings = with(&table.ratelimit, arguments)?;
                Arc::new(ratelimit::Ratelimit::new(name, settings, self.resources)?)
            }
            names::SIGNATURE => Arc::new(signature::SignatureCheck::new(&with(
                &table.signature,
                arguments,
            )?)?),
            names::SIZECHECK => Arc::new(sizecheck::Sizecheck(with(&table.sizecheck, arguments)?)),
            names::SPAMCHECK => Arc::new(spamcheck::Spamcheck {
                settings: with(&table.spamcheck, arguments)?,
                rules: self.rules.clone(),
            }),
            names::STATUS => without(arguments, Arc::new(status::StatusReport))?,
            names::VIRUSCHECK => {
                let settings = with(&table.viruscheck, arguments)?;
                Arc::new(viruscheck::Viruscheck::new(settings, self.resources))
            }
            _ => without(arguments, Arc::new(noop::Noop))?,
        })
    }
}

/// Settings with some overridden by arguments: `-max 1MB` for `max = "1MB"`. An argument is tried
/// as a text first, then as a number or `true` if the setting requires one.
fn with<S: Serialize + DeserializeOwned + Clone>(
    settings: &S,
    arguments: &ProcedureArguments,
) -> Result<S, String> {
    let mut settings = settings.clone();
    for (key, value) in arguments.iter() {
        let Ok(Value::Object(mut table)) = serde_json::to_value(&settings) else {
            return Err("its settings cannot be read".to_owned());
        };
        let problem = |error: &serde_json::Error| format!("-{key} {value}: {error}");
        table.insert(key.to_owned(), Value::String(value.to_owned()));
        settings = match serde_json::from_value(Value::Object(table.clone())) {
            Ok(settings) => settings,
            Err(as_text) => {
                let other = serde_json::from_str(value).map_err(|_| problem(&as_text))?;
                table.insert(key.to_owned(), other);
                serde_json::from_value(Value::Object(table)).map_err(|_| problem(&as_text))?
            }
        };
    }
    Ok(settings)
}

fn without(
    arguments: &ProcedureArguments,
    procedure: Arc<dyn Procedure>,
) -> Result<Arc<dyn Procedure>, String> {
    match arguments.iter().next() {
        None => Ok(procedure),
        Some((key, _)) => Err(format!("-{key}: the procedure takes no arguments")),
    }
}
