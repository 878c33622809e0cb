//! The login of a client of a server.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::{BrokerAddress, ClientError};

#[derive(Debug, Args)]
pub(super) struct LoginOptions {
    /// The user; an administrator's for the administration API
    #[arg(short = 'u', long = "username", value_name = "NAME")]
    user: Option<String>,
    /// The password; other processes can read it here, so prefer --pw-file
    #[arg(short = 'P', long = "pw", value_name = "PASSWORD")]
    password: Option<String>,
    /// Read the password from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    pw_file: Option<PathBuf>,
}

impl LoginOptions {
    /// Replaces the parts of the address's login that the switches name.
    pub(super) fn add_to(&self, address: &mut BrokerAddress) -> Result<(), ClientError> {
        if self.user.is_some() {
            address.user.clone_from(&self.user);
        }
        if let Some(file) = &self.pw_file {
            let text = fs::read_to_string(file)
                .map_err(|error| ClientError::Usage(format!("{}: {error}", file.display())))?;
            address.password = Some(text.lines().next().unwrap_or_default().to_owned());
        } else if self.password.is_some() {
            address.password.clone_from(&self.password);
        }
        Ok(())
    }
}
