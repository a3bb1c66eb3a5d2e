//! ClickHouse whose Kafka engine ingests the stream through a materialized view: asked over HTTP for rows, highest
//! sequence and newest time, and by its consumer group for its queue. It shows records in blocks, so its lag saws with
//! the flush interval, and soakd's figures have to follow.

use std::time::Duration;

use crate::daemon::{self, Daemon, eventually, request};
use crate::lag::{of, shown};
use crate::looks::{Looks, PATIENCE, Progress, Reading, Truth};
use crate::services::{Service, address};
use crate::truth::{Reader, json, wall};

const PARTITIONS: i32 = 4;
const RATE: f64 = 2000.0;
/// `kafka_flush_interval_ms`; its default is 7.5 s.
const FLUSH_S: f64 = 3.0;
const SOURCES: [&str; 4] = ["rows", "sequence", "newest", "queue"];

struct Systems {
    kafka: Service,
    clickhouse: Service,
}

impl Systems {
    fn start() -> Self {
        std::thread::scope(|scope| {
            let clickhouse = scope.spawn(|| Service::start("clickhouse", &[]));
            Self { kafka: Service::start("kafka", &[]), clickhouse: clickhouse.join().unwrap() }
        })
    }

    fn url(&self) -> &str {
        self.clickhouse.get("CLICKHOUSE_URL")
    }

