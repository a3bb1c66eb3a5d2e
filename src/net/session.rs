//! A connection that carries one request after the other.

use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::http::{Answer, HttpError, unreachable};

/// A connection. Whoever waits for an answer drives it, so there is no task that could outlive it, and dropping it closes the
/// socket.
#[allow(missing_debug_implementations)] // its parts have none that tell anything
pub struct Session {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
    served: bool,
}

impl Session {
    pub(super) async fn begin(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, HttpError> {
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
        Ok(Self { sender, driver: Box::pin(driver), served: false })
    }

    /// Whether the server keeps it open, as far as is known. If not, it must be thrown away.
    pub fn is_open(&mut self) -> bool {
        // The end of a connection is only noticed while it is driven.
        self.driver.as_mut().now_or_never().is_none() && !self.sender.is_closed()
    }

    /// It has brought an answer before: should it fail now, the server may just have closed it for being idle.
    #[must_use]
    pub const fn has_served(&self) -> bool {
        self.served
    }

    /// Sends a request and waits for the whole answer. After an error, and when it is not waited for to the end, the session
    /// must be thrown away.
    ///
    /// # Errors
    /// When no whole answer comes, or its body has more than so many bytes.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        most_bytes: usize,
    ) -> Result<Answer, HttpError> {
        let Self { sender, driver, served } = self;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, most_bytes).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    HttpError::TooLarge(most_bytes)
                } else {
                    unreachable(error.as_ref())
                }
            })?;
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes().to_vec() })
        };
        let mut exchange = std::pin::pin!(exchange);
        // The connection may end before the last word of the answer was taken.
        let answer = tokio::select! {
            biased;
            answer = &mut exchange => answer,
            _ = driver => exchange.await,
        };
        *served |= answer.is_ok();
        answer
    }
}
