//! `[procedure."/path"]`: one table per procedure, each with its own type, so that a mistyped
//! key of a built-in procedure is refused with its position in the file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{LuauSettings, ScopeSettings};
use crate::ScopeMember;
use crate::builtin::{
    AutoreplySettings, DedupeSettings, GreylistSettings, JsoncheckSettings, RatelimitSettings,
    SignatureSettings, SizecheckSettings, SpamcheckSettings, StatusSettings, ViruscheckSettings,
    names,
};

/// The settings of every procedure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcedureTable {
    /// `[procedure."/autoreply"]`
    pub autoreply: AutoreplySettings,
    /// `[procedure."/dedupe"]`
    pub dedupe: DedupeSettings,
    /// `[procedure."/greylist"]`
    pub greylist: GreylistSettings,
    /// `[procedure."/jsoncheck"]`
    pub jsoncheck: JsoncheckSettings,
    /// `[procedure."/ratelimit"]`
    pub ratelimit: RatelimitSettings,
    /// `[procedure."/signature"]`
    pub signature: SignatureSettings,
    /// `[procedure."/sizecheck"]`
    pub sizecheck: SizecheckSettings,
    /// `[procedure."/spamcheck"]`
    pub spamcheck: SpamcheckSettings,
    /// `[procedure."/status"]`
    pub status: StatusSettings,
    /// `[procedure."/viruscheck"]`
    pub viruscheck: ViruscheckSettings,
    /// Tables of the user's own Luau procedures, by path.
    pub luau: BTreeMap<String, LuauSettings>,
}

impl ProcedureTable {
    /// The files that built-in procedures read, also those that members of these scopes name: a
    /// sandbox must permit them, since a reload reads them again.
    pub fn files(&self, scopes: &[ScopeSettings]) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = [
            &self.autoreply.file,
            &self.jsoncheck.schema,
            &self.signature.file,
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
        for member in scopes.iter().flat_map(|scope| &scope.run) {
            // A malformed member is reported when its scope is compiled.
            let Ok(member) = member.parse::<ScopeMember>() else {
                continue;
            };
            let argument = match member.path.as_str() {
                names::AUTOREPLY | names::SIGNATURE => "file",
                names::JSONCHECK => "schema",
                _ => continue,
            };
            files.extend(member.arguments.get(argument).map(PathBuf::from));
        }
        files
    }
}

impl<'de> Deserialize<'de> for ProcedureTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ByPath;

        impl<'de> Visitor<'de> for ByPath {
            type Value = ProcedureTable;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .write_str("a table of procedure paths, such as [procedure.\"/sizecheck\"]")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ProcedureTable, A::Error> {
                let mut table = ProcedureTable::default();
                while let Some(path) = map.next_key::<String>()? {
                    match path.as_str() {
                        names::AUTOREPLY => table.autoreply = map.next_value()?,
                        names::DEDUPE => table.dedupe = map.next_value()?,
                        names::GREYLIST => table.greylist = map.next_value()?,
                        names::JSONCHECK => table.jsoncheck = map.next_value()?,
                        names::RATELIMIT => table.ratelimit = map.next_value()?,
                        names::SIGNATURE => table.signature = map.next_value()?,
                        names::SIZECHECK => table.sizecheck = map.next_value()?,
                        names::SPAMCHECK => table.spamcheck = map.next_value()?,
                        names::STATUS => table.status = map.next_value()?,
                        names::VIRUSCHECK => table.viruscheck = map.next_value()?,
                        names::NOOP => {
                            return Err(A::Error::custom(format!(
                                "{path} has no settings; remove this table"
                            )));
                        }
                        _ if !path.starts_with('/') => {
                            return Err(A::Error::custom(format!(
                                "'{path}' is not a path of a procedure; write \"/{path}\""
                            )));
                        }
                        _ => {
                            table.luau.insert(path, map.next_value()?);
                        }
                    }
                }
                Ok(table)
            }
        }

        from.deserialize_map(ByPath)
    }
}

impl Serialize for ProcedureTable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry(names::AUTOREPLY, &self.autoreply)?;
        map.serialize_entry(names::DEDUPE, &self.dedupe)?;
        map.serialize_entry(names::GREYLIST, &self.greylist)?;
        map.serialize_entry(names::JSONCHECK, &self.jsoncheck)?;
        map.serialize_entry(names::RATELIMIT, &self.ratelimit)?;
        map.serialize_entry(names::SIGNATURE, &self.signature)?;
        map.serialize_entry(names::SIZECHECK, &self.sizecheck)?;
        map.serialize_entry(names::SPAMCHECK, &self.spamcheck)?;
        map.serialize_entry(names::STATUS, &self.status)?;
        map.serialize_entry(names::VIRUSCHECK, &self.viruscheck)?;
        for (path, settings) in &self.luau {
            map.serialize_entry(path, settings)?;
        }
        map.end()
    }
}
