//! Progress by a query over the PostgreSQL protocol: PostgreSQL itself and everything that speaks its wire.
//!
//! Only simple queries are sent, as psql does. Their answers are text, so no catalogue is asked for types (which
//! look-alikes lack), nothing is prepared (which a transaction pooler would lose), and numbers of every type are
//! read exactly. Deadlines are the client's own: a frozen server never answers, and its session never looks closed.
//! After any error the session is thrown away, because nobody knows what state it is in.
//!
//! A limit: behind a pooler in transaction mode the `session` statements may reach another server session than the
//! query does.

use std::error::Error as _;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use postgres_openssl::MakeTlsConnector;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Config, Connection, Error, SimpleQueryMessage, Socket};

use crate::config::{Secret, SecretFileError};
use crate::core::lag::{Progress, ValueKind};
use crate::core::status::ProgressErrorKind;

use super::dsn::{self, Dsn};
use super::poll::{Answering, ProbeError, Source};
use super::question;
use super::rows::{Answer, interpret};
use super::settings::SqlSettings;
use super::tls::{self, TlsError};

/// Rows that are counted beyond the partitions before an answer is given up as a flood.
const SPARE_ROWS: usize = 1000;
/// How long the server may take to be told that nobody waits for an answer any more, or that a session ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// A source of kind `sql` cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The connection text is no use.
    #[error("the url {0}")]
    Url(String),
    /// The password cannot be read.
    #[error(transparent)]
    Password(#[from] SecretFileError),
    /// TLS cannot be prepared.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Asks a server by SQL.
pub(super) struct SqlSource {
    hosts: Vec<Config>,
    tls: MakeTlsConnector,
    session: Vec<String>,
    query: String,
    kind: ValueKind,
    partitions: u32,
    live: Option<Session>,
    /// Good answers with a lag below zero.
    below_zero: u64,
    /// The query that nobody waits for any more.
    orphan: Option<CancelToken>,
}

type Link = Connection<Socket, <MakeTlsConnector as MakeTlsConnect<Socket>>::Stream>;

/// One session. The connection is driven by whoever waits for an answer, so there is no task that could outlive it, and
/// dropping it closes the socket.
struct Session {
    client: Client,
    link: Link,
    /// It has answered a query before: should it fail now, it may just have been closed while it was idle.
    proven: bool,
}

impl SqlSource {
    /// A source for a stream with so many partitions, in the run of this id. Reads files, connects to nothing.
    ///
    /// # Errors
    /// When the connection text, the password file or the file of authorities cannot be used.
    pub(super) fn new(
        settings: &SqlSettings,
        kind: ValueKind,
        partitions: u32,
        run: &str,
    ) -> Result<Self, SqlError> {
        let dsn = dsn::parse(settings.url.expose(), settings.tls, settings.tls_ca_file.as_deref());
        let dsn = dsn.map_err(SqlError::Url)?;
        let tls = tls::connector(&dsn)?;
        let Dsn { mut hosts, .. } = dsn;
        if let Some(path) = &settings.password_file {
            let password = Secret::read(path)?;
            for host in &mut hosts {
                host.password(password.expose());
            }
        }
        Ok(Self {
            hosts,
            tls,
            session: settings.session.iter().map(|one| question::with_run(one, run)).collect(),
            query: question::whole(&settings.query, run, partitions),
            kind,
            partitions,
            live: None,
            below_zero: 0,
            orphan: None,
        })
    }

    async fn connected(&mut self, deadline: Instant) -> Result<(), ProbeError> {
        if self.live.as_ref().is_some_and(|session| !session.client.is_closed()) {
            return Ok(());
        }
        self.live = None;
        let mut last = None;
        for (index, host) in self.hosts.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(self.hosts.len() - index).unwrap_or(1);
            match Box::pin(timeout(share, open(host, &self.tls, &self.session))).await {
                Ok(Ok(session)) => {
                    self.live = Some(session);
                    return Ok(());
                }
                Ok(Err(error)) => last = Some(error),
                Err(_) => {
                    let text = format!("no session with {} within {}", place(host), millis(share));
                    last = Some(ProbeError::new(ProgressErrorKind::Timeout, text));
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            ProbeError::new(ProgressErrorKind::Connect, "the url names no host".to_owned())
        }))
    }

    async fn asked(&mut self, deadline: Instant) -> Result<Progress, ProbeError> {
        // Taken out, and put back only after a good answer: whatever ends this early drops the session.
        let Some(mut session) = self.live.take() else {
            return Err(ProbeError::new(ProgressErrorKind::Connect, "there is no session".to_owned()));
        };
        self.orphan = Some(session.client.cancel_token());
        let asked = Instant::now();
        let most = self.partitions as usize + SPARE_ROWS;
        let answer = drive(&mut session.link, fetch(&session.client, &self.query, most));
        let answer = match timeout_at(deadline, answer).await {
            Err(_) => {
                let text = format!("no answer to the query within {}", millis(asked.elapsed()));
                return Err(ProbeError::new(ProgressErrorKind::Timeout, text));
            }
            Ok(Err(failure)) => {
                // The server itself has ended the query, or is not there.
                self.orphan = None;
                let stale = session.proven && failure.dead;
                return Err(failure.into_error("the query").stale(stale));
            }
            Ok(Ok(answer)) => answer,
        };
        if answer.results > 1 {
            let text = format!(
                "the query returned {} results; it must be one statement that returns rows",
                answer.results
            );
            return Err(ProbeError::new(ProgressErrorKind::Shape, text));
        }
        if answer.results == 0 {
            let text =
                "the query returned no result at all; it must be a statement that returns rows".to_owned();
            return Err(ProbeError::new(ProgressErrorKind::Shape, text));
        }
        let progress = interpret(&answer.last, self.kind, self.partitions)?;
        self.below_zero += u64::from(answer.last.states_below_zero(self.kind));
        self.orphan = None;
        session.proven = true;
        self.live = Some(session);
        Ok(progress)
    }
}

