//! The broker, the ingestor and its HTTP server together.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::EmbeddedError;
use super::broker::EmbeddedBroker;
use super::http::Server;
use super::ingestor::{Ingestor, IngestorHandle, IngestorSettings};
use super::table::TableLimits;
use crate::core::clock::Clock;

/// How long each piece may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// What the embedded system reads, and under which name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoSettings {
    /// The topic that is created and ingested.
    pub topic: String,
    /// Its number of partitions.
    pub partitions: u32,
    /// The group whose offsets the ingestor commits.
    pub group: String,
}

/// A broker with one topic, and an ingestor that reads it.
#[derive(Debug)]
pub struct Demo {
    broker: EmbeddedBroker,
    ingestor: Ingestor,
    server: Server,
}

impl Demo {
    /// Creates the topic in `broker`, makes the ingestor and binds its HTTP port. Blocks for some milliseconds; nothing is
    /// ingested before [`Demo::run`].
    ///
    /// # Errors
    /// When the topic, the client or the port cannot be had.
    pub fn new(settings: DemoSettings, broker: EmbeddedBroker, clock: Clock) -> Result<Self, EmbeddedError> {
        let DemoSettings { topic, partitions, group } = settings;
        broker.create_topic(&topic, partitions)?;
        let settings = IngestorSettings { topic, partitions, group, limits: TableLimits::default() };
        let ingestor = Ingestor::new(settings, broker.bootstrap(), clock)?;
        let server = Server::new(ingestor.handle())?;
        Ok(Self { broker, ingestor, server })
    }

    /// Where clients find the broker, as `host:port`.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        self.broker.bootstrap()
    }

    /// Where the ingestor answers.
    #[must_use]
    pub const fn ingestor_address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Looks at the ingestor and changes its speed.
    #[must_use]
    pub fn handle(&self) -> IngestorHandle {
        self.ingestor.handle()
    }

    /// Runs until `stop`; the ingestor ends first, the broker last. Stop it after everything that uses the broker.
    ///
    /// # Errors
    /// When a piece ends by itself, or does not end within three seconds of the stop; it is left behind then.
    pub async fn run(self, stop: CancellationToken) -> Result<(), EmbeddedError> {
        let Self { broker, ingestor, server } = self;
        // Of its own, so that one piece that fails ends the others too.
        let stop = stop.child_token();
        let (ended, mut has_ended) = oneshot::channel::<()>();
        let told = stop.clone();
        // A plain thread: the runtime would wait for a blocking task for ever when the process ends.
        std::thread::Builder::new()
            .name("demo-ingestor".to_owned())
            .spawn(move || {
                ingestor.run(&told);
                drop(ended);
            })
            .map_err(|error| EmbeddedError::Thread(format!("cannot be started: {error}")))?;
        let serve = async {
            let served = server.run(stop.clone()).await;
            stop.cancel();
            served
        };
        let ingest = async {
            tokio::select! {
                _ = &mut has_ended => {}
                () = stop.cancelled() => {
                    return in_time("the embedded ingestor", async { drop((&mut has_ended).await) }).await;
                }
            }
            // Both may be ready at once: ending is right once it was asked for.
            let asked = stop.is_cancelled();
            stop.cancel();
            if asked { Ok(()) } else { Err(EmbeddedError::Thread("ended by itself".to_owned())) }
        };
        let (served, ingested) = tokio::join!(serve, ingest);
        let (dropped, is_dropped) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("demo-broker-end".to_owned())
            .spawn(move || {
                drop(broker);
                drop(dropped);
            })
            .map_err(|error| EmbeddedError::Thread(format!("cannot be ended: {error}")))?;
        let closed = in_time("the embedded broker", async { drop(is_dropped.await) }).await;
        served.and(ingested).and(closed)
    }
}

async fn in_time(what: &'static str, end: impl Future<Output = ()>) -> Result<(), EmbeddedError> {
    let late = EmbeddedError::StopTimedOut { what, after: STOP_TIMEOUT };
    tokio::time::timeout(STOP_TIMEOUT, end).await.map_err(|_| late)
}
