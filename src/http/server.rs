//! Listening, serving, stopping.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::achieved::Achieved;
use super::edge::Guard;
use super::settings::HttpSettings;
use super::{App, ReadProfile, Shared, router};
use crate::config::{Secret, SecretFileError};
use crate::core::control::Control;
use crate::metrics::Renderer;

/// Connections at once: far more than scrapers and pages need, far fewer than file descriptors. One more cuts the
/// oldest.
const MAX_CONNECTIONS: usize = 256;
/// Connections that the system queues for us.
const QUEUE: u32 = 1024;
/// How long a client may take to send a request's head. It also ends an idle connection, so it is longer than any
/// usual scrape interval.
const HEAD_DEADLINE: Duration = Duration::from_secs(75);
/// How long a client may leave what it was sent unread or unacknowledged.
const UNREAD_DEADLINE: Duration = Duration::from_secs(30);
/// How long a stop waits for requests that are being answered; half-sent ones and slow clients are cut off then.
const STOP_DEADLINE: Duration = Duration::from_secs(2);
/// Pause after a failed accept (no file descriptors left), so that it is not tried in a loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Anybody on the network could change the load.
    #[error(
        "http.listen {0} is beyond loopback and no token is set: put a secret into a file and name it in \
         http.token_file, or listen on 127.0.0.1"
    )]
    NoToken(SocketAddr),
    /// The token cannot be read.
    #[error("http.token_file: {0}")]
    Token(#[from] SecretFileError),
    /// Another program listens there.
    #[error(
        "cannot listen on {0}: port {port} is in use by another program; stop it or choose another port in \
         http.listen",
        port = .0.port()
    )]
    InUse(SocketAddr),
    /// Any other refusal of the system.
    #[error("cannot listen on {listen}: {source}")]
    Listen {
        /// The address of the settings.
        listen: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// The address that a server will serve on, taken and not served yet: who connects waits.
#[derive(Debug)]
pub struct HttpListener {
    pub(super) listener: TcpListener,
    local_addr: SocketAddr,
    pub(super) token: Option<Secret>,
}

impl HttpListener {
    /// Takes the address, so that a port in use is known before anything is asked of a broker. Needs a Tokio runtime.
    ///
    /// # Errors
    /// When the address is beyond loopback and there is no token, the token file cannot be read, or the address cannot
    /// be bound.
    pub fn bind(settings: &HttpSettings) -> Result<Self, HttpError> {
        let listen = settings.listen;
        let token = settings.token_file.as_deref().map(Secret::read).transpose()?;
        if token.is_none() && !listen.ip().is_loopback() {
            return Err(HttpError::NoToken(listen));
        }
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => HttpError::InUse(listen),
            _ => HttpError::Listen { listen, source },
        };
        let listener = listen_on(listen).map_err(refused)?;
        let local_addr = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, local_addr, token })
    }

    /// The address with the port that was given for port 0.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

/// The server, not serving yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    app: Shared,
    guard: Guard,
}

impl HttpServer {
    /// A server on a taken address. `shown_settings` stands in the status as it is: secrets must be redacted already.
    /// `read_profile` knows how profiles are written.
    #[must_use]
    pub fn new(
        on: HttpListener,
        control: Arc<Control>,
        shown_settings: Value,
        read_profile: ReadProfile,
    ) -> Self {
        let HttpListener { listener, token, .. } = on;
        let app = App {
            control,
            metrics: Renderer::default(),
            achieved: Achieved::default(),
            settings: shown_settings,
            read_profile,
        };
        let guard = Guard { token, protects_reads: false };
        Self { listener, app: Arc::new(app), guard }
    }

    /// Serves until `stop`, then lets requests that are being answered finish, up to one deadline for all of them.
    pub async fn run(self, stop: CancellationToken) {
        let Self { listener, app, guard } = self;
        let router = router(Arc::clone(&app), guard);
        let every_second = || app.achieved.sample(app.board());
        serve_all(listener, router, stop, every_second).await;
    }
}

/// Serves connections until `stop`, and calls back once a second meanwhile.
pub(super) async fn serve_all(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    every_second: impl Fn() + Send,
) {
    // Oldest first. When there are too many, the oldest makes room: whoever holds connections open, idle or half-asked,
    // must not keep an operator or a scrape out.
    let mut open: VecDeque<(u64, CancellationToken)> = VecDeque::new();
    let mut accepted_total = 0;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut connections = JoinSet::new();
    let mut accepting = true;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = second.tick() => every_second(),
            Some(ended) = connections.join_next() => {
                // A connection whose task was cut off stays until it is the oldest.
                if let Ok(ended) = ended {
                    open.retain(|(number, _)| *number != ended);
                }
            }
            accepted = accept(&listener) => {
                log_change(&mut accepting, &accepted);
                if let Ok(stream) = accepted {
                    if open.len() >= MAX_CONNECTIONS && let Some((_, oldest)) = open.pop_front() {
                        oldest.cancel();
                    }
                    accepted_total += 1;
                    let close = CancellationToken::new();
                    open.push_back((accepted_total, close.clone()));
                    let serving = serve(stream, router.clone(), stop.clone(), close);
                    let number = accepted_total;
                    connections.spawn(async move {
                        serving.await;
                        number
                    });
                }
            }
        }
    }
    drop(listener);
    let all_done = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_DEADLINE, all_done).await.is_err() {
        tracing::info!(connections = connections.len(), "cutting off clients that did not finish");
    }
    connections.shutdown().await;
}

fn listen_on(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a killed predecessor linger in the system and must not keep the port from us.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(QUEUE)
}

/// The next connection. Nothing is lost when this is cancelled.
async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Ok(stream),
        Err(error) => {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            Err(error)
        }
    }
}

/// Logs when accepting begins to fail and when it works again, not at every attempt.
fn log_change<T>(accepting: &mut bool, accepted: &io::Result<T>) {
    match accepted {
        Err(error) if *accepting => tracing::warn!(%error, "cannot accept HTTP connections"),
        Ok(_) if !*accepting => tracing::info!("accepting HTTP connections again"),
        _ => {}
    }
    *accepting = accepted.is_ok();
}

async fn serve(stream: TcpStream, router: Router, stop: CancellationToken, close: CancellationToken) {
    let socket = socket2::SockRef::from(&stream);
    // Answers are small: waiting to fill a packet only delays them. A refusal of either option harms nothing.
    let _ = stream.set_nodelay(true);
    let _ = socket.set_tcp_user_timeout(Some(UNREAD_DEADLINE));
    let _ = socket.set_keepalive(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        // A client that has sent all and closed its side still gets its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // How a connection ends is the client's affair: errors were answered where there was somebody to answer.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = close.cancelled() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
