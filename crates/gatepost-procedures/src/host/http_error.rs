//! The reasons why a procedure's request gets no response.

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutgoingHttpError {
    #[error("{0} is not among the servers of procedures.http.hosts")]
    NotAllowed(String),
    #[error("'{0}' is not an HTTP or HTTPS URL")]
    Malformed(String),
    #[error("the header field {0} is set by the request itself; omit it")]
    OwnField(String),
    #[error("the server did not answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
}