impl Source for SqlSource {
    fn ready(&mut self, deadline: Instant) -> Answering<'_, ()> {
        Box::pin(self.connected(deadline))
    }

    fn ask(&mut self, deadline: Instant) -> Answering<'_, Progress> {
        Box::pin(self.asked(deadline))
    }

    fn below_zero(&self) -> u64 {
        self.below_zero
    }

    fn after_failure(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // A query that went on after its session is gone would pile up on the server, one a poll.
        let orphan = self.orphan.take();
        let tls = self.tls.clone();
        Box::pin(async move {
            if let Some(orphan) = orphan {
                let _ = Box::pin(timeout(FAREWELL, orphan.cancel_query(tls))).await;
            }
        })
    }

    fn close(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.after_failure().await;
            if let Some(Session { client, link, .. }) = self.live.take() {
                drop(client);
                let _ = timeout(FAREWELL, link).await;
            }
        })
    }
}

/// Connects and runs the session statements.
async fn open(host: &Config, tls: &MakeTlsConnector, statements: &[String]) -> Result<Session, ProbeError> {
    let at = place(host);
    let connected = Box::pin(host.connect(tls.clone())).await;
    let (client, mut link) = connected.map_err(|error| {
        // A server that refuses a session has answered, and yet there is none.
        let text = Failure::of(&error).text;
        ProbeError::new(ProgressErrorKind::Connect, format!("cannot connect to {at}: {text}"))
    })?;
    for (index, statement) in statements.iter().enumerate() {
        let run = drive(&mut link, client.batch_execute(statement)).await;
        run.map_err(|failure| failure.into_error(&format!("session statement {}", index + 1)))?;
    }
    Ok(Session { client, link, proven: false })
}

