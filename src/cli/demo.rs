//! `soakd demo`: the settings of a run on the embedded broker and ingestor, and what the operator is told about it.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::logs::LogArgs;
use super::run::{daemon, shown_settings};
use super::{Outcome, USAGE};
use crate::app::Started;
use crate::config::{ConfigErrors, Loaded, Problem};
use crate::core::clock::{Clock, wall_now};
use crate::embedded::broker::remembered_seconds;
use crate::embedded::{Demo, DemoSettings, EmbeddedBroker};
use crate::produce::settings::StreamSettings;
use crate::settings::Settings;
use crate::store::run_id;

/// The demo's one stream.
pub const STREAM: &str = "main";
/// The demo's one topic.
pub const TOPIC: &str = "soakd-demo";
/// The group whose offsets the embedded ingestor commits.
pub const GROUP: &str = "soakd-demo";
/// The progress source that watches the group.
pub const SOURCE: &str = "ingestor";

/// Where soakd listens unless something else does.
const PORT: u16 = 9640;
/// Long enough for batches that compress, short enough for an ack that looks immediate. With it the broker keeps six minutes.
const LINGER_MS: u32 = 20;
/// Measured: a short JSON value of the default rate in its compressed batch, batch header included.
const SMALL_RECORD_BYTES: f64 = 55.0;
/// A record's own header and its share of the batch's, about.
const RECORD_OVERHEAD_BYTES: f64 = 20.0;

/// What the demo's broker takes at "max", about.
const MAX_RECORDS_PER_SECOND: f64 = 500_000.0;

/// Arguments of `soakd demo`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DemoArgs {
    /// One setting, like `streams.main.rate=5000`; overrides the demo's own; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// A loopback address that is free for soakd's HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// Something else listens on the usual port.
    pub usual_is_taken: bool,
}

impl Listen {
    /// Finds 127.0.0.1:9640, or any free port when that is taken.
    ///
    /// # Errors
    /// When no loopback port can be bound, or the usual one cannot for another reason than being taken.
    pub fn find() -> io::Result<Self> {
        Self::find_from(PORT)
    }

    fn find_from(port: u16) -> io::Result<Self> {
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|bound| bound.local_addr());
        match free(port) {
            Ok(address) => Ok(Self { address, usual_is_taken: false }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Ok(Self { address: free(0)?, usual_is_taken: true })
            }
            Err(error) => Err(error),
        }
    }
}

/// Runs the demo until it is stopped. Writes no file.
#[must_use]
pub fn run(args: &DemoArgs, logs: &LogArgs) -> Outcome {
    if let Err(error) = logs.start() {
        return Outcome::error(USAGE, &error);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::error(3, &format!("cannot start the runtime: {error}")),
    };
    let outcome = runtime.block_on(demo(args));
    runtime.shutdown_background();
    outcome
}

async fn demo(args: &DemoArgs) -> Outcome {
    let (listen, broker) = match (Listen::find(), EmbeddedBroker::start(&[])) {
        (Ok(listen), Ok(broker)) => (listen, broker),
        (Err(error), _) => return Outcome::error(3, &format!("no loopback port can be had: {error}")),
        (_, Err(error)) => return Outcome::error(3, &error),
    };
    let loaded = match demo_settings(broker.bootstrap(), listen.address, Path::new("soakd-data"), &args.sets)
    {
        Ok(loaded) => loaded,
        Err(error) => return Outcome::error(USAGE, &error),
    };
    let settings = loaded.settings.clone();
    let embedded = match Demo::new(embedded_settings(&settings), broker, Clock::start()) {
        Ok(embedded) => embedded,
        Err(error) => return Outcome::error(3, &error),
    };
    let (bootstrap, ingestor) = (embedded.bootstrap().to_owned(), embedded.ingestor_address());
    let told = settings.clone();
    let started = move |now: &Started| {
        let facts = Facts {
            settings: &told,
            http: now.http,
            usual_is_taken: listen.usual_is_taken,
            bootstrap: &bootstrap,
            ingestor,
        };
        let _ = writeln!(io::stdout(), "{}", banner(&facts));
    };
    let stop = CancellationToken::new();
    let system = tokio::spawn(embedded.run(stop.clone()));
    let id = run_id(&settings.run.name, wall_now());
    let outcome = daemon(settings, shown_settings(&loaded), id, None, started).await;
    // The broker goes last: everything that used it has ended.
    stop.cancel();
    match system.await {
        Ok(Err(error)) if outcome.code == 0 => Outcome::error(1, &error),
        _ => outcome,
    }
}