    fn sql(&self, sql: &str) -> String {
        sql_at(self.url(), sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn reader(&self) -> Reader {
        Reader::new(self.kafka.get("BOOTSTRAP"), "clickhouse", "events", PARTITIONS)
    }

    /// What soakd is told. Everything is asked five times a second.
    fn settings(&self) -> String {
        let http = |name: &str, more: &str| {
            format!(
                "[progress.{name}]\nkind = \"http\"\nstream = \"main\"\nurl = \"{}\"\ninterval = \"200ms\"\n{more}\n",
                self.url()
            )
        };
        let rows = "path = \"/?query=SELECT%20count()%20FROM%20events\"\nregex = '(\\d+)'\nvalue = \"count\"";
        // By partition: the newest of all would say of every partition what is true of the one that is ahead.
        let newest = "preset = \"clickhouse\"\nobject = \"events\"\nvalue = \"event_time\"\nbody = \"SELECT partition, \
                      max(intended_ms) FROM events GROUP BY partition FORMAT JSONCompact\"";
        format!(
            "[run]\nname = \"clickhouse\"\ndrain_timeout = \"30s\"\n[kafka]\nbrokers = [\"{}\"]\n\
             [streams.main]\ntopic = \"events\"\npartitions = {PARTITIONS}\nrate = {RATE}\n\
             key = {{ kind = \"none\" }}\nvalue = {{ kind = \"json\", size = 200 }}\n\
             {}{}{}[progress.queue]\nkind = \"consumer_group\"\nstream = \"main\"\ngroup = \"clickhouse\"\n\
             interval = \"200ms\"\n",
            self.kafka.get("BOOTSTRAP"),
            http("rows", rows),
            http("sequence", "preset = \"clickhouse\"\nobject = \"events\""),
            http("newest", newest),
        )
    }

    /// The table that the stream ends up in, with rows of before it.
    fn table(&self) {
        self.sql(
            "CREATE TABLE events (partition UInt32, sequence UInt64, intended_ms Int64) \
             ENGINE = MergeTree ORDER BY (partition, sequence)",
        );
        self.sql("INSERT INTO events SELECT 0, 0, 0 FROM numbers(777)");
    }

    /// The Kafka table, and the view through which its rows go into the other.
    fn ingest(&self) {
        self.sql(&format!(
            "CREATE TABLE queue (partition UInt32, sequence UInt64, intended_ms Int64) ENGINE = Kafka SETTINGS \
             kafka_broker_list = '{}', kafka_topic_list = 'events', kafka_group_name = 'clickhouse', \
             kafka_format = 'JSONEachRow', kafka_flush_interval_ms = {}",
            self.kafka.get("BOOTSTRAP"),
            FLUSH_S * 1e3
        ));
        self.sql("CREATE MATERIALIZED VIEW view TO events AS SELECT * FROM queue");
    }

    /// Looks at the truth beside soakd. A value for each partition, 0 where there is no row.
    fn looks(&self, http: std::net::SocketAddr) -> Looks {
        let ask = |value: &str| {
            let (url, sql) =
                (self.url().to_owned(), format!("SELECT partition, {value} FROM events GROUP BY partition"));
            move || {
                let mut values = vec![0; PARTITIONS as usize];
                for row in sql_at(&url, &sql).ok()?.lines() {
                    let (partition, value) = row.split_once('\t')?;
                    *values.get_mut(partition.parse::<usize>().ok()?)? = value.parse().ok()?;
                }
                Some(values)
            }
        };
        let group = self.reader();
        Looks::start(
            http,
            self.reader(),
            vec![
                Progress::records("rows", ask("countIf(intended_ms > 0)")),
                Progress::sequences("sequence", ask("max(sequence) + 1")),
                Progress::sequences("newest", ask("max(sequence) + 1")),
                Progress::records("queue", move || group.committed(PATIENCE)),
            ],
        )
    }
}

/// A statement over HTTP; rows as lines of values between tabulators.
fn sql_at(url: &str, sql: &str) -> Result<String, String> {
    match request(address(url), "POST", "/", Some(sql)) {
        Ok((200, rows)) => Ok(rows),
        Ok((status, text)) => Err(format!("{status} {text}")),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn clickhouse_lag_saws_with_the_flush_interval_and_every_source_follows_it() {
    let systems = Systems::start();
    systems.table();
    let daemon = daemon::start(&systems.settings());
    // Without its Kafka table there are old rows only, which are known, and a group that never committed, which is not.
    daemon.wait_metric(30, &of("lag_records", "rows"), |lag| lag >= RATE);
    assert_eq!(shown(&daemon, "lag_records", "queue"), None);
    systems.ingest();
    for source in SOURCES {
        daemon.wait_metric(60, &of("lag_seconds", source), |lag| lag < 1.0);
    }
    let looks = systems.looks(daemon.http);
    let stood = || SOURCES.map(|source| shown(&daemon, "standstills_total", source));
    let (from, stood_before) = (wall(), stood());
    let records = daemon.metric("records_acked_total") + 4.5 * FLUSH_S * RATE;
    daemon.wait_metric(60, "records_acked_total", |acked| acked >= records);
    let to = wall();
    assert_eq!(stood(), stood_before, "waiting for the next block is no standstill");
    for source in SOURCES {
        let readings = looks.soakd(source);
        let inside = readings.into_iter().filter(|reading| reading.at > from && reading.at < to);
        saws(source, &inside.collect::<Vec<_>>());
    }
    stands_and_goes_on(&systems, &daemon);
    restarts(&systems, &daemon);
    assert_eq!(daemon.send("POST", "/api/v1/runs/current/stop", None).0, 202);
    let ended = daemon.wait(Duration::from_secs(60));
    ended.good();
    for source in SOURCES {
        assert_eq!(ended.report()["drain"]["sources"][source]["remaining_records"], 0, "{source}");
    }
    let soakd = SOURCES.map(|source| (source, looks.soakd(source)));
    let truth = Truth::new(looks.end(), systems.reader().read(json));
    for (source, readings) in soakd {
        println!("{}", truth.judge(source, &readings, RATE));
    }
}

/// The teeth: lag grows with the load from flush to flush, and falls at each of them.
fn saws(source: &str, readings: &[Reading]) {
    let records = |reading: &Reading| reading.records.unwrap();
    let falls: Vec<usize> = (1..readings.len())
        .filter(|at| records(&readings[at - 1]) - records(&readings[*at]) > FLUSH_S * RATE / 2.0)
        .collect();
    assert!((3..=6).contains(&falls.len()), "{source}: {} flushes: {readings:#?}", falls.len());
    for tooth in falls.windows(2) {
        let tooth = &readings[tooth[0]..tooth[1]];
        let (low, top) = (&tooth[0], &tooth[tooth.len() - 1]);
        let over = top.middle() - low.middle();
        let (slope, peak) = ((records(top) - records(low)) / over, top.seconds.unwrap());
        println!("{source}: {over:.2} s, {slope:.0} records/s, up to {} records, {peak:.2} s", records(top));
        assert!((slope / RATE - 1.0).abs() < 0.1, "{source}: {slope} records/s");
        assert!((FLUSH_S * 0.7..FLUSH_S * 1.6).contains(&peak), "{source}: {peak} s");
        assert!((over / FLUSH_S - 1.0).abs() < 0.4, "{source}: {over} s between flushes");
    }
}

/// While the Kafka table is away, each source shows exactly what is missing, the group without members too.
fn stands_and_goes_on(systems: &Systems, daemon: &Daemon) {
    systems.sql("DETACH TABLE queue");
    let records = daemon.metric("records_acked_total") + RATE;
    daemon.wait_metric(30, "records_acked_total", |acked| acked >= records);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
    let count = |sql: &str| systems.sql(sql).trim().parse::<u64>().unwrap();
    let missing = systems.reader().ends().iter().sum::<u64>()
        - count("SELECT count() FROM events WHERE intended_ms > 0");
    assert!(missing as f64 >= RATE, "{missing}");
    for source in SOURCES {
        // A time tells a record from those of its ten milliseconds only, and errs to the older side.
        let off = if source == "newest" { RATE / 50.0 } else { 0.0 };
        eventually(Duration::from_secs(30), source, || {
            let lag = shown(daemon, "lag_records", source);
            let right = lag.is_some_and(|lag| (missing as f64..=missing as f64 + off).contains(&lag));
            if !right {
                println!("{source} says {lag:?}, and {missing} are missing");
            }
            right.then_some(())
        });
    }
    systems.sql("ATTACH TABLE queue");
    for source in SOURCES {
        daemon.wait_metric(60, &of("lag_records", source), |lag| lag == 0.0);
    }
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
}

/// Away, its answers are unknown while its group's commits are not; back, it catches up, and nothing was a reset.
fn restarts(systems: &Systems, daemon: &Daemon) {
    systems.clickhouse.order("stop");
    for source in ["rows", "sequence", "newest"] {
        daemon.wait_metric(30, &of("progress_up", source), |up| up == 0.0);
        eventually(Duration::from_secs(10), "its lag is gone", || {
            shown(daemon, "lag_records", source).is_none().then_some(())
        });
    }
    daemon.wait_metric(30, &of("lag_records", "queue"), |lag| lag > 2.0 * RATE);
    systems.clickhouse.order("start");
    for source in SOURCES {
        daemon.wait_metric(60, &of("lag_seconds", source), |lag| lag < FLUSH_S);
        assert_eq!(shown(daemon, "progress_resets_total", source), Some(0.0), "{source}");
    }
}
