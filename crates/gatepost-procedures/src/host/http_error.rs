//! The reasons why a procedure's request gets no response.

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutgoingHttpError {
    #[error("{0} is not a server that procedures.http.hosts allows")]
    NotAllowed(String),
    #[error("'{0}' is not an address of the web")]
    Malformed(String),
    #[error("a request has its own field {0}; give no other")]
    OwnField(String),
    #[error("the server did not answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
}
