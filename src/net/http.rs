//! One HTTP request to a system that is asked now and then: no pool, no redirects, one deadline for all of it.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use openssl::ssl::{SslConnector, SslMethod};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::tls::{TlsError, trust};

/// Answers of the systems that are asked are small; a larger one is a wrong address.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A server that can be asked.
#[allow(missing_debug_implementations)] // holds a secret
pub struct Client {
    tls: Option<SslConnector>,
    host: String,
    port: u16,
    /// What stands in `Host`.
    authority: String,
    /// The path of the URL, without a slash at its end.
    base: String,
    authorization: Option<HeaderValue>,
}

/// What a server answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// No answer came.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL cannot be used.
    #[error("{0}")]
    Url(String),
    /// TLS cannot be prepared.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server cannot be reached, or does not speak HTTP.
    #[error("{0}")]
    Unreachable(String),
    /// There was no time left.
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    Timeout(Duration),
}

impl Client {
    /// A client for a URL like `https://host:8081/path`. Nothing is connected yet.
    ///
    /// # Errors
    /// When the text is no such URL, or TLS cannot be prepared.
    pub fn new(url: &str, ca_file: Option<&Path>) -> Result<Self, HttpError> {
        let wrong =
            |what: &str| HttpError::Url(format!("{what}; write it like http://host:8081 or https://host"));
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("is not a URL ({error})")))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("does not begin with http:// or https://")),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| wrong("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("holds a user name or password, which have settings of their own"));
        }
        if uri.query().is_some() {
            return Err(wrong("holds a query"));
        }
        let tls = if secure {
            let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(TlsError::from)?;
            trust(&mut builder, ca_file)?;
            Some(builder.build())
        } else {
            None
        };
        Ok(Self {
            tls,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            base: uri.path().trim_end_matches('/').to_owned(),
            authorization: None,
        })
    }

    /// Sends user name and password with each request.
    ///
    /// # Errors
    /// When they hold what cannot be sent.
    pub fn basic_auth(&mut self, username: &str, password: &str) -> Result<(), HttpError> {
        let text = openssl::base64::encode_block(format!("{username}:{password}").as_bytes());
        let mut value = HeaderValue::from_str(&format!("Basic {text}"))
            .map_err(|_| HttpError::Url("cannot be given this user name and password".to_owned()))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }

    /// Sends a request and waits for the whole answer. Blocks: never to be called on the async runtime.
    ///
    /// # Errors
    /// When no whole answer comes in time. An answer with a bad status is none.
    pub fn request(
        &self,
        method: Method,
        path: &str,
        content: Option<(&str, String)>,
        timeout: Duration,
    ) -> Result<Answer, HttpError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| HttpError::Unreachable(error.to_string()))?;
        let answer = runtime.block_on(async {
            let exchange = Box::pin(self.exchange(method, path, content));
            tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(HttpError::Timeout(timeout)))
        });
        // A name that is still being looked up must not hold the caller.
        runtime.shutdown_background();
        answer
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content: Option<(&str, String)>,
    ) -> Result<Answer, HttpError> {
        let unreachable = |error: &dyn std::error::Error| HttpError::Unreachable(with_sources(error));
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header(HOST, &self.authority);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some((kind, _)) = &content {
            request = request.header(CONTENT_TYPE, *kind);
        }
        let body = content.map(|(_, body)| body).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| HttpError::Url(format!("cannot be asked: {error}")))?;
        let stream =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| unreachable(&e))?;
        match &self.tls {
            None => answer(stream, request).await,
            Some(connector) => {
                let session = connector.configure().and_then(|session| session.into_ssl(&self.host));
                let session = session.map_err(TlsError::from)?;
                let mut stream = SslStream::new(session, stream).map_err(TlsError::from)?;
                Pin::new(&mut stream).connect().await.map_err(|e| unreachable(&e))?;
                answer(stream, request).await
            }
        }
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, HttpError> {
    let unreachable = |error: &dyn std::error::Error| HttpError::Unreachable(with_sources(error));
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| unreachable(&e))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|e| unreachable(&e))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|e| unreachable(e.as_ref()))?.to_bytes().to_vec();
        Ok(Answer { status, body })
    };
    // The connection does the work of the exchange; it may end before the last word of the answer was taken.
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        _ = connection => exchange.await,
    }
}

/// An error with what it comes from: hyper says "error trying to connect" and leaves the reason to its source.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}
