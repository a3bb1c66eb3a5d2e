//! HTTP over a Unix socket: how container engines are asked.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, HOST};
use tokio::net::UnixStream;

use super::http::{Answer, HttpError};
use super::session::Session;

/// No answer came over a Unix socket.
#[derive(Debug, thiserror::Error)]
pub enum UnixError {
    /// The socket cannot be connected to.
    #[error(transparent)]
    Socket(io::Error),
    /// There is no whole answer in time.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// Asks for a path and waits for the whole answer, of at most so many bytes, on a connection of its own.
///
/// # Errors
/// When no whole answer comes in time. An answer with a bad status is none.
pub async fn get(
    socket: &Path,
    path: &str,
    most_bytes: usize,
    timeout: Duration,
) -> Result<Answer, UnixError> {
    let exchange = Box::pin(async {
        let stream = UnixStream::connect(socket).await.map_err(UnixError::Socket)?;
        let request = Request::get(path).header(HOST, "localhost").header(CONNECTION, "close");
        let request = request.body(Full::new(Bytes::new()));
        let request = request.map_err(|error| HttpError::Url(format!("cannot be asked: {error}")))?;
        Ok(Session::begin(stream).await?.send(request, most_bytes).await?)
    });
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(HttpError::Timeout(timeout).into()))
}