/// Waits for an answer while the connection carries it.
async fn drive<T>(link: &mut Link, work: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    let mut work = pin!(work);
    let ended = tokio::select! {
        biased;
        done = &mut work => return done.map_err(|error| Failure::of(&error)),
        ended = link => ended,
    };
    // The answer may have come along with the end of the connection, as a server's last words do.
    match (work.now_or_never(), ended) {
        (Some(Ok(done)), _) => Ok(done),
        (Some(Err(error)), ended) if !error.is_closed() || ended.is_ok() => Err(Failure::of(&error)),
        (_, Err(ended)) => Err(Failure::of(&ended)),
        (_, Ok(())) => Err(Failure {
            kind: ProgressErrorKind::Connect,
            text: "the connection has ended".to_owned(),
            dead: true,
            hopeless: false,
        }),
    }
}

#[derive(Debug, Default)]
struct Fetched {
    /// How many statements returned rows, or could have.
    results: usize,
    last: Answer,
}

async fn fetch(client: &Client, query: &str, most: usize) -> Result<Fetched, Error> {
    let mut messages = pin!(client.simple_query_raw(query).await?);
    let mut fetched = Fetched::default();
    while let Some(message) = messages.try_next().await? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                fetched.results += 1;
                let columns = columns.iter().map(|column| column.name().to_owned()).collect();
                fetched.last = Answer { columns, ..Answer::default() };
            }
            SimpleQueryMessage::Row(_) if fetched.last.rows.len() >= most => {
                fetched.last.cut = true;
                break;
            }
            SimpleQueryMessage::Row(row) => {
                let mut cells = Vec::with_capacity(row.len());
                for column in 0..row.len() {
                    cells.push(row.try_get(column)?.map(ToOwned::to_owned));
                }
                fetched.last.rows.push(cells);
            }
            _ => {}
        }
    }
    Ok(fetched)
}

/// What an error of the driver means to us.
struct Failure {
    kind: ProgressErrorKind,
    text: String,
    /// The session is gone, rather than the query wrong.
    dead: bool,
    /// The query can never work: not one whose table is still to come.
    hopeless: bool,
}

impl Failure {
    fn of(error: &Error) -> Self {
        let dead = is_dead(error);
        let kind = if dead { ProgressErrorKind::Connect } else { ProgressErrorKind::Query };
        let text = error.as_db_error().map_or_else(|| with_causes(error), server_text);
        Self { kind, text, dead, hopeless: error.code() == Some(&SqlState::SYNTAX_ERROR) }
    }

    fn into_error(self, what: &str) -> ProbeError {
        ProbeError::new(self.kind, format!("{what} failed: {}", self.text)).hopeless(self.hopeless)
    }
}

fn server_text(server: &DbError) -> String {
    let mut text = format!("{}: {} ({})", server.severity(), server.message(), server.code().code());
    for more in [server.detail(), server.hint()].into_iter().flatten() {
        text.push_str("; ");
        text.push_str(more);
    }
    text
}

fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Whether the session is gone, rather than the query wrong.
fn is_dead(error: &Error) -> bool {
    match error.as_db_error() {
        Some(server) => {
            let fatal = matches!(server.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
            let code = server.code();
            fatal || code.code().starts_with("08") || *code == SqlState::ADMIN_SHUTDOWN
        }
        None => {
            let by_io = error.source().is_some_and(|cause| cause.is::<std::io::Error>());
            error.is_closed() || by_io
        }
    }
}

/// Host and port, for an error.
fn place(config: &Config) -> String {
    use tokio_postgres::config::Host;
    let host = match (config.get_hosts().first(), config.get_hostaddrs().first()) {
        (Some(Host::Tcp(host)), _) => host.clone(),
        (Some(Host::Unix(path)), _) => path.display().to_string(),
        (None, Some(address)) => address.to_string(),
        (None, None) => "?".to_owned(),
    };
    format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432))
}

fn millis(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
        .to_string()
}