/// The demo's settings with the operator's `sets` laid over them. Neither files nor the environment are read, so that the demo is
/// the same everywhere.
///
/// # Errors
/// Everything that is wrong, at once; other brokers, topics or streams are, because only the demo's own are there.
pub fn demo_settings(
    bootstrap: &str,
    listen: SocketAddr,
    store_dir: &Path,
    sets: &[String],
) -> Result<Loaded<Settings>, ConfigErrors> {
    let mut all = own_sets(bootstrap, listen, store_dir);
    all.extend_from_slice(sets);
    let loaded = Settings::load(&[], [], &all)?;
    let problems = foreign(&loaded.settings, bootstrap);
    if problems.is_empty() { Ok(loaded) } else { Err(loaded.blame(problems)) }
}

fn own_sets(bootstrap: &str, listen: SocketAddr, store_dir: &Path) -> Vec<String> {
    let stream = |key: &str| format!("streams.{STREAM}.{key}");
    let source = |key: &str| format!("progress.{SOURCE}.{key}");
    vec![
        "run.name=demo".to_owned(),
        // An ingestor that was stopped must not hold the end for the usual ten minutes.
        "run.drain_timeout=10s".to_owned(),
        format!("kafka.brokers={bootstrap}"),
        format!("kafka.client.\"linger.ms\"={LINGER_MS}"),
        "kafka.client.\"compression.type\"=lz4".to_owned(),
        stream(&format!("topic={TOPIC}")),
        // The mock cluster takes no admin calls: the demo makes the topic from inside.
        stream("create=false"),
        stream("partitions=4"),
        stream("rate=1000"),
        stream("key.kind=uniform"),
        stream("key.cardinality=10000"),
        stream("value.kind=json"),
        source("kind=consumer_group"),
        source(&format!("stream={STREAM}")),
        source(&format!("group={GROUP}")),
        // Fast enough to see a stop at once.
        source("interval=250ms"),
        format!("http.listen={listen}"),
        format!("store.dir={}", store_dir.display()),
    ]
}

fn foreign(settings: &Settings, bootstrap: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut refuse = |key: String, message: String| problems.push(Problem::new(key, message));
    if settings.kafka.brokers != [bootstrap] {
        refuse(
            "kafka.brokers".to_owned(),
            "the demo has its own broker; use `soakd run` for another".to_owned(),
        );
    }
    for (name, stream) in &settings.streams {
        if name != STREAM {
            let message = format!("the demo has the one stream {STREAM:?}; use `soakd run` for more");
            refuse(format!("streams.{name}"), message);
        } else if stream.topic != TOPIC || stream.create {
            let message =
                format!("the demo makes the one topic {TOPIC:?} itself; leave topic and create out");
            refuse(format!("streams.{name}.topic"), message);
        }
    }
    problems
}

/// What the embedded broker and ingestor need to know of the demo's settings.
#[must_use]
pub fn embedded_settings(settings: &Settings) -> DemoSettings {
    let partitions = settings.streams.get(STREAM).map_or(1, |stream| stream.partitions);
    DemoSettings { topic: TOPIC.to_owned(), partitions, group: GROUP.to_owned() }
}

/// What the banner tells.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The settings of the run.
    pub settings: &'a Settings,
    /// Where soakd's HTTP is served.
    pub http: SocketAddr,
    /// Something else listens on the usual port.
    pub usual_is_taken: bool,
    /// Where the broker is, as `host:port`.
    pub bootstrap: &'a str,
    /// Where the ingestor answers.
    pub ingestor: SocketAddr,
}

