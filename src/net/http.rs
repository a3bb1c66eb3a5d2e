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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use openssl::asn1::Asn1Time;
    use openssl::hash::MessageDigest;
    use openssl::pkey::{PKey, Private};
    use openssl::rsa::Rsa;
    use openssl::ssl::SslAcceptor;
    use openssl::x509::extension::SubjectAlternativeName;
    use openssl::x509::{X509, X509NameBuilder};

    use super::*;

    const ANSWER: &[u8] =
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    const SECOND: Duration = Duration::from_secs(1);
    /// For what must succeed on a machine that is busy.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A certificate that its owner signed, for 127.0.0.1.
    fn certificate() -> (X509, PKey<Private>) {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_text("CN", "registry").unwrap();
        let name = name.build();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_subject_name(&name).unwrap();
        builder.set_issuer_name(&name).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
        let address =
            SubjectAlternativeName::new().ip("127.0.0.1").build(&builder.x509v3_context(None, None));
        builder.append_extension(address.unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        (builder.build(), key)
    }

    /// Serves one request and hands it out; `tls` speaks TLS.
    fn serve(tls: Option<&(X509, PKey<Private>)>) -> (u16, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = tls.map(|(certificate, key)| {
            let mut builder = SslAcceptor::mozilla_intermediate(SslMethod::tls()).unwrap();
            builder.set_certificate(certificate).unwrap();
            builder.set_private_key(key).unwrap();
            builder.build()
        });
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                match &acceptor {
                    None => exchange(stream, &sender),
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream) {
                            exchange(stream, &sender);
                        }
                    }
                }
            }
        });
        (port, receiver)
    }

    fn exchange(mut stream: impl Read + Write, sender: &mpsc::Sender<String>) {
        let mut request = Vec::new();
        let mut part = [0; 4096];
        while !request.ends_with(b"END") {
            match stream.read(&mut part) {
                Ok(count) if count > 0 => request.extend_from_slice(&part[..count]),
                _ => return,
            }
        }
        stream.write_all(ANSWER).unwrap();
        sender.send(String::from_utf8(request).unwrap()).unwrap();
    }

    fn post(client: &Client) -> Result<Answer, HttpError> {
        client.request(Method::POST, "/b?c=1", Some(("text/x", "END".to_owned())), PATIENCE)
    }

    #[test]
    fn a_request_says_all_that_it_should_and_the_answer_is_whole() {
        let (port, received) = serve(None);
        let mut client = Client::new(&format!("http://127.0.0.1:{port}/a/"), None).unwrap();
        client.basic_auth("alice", "open sesame").unwrap();
        let answer = post(&client).unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (201, b"abcde".as_slice()));
        let request = received.recv().unwrap().to_ascii_lowercase();
        assert!(request.starts_with("post /a/b?c=1 http/1.1\r\n"), "{request}");
        for header in [
            &format!("host: 127.0.0.1:{port}"),
            "content-type: text/x",
            "authorization: basic ywxpy2u6b3blbibzzxnhbwu=",
        ] {
            assert!(request.contains(&format!("\r\n{header}\r\n")), "{header}: {request}");
        }
    }

    #[test]
    fn tls_trusts_the_given_authorities_and_no_stranger() {
        let own = certificate();
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, certificate: &X509| {
            let path = dir.path().join(name);
            std::fs::write(&path, certificate.to_pem().unwrap()).unwrap();
            path
        };
        let (ours, strangers) = (file("ours.pem", &own.0), file("strangers.pem", &certificate().0));
        let (port, received) = serve(Some(&own));
        let ask = |host: &str, ca: Option<&Path>| {
            post(&Client::new(&format!("https://{host}:{port}"), ca).unwrap())
        };
        assert_eq!(ask("127.0.0.1", Some(&ours)).unwrap().status, 201);
        assert!(received.recv().unwrap().contains("END"));
        for (host, ca) in [("127.0.0.1", None), ("127.0.0.1", Some(&*strangers)), ("localhost", Some(&*ours))]
        {
            let error = ask(host, ca).unwrap_err().to_string();
            assert!(error.contains("certificate verify failed"), "{host}: {error}");
        }
        let none = dir.path().join("none.pem");
        assert!(matches!(Client::new("https://h", Some(&none)), Err(HttpError::Tls(TlsError::Read { .. }))));
        std::fs::write(&none, "nothing").unwrap();
        assert!(matches!(
            Client::new("https://h", Some(&none)),
            Err(HttpError::Tls(TlsError::NoCertificate(_)))
        ));
    }

    #[test]
    fn no_answer_is_said_in_time() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let client = Client::new(&format!("http://127.0.0.1:{port}"), None).unwrap();
        let error = client.request(Method::GET, "/", None, SECOND / 10).unwrap_err();
        assert!(matches!(error, HttpError::Timeout(_)), "{error}");
        assert_eq!(error.to_string(), "no answer within 0.1 s");
        drop(silent);
        let error = client.request(Method::GET, "/", None, PATIENCE).unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }

    #[test]
    fn urls_that_cannot_be_used_say_why() {
        for (url, says) in [
            ("registry:8081", "does not begin with http"),
            ("ftp://h", "does not begin with http"),
            ("http://", "is not a URL"),
            ("http://u:hunter2@h", "user name or password"),
            ("http://h/?a=b", "holds a query"),
        ] {
            let Err(error) = Client::new(url, None) else { panic!("{url}") };
            let error = error.to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{url}: {error}");
        }
        let client = Client::new("http://[::1]:8081/a//", None).unwrap();
        assert_eq!((client.host.as_str(), client.port, client.base.as_str()), ("::1", 8081, "/a"));
        assert_eq!(Client::new("https://h", None).unwrap().port, 443);
    }
}