/// What the operator reads when the demo has started: where everything is, what to try, and what it is not.
#[must_use]
pub fn banner(facts: &Facts<'_>) -> String {
    let Facts { http, bootstrap, ingestor, .. } = facts;
    let stream = facts.settings.streams.get(STREAM).cloned().unwrap_or_default();
    let (partitions, rate) = (stream.partitions, planned(&stream));
    let taken = if facts.usual_is_taken {
        format!("\n            (127.0.0.1:{PORT} is taken by another program, so this is a free port)")
    } else {
        String::new()
    };
    let json = "-H 'Content-Type: application/json' -d";
    format!(
        "soakd demo: a broker, a system that ingests from it, and soakd; all in this process, on loopback only.

  soakd     http://{http}/  (metrics: http://{http}/metrics){taken}
  broker    {bootstrap}  (topic {TOPIC}, {partitions} partitions)
  ingestor  http://{ingestor}/  (group {GROUP}; keeps the last value of each key)

Try, in another terminal:
  change the load:           curl -X PUT http://{http}/api/v1/rate {json} '{{\"records_per_second\": {faster}}}'
  slow the ingestor down:    curl -X PUT http://{ingestor}/speed {json} '{{\"records_per_second\": {slower}}}'
  see the lag:               curl http://{http}/api/v1/status
  set the ingestor free:     curl -X PUT http://{ingestor}/speed {json} '{{\"records_per_second\": null}}'
The ingestor also knows POST /stop and POST /go. Ctrl-C ends the demo with a report, which fails an ingestor that is still behind.

What it is not: the broker is no Kafka broker but the mock cluster of the client library. It keeps everything in memory and
{remembers}; what it drops before it was ingested is shown as expired. All of that is gone at the end.
Rates and latencies say nothing about a real broker or a real system. For those: soakd run -c FILE.
",
        faster = example((rate * 5.0).min(stream.max_rate.0)),
        slower = example(rate / 2.0),
        remembers = remembers(&stream),
    )
}

/// Records a second at the most; at "max" what the demo's broker takes, about.
fn planned(stream: &StreamSettings) -> f64 {
    stream.peak().per_second().unwrap_or(MAX_RECORDS_PER_SECOND)
}

/// A rate to try: at least 1, a whole number.
fn example(records_per_second: f64) -> f64 {
    records_per_second.round().max(1.0)
}

fn remembers(stream: &StreamSettings) -> String {
    let (rate, partitions) = (planned(stream), stream.partitions);
    let records_per_batch = rate / f64::from(partitions.max(1)) * f64::from(LINGER_MS) / 1000.0;
    let seconds = remembered_seconds(partitions, rate, record_bytes(stream), records_per_batch);
    let span = match seconds {
        seconds if seconds >= 172_800.0 => "days".to_owned(),
        seconds if seconds >= 7_200.0 => format!("{:.0} hours", seconds / 3_600.0),
        seconds if seconds >= 120.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds if seconds >= 2.0 => format!("{seconds:.0} seconds"),
        _ => "a moment".to_owned(),
    };
    format!("remembers about {span} of load at {rate} records/s")
}

/// Bytes of a record as sent, about: short JSON compresses, random bytes and JSON's random padding do not.
fn record_bytes(stream: &StreamSettings) -> f64 {
    let key = f64::from(stream.key.max_bytes(&stream.value));
    (stream.value.typical_bytes() + key + RECORD_OVERHEAD_BYTES).max(SMALL_RECORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::settings::SourceSettings;
    use crate::record::settings::ValueSettings;

    const BOOTSTRAP: &str = "127.0.0.1:4711";

    fn load(sets: &[&str]) -> Result<Loaded<Settings>, ConfigErrors> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 9640));
        demo_settings(BOOTSTRAP, listen, Path::new("/nowhere/a folder"), &sets)
    }

    fn banner_of(settings: &Settings, usual_is_taken: bool) -> String {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        banner(&Facts {
            settings,
            http: local(9640),
            usual_is_taken,
            bootstrap: BOOTSTRAP,
            ingestor: local(4712),
        })
    }

    #[test]
    fn the_demo_runs_on_its_own_broker_and_watches_its_own_ingestor() {
        let settings = load(&[]).unwrap().settings;
        assert_eq!(settings.kafka.brokers, [BOOTSTRAP]);
        assert_eq!(settings.kafka.client.get("linger.ms"), Some("20"));
        assert_eq!(settings.kafka.client.get("compression.type"), Some("lz4"));
        assert_eq!(settings.store.dir, Path::new("/nowhere/a folder"));
        let stream = &settings.streams[STREAM];
        assert_eq!(
            (stream.pace().to_string().as_str(), stream.partitions, stream.create),
            ("1000", 4, false)
        );
        assert!(matches!(stream.value, ValueSettings::Json(_)));
        let SourceSettings::ConsumerGroup(source) = &settings.progress[SOURCE] else { panic!() };
        let embedded = embedded_settings(&settings);
        assert_eq!((&source.group, &stream.topic), (&embedded.group, &embedded.topic));
        assert_eq!(embedded.partitions, 4);
    }

    #[test]
    fn a_set_wins_over_the_demos_own() {
        let settings = load(&["streams.main.rate=50", "streams.main.partitions=8"]).unwrap().settings;
        assert_eq!(settings.streams[STREAM].pace().to_string(), "50");
        assert_eq!(embedded_settings(&settings).partitions, 8);
        assert!(load(&["streams.main.rat=50"]).unwrap_err().to_string().contains("did you mean \"rate\"?"));
    }

    #[test]
    fn what_the_demo_does_not_have_is_refused_by_name() {
        for (set, key) in [
            ("kafka.brokers=127.0.0.1:9092", "kafka.brokers"),
            ("streams.other.rate=5", "streams.other"),
            ("streams.main.topic=mine", "streams.main.topic"),
            ("streams.main.create=true", "streams.main.topic"),
        ] {
            let error = load(&[set]).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("the demo"), "{set}: {error}");
        }
    }

    #[test]
    fn h6_a_taken_port_gives_way_to_a_free_one_and_says_so() {
        let busy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = busy.local_addr().unwrap().port();
        let found = Listen::find_from(port).unwrap();
        assert!(found.usual_is_taken && found.address.port() != port && found.address.ip().is_loopback());
        drop(busy);
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        assert_eq!(Listen::find_from(port).unwrap(), Listen { address: free, usual_is_taken: false });
        let settings = load(&[]).unwrap().settings;
        assert!(banner_of(&settings, true).contains("9640 is taken"));
        assert!(!banner_of(&settings, false).contains("is taken"));
    }

    #[test]
    fn the_banner_tells_where_what_to_try_and_what_it_is_not() {
        let settings = load(&[]).unwrap().settings;
        let text = banner_of(&settings, false);
        for part in [
            "http://127.0.0.1:9640/api/v1/rate -H 'Content-Type: application/json' -d '{\"records_per_second\": 5000}'",
            "http://127.0.0.1:4712/speed -H 'Content-Type: application/json' -d '{\"records_per_second\": 500}'",
            "curl http://127.0.0.1:9640/api/v1/status",
            "http://127.0.0.1:4712/speed -H 'Content-Type: application/json' -d '{\"records_per_second\": null}'",
            BOOTSTRAP,
            "What it is not",
            "remembers about 6 minutes of load at 1000 records/s",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(text.matches("curl ").count(), 4);
        assert!(text.lines().all(|line| line.chars().count() <= 150), "{text}");
    }

    #[test]
    fn what_the_broker_remembers_follows_the_settings() {
        let of = |sets: &[&str]| remembers(&load(sets).unwrap().settings.streams[STREAM]);
        assert!(of(&["streams.main.rate=0"]).contains("about days"));
        assert!(of(&["streams.main.rate=100000"]).contains("about 4 seconds"));
        assert!(of(&["streams.main.value.size=100000"]).contains("a moment"));
    }
}
