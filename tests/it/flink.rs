//! Flink SQL that upserts the stream into PostgreSQL, with checkpoints and without, side by side: what its group has
//! committed moves at checkpoints only, or never, while the tables follow the load.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde_json::Value;

use crate::daemon::{self, Daemon, eventually, request};
use crate::lag::{of, shown, sql_source};
use crate::looks::{Looks, PATIENCE, Progress, Reading, Truth};
use crate::postgres::{Postgres, psql};
use crate::services::{Service, address};
use crate::truth::{Log, Reader, json, wall};

const PARTITIONS: i32 = 4;
const RATE: f64 = 1000.0;
const CHECKPOINT_S: f64 = 2.0;

struct Systems {
    kafka: Service,
    postgres: Postgres,
    flink: Service,
}

impl Systems {
    fn start() -> Self {
        std::thread::scope(|scope| {
            let postgres = scope.spawn(|| Postgres::start(&[]));
            // Its REST reads metrics anew at most so often; ten seconds if nothing is said.
            let flink = scope.spawn(|| Service::start("flink", &["metrics.fetcher.update-interval=500"]));
            let kafka = Service::start("kafka", &[]);
            Self { kafka, postgres: postgres.join().unwrap(), flink: flink.join().unwrap() }
        })
    }

    fn brokers(&self) -> &str {
        self.kafka.get("BOOTSTRAP")
    }

    /// Flink's source fails on a topic that there is not.
    fn topic(&self, name: &str, timestamps: &str) {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", self.brokers()).create().unwrap();
        let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1));
        let topic = topic.set("message.timestamp.type", timestamps);
        let made = admin.create_topics([&topic], &AdminOptions::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(made).unwrap().remove(0).unwrap();
    }

    /// Runs statements and returns the id of the one job that they started.
    fn sql(&self, statements: &str) -> String {
        let url = self.flink.get("FLINK_SQL_URL");
        let (status, job) = request(address(url), "POST", "/", Some(statements)).unwrap();
        assert_eq!(status, 200, "{statements}: {job}");
        job.trim().to_owned()
    }

    /// A job from the topics into the table of its name, in the group of its name.
    fn upserts(&self, name: &str, topics: &str, set: &str) -> String {
        self.postgres.psql(&format!(
            "CREATE TABLE IF NOT EXISTS {name} (id bigint PRIMARY KEY, partition int, sequence bigint)"
        ));
        self.sql(&format!(
            "SET 'parallelism.default' = '1';\n{set}SET 'pipeline.name' = '{name}';\n{}\
             CREATE TABLE sink (id BIGINT, `partition` INT, sequence BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (\
             'connector' = 'jdbc', 'url' = 'jdbc:postgresql://127.0.0.1:{}/postgres?reWriteBatchedInserts=true', \
             'table-name' = '{name}', 'username' = 'postgres', 'password' = '', 'sink.buffer-flush.interval' = '500ms', \
             'sink.buffer-flush.max-rows' = '2000');\n\
             INSERT INTO sink SELECT id, `partition`, sequence FROM events;\n",
            self.events(name, topics),
            self.postgres.port(),
        ))
    }

    /// The stream's topic, and others beside it, as a table of Flink's.
    fn events(&self, group: &str, topics: &str) -> String {
        format!(
            "CREATE TABLE events (id BIGINT, `partition` INT, sequence BIGINT, intended_ms BIGINT) WITH (\
             'connector' = 'kafka', 'topic' = '{topics}', 'properties.bootstrap.servers' = '{}', \
             'properties.group.id' = '{group}', 'scan.startup.mode' = 'group-offsets', \
             'properties.auto.offset.reset' = 'earliest', 'format' = 'json');\n",
            self.brokers()
        )
    }

    /// A job that writes what it reads to another topic.
    fn copies(&self) {
        self.sql(&format!(
            "SET 'parallelism.default' = '1';\nSET 'pipeline.name' = 'copies';\n{}\
             CREATE TABLE copies (`partition` INT, sequence BIGINT, intended_ms BIGINT) WITH (\
             'connector' = 'kafka', 'topic' = 'copies', 'properties.bootstrap.servers' = '{}', 'format' = 'json');\n\
             INSERT INTO copies SELECT `partition`, sequence, intended_ms FROM events;\n",
            self.events("copies", "events"),
            self.brokers(),
        ));
    }

    fn rest(&self, path: &str) -> Value {
        let (status, body) = request(address(self.flink.get("FLINK_URL")), "GET", path, None).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn cancel(&self, job: &str) {
        let path = format!("/jobs/{job}");
        let (status, body) = request(address(self.flink.get("FLINK_URL")), "PATCH", &path, Some("")).unwrap();
        assert_eq!(status, 202, "{body}");
        eventually(Duration::from_secs(30), "the job is cancelled", || {
            (self.rest(&path)["state"] == "CANCELED").then_some(())
        });
    }

    fn reader(&self, group: &str) -> Reader {
        Reader::new(self.brokers(), group, "events", PARTITIONS)
    }

    /// How old the records were when the broker had them of the third job, in order of size; all of them once.
    fn ages_of_copies(&self, events: &Log) -> Vec<f64> {
        let sequence = |value: &[u8]| {
            let value: Value = serde_json::from_slice(value).unwrap();
            (value["sequence"].as_u64().unwrap(), None)
        };
        let copies = Reader::new(self.brokers(), "truth", "copies", PARTITIONS).read(sequence);
        let intended = events.partitions.iter().flatten();
        let intended: HashMap<u64, i64> =
            intended.map(|entry| (entry.sequence, entry.timestamp_ms)).collect();
        let copies = copies.partitions.into_iter().flatten();
        let mut ages: Vec<f64> =
            copies.map(|copy| (copy.timestamp_ms - intended[&copy.sequence]) as f64 / 1e3).collect();
        assert_eq!(ages.len(), intended.len());
        ages.sort_by(f64::total_cmp);
        ages
    }

    fn looks(&self, daemon: &Daemon) -> Looks {
        let table = |name: &'static str| {
            let url = self.postgres.url().to_owned();
            Progress::sequences(name, move || {
                let mut values = vec![0; PARTITIONS as usize];
                let rows = psql(&url, &format!("SELECT partition, max(sequence) + 1 FROM {name} GROUP BY 1"));
                for row in rows.ok()?.lines() {
                    let (partition, value) = row.split_once('|')?;
                    *values.get_mut(partition.parse::<usize>().ok()?)? = value.parse().ok()?;
                }
                Some(values)
            })
        };
        let group = self.reader(WITH);
        Looks::start(
            daemon.http,
            self.reader("truth"),
            vec![
                table(WITH),
                table(WITHOUT),
                Progress::records("group_with", move || group.committed(PATIENCE)),
            ],
        )
    }
}

/// The names of the two jobs: table and group.
const WITH: &str = "checkpoints";
const WITHOUT: &str = "no_checkpoints";
/// The sources that tell what the first job has read.
const READ: [&str; 3] = ["read", "counted", "pending"];
/// The first job reads a topic beside the stream's, in which nothing is, and by two tasks: what they tell has to be told apart
/// and put together.
const TOPICS: &str = "events;others";
const TASKS: &str = "SET 'parallelism.default' = '2';\n";

fn group_source(name: &str, group: &str) -> String {
    format!(
        "[progress.{name}]\nkind = \"consumer_group\"\nstream = \"main\"\ngroup = \"{group}\"\ninterval = \"200ms\"\n"
    )
}

fn settings(systems: &Systems) -> String {
    let table = |name: &str| {
        let query = format!("SELECT partition, max(sequence) FROM {name} GROUP BY 1");
        sql_source(name, systems.postgres.url(), &query, "sequence", "")
    };
    // The source that a job is read by, by the job's name.
    let rest = |name: &str, preset: &str| {
        format!(
            "[progress.{name}]\nkind = \"http\"\nstream = \"main\"\npreset = \"{preset}\"\nobject = \"{WITH}\"\nurl = \"{}\"\n\
             interval = \"200ms\"\n",
            systems.flink.get("FLINK_URL")
        )
    };
    let copies = "[progress.copies]\nkind = \"topic\"\nstream = \"main\"\ntopic = \"copies\"\nvalue = \"sequence\"\n\
         sequence = \"/sequence\"\npartition = \"/partition\"\nintended = \"/intended_ms\"\ninterval = \"200ms\"\n";
    format!(
        "[run]\nname = \"flink\"\ndrain_timeout = \"5s\"\n[kafka]\nbrokers = [\"{}\"]\n\
         [streams.main]\ntopic = \"events\"\npartitions = {PARTITIONS}\nrate = {RATE}\n\
         key = {{ kind = \"uniform\", cardinality = 1000 }}\nvalue = {{ kind = \"json\", size = 200 }}\n{}{}{}{}{}{}{}{copies}",
        systems.brokers(),
        table(WITH),
        table(WITHOUT),
        group_source("group_with", WITH),
        group_source("group_without", WITHOUT),
        rest("read", "flink"),
        rest("pending", "flink_backlog"),
        rest("counted", "flink_records"),
    )
}

#[test]
fn flink_commits_at_checkpoints_while_its_tables_follow_the_load() {
    let began = Instant::now();
    let say = |what: &str| println!("flink {:5.1} s: {what}", began.elapsed().as_secs_f64());
    let systems = Systems::start();
    say("systems are up");
    systems.topic("events", "CreateTime");
    systems.topic("others", "CreateTime");
    systems.topic("copies", "LogAppendTime");
    let checkpoints = format!("{TASKS}SET 'execution.checkpointing.interval' = '{CHECKPOINT_S}s';\n");
    let with = systems.upserts(WITH, TOPICS, &checkpoints);
    let without = systems.upserts(WITHOUT, "events", "");
    systems.copies();
    let daemon = daemon::start(&settings(&systems));
    for source in [WITH, WITHOUT, "group_with", "read", "counted", "copies"] {
        daemon.wait_metric(60, &of("lag_seconds", source), |lag| lag < CHECKPOINT_S);
    }
    say("the jobs have caught up");
    let looks = systems.looks(&daemon);
    let from = wall();
    let records = daemon.metric("records_acked_total") + 4.5 * CHECKPOINT_S * RATE;
    daemon.wait_metric(60, "records_acked_total", |acked| acked >= records);
    let to = wall();
    let inside = |source: &str| -> Vec<Reading> {
        looks.soakd(source).into_iter().filter(|reading| reading.at > from && reading.at < to).collect()
    };
    // Every checkpoint commits what was read until it began: the group is behind by up to an interval, the tables are
    // not. Without checkpoints there is nothing to be seen of the group at all, and that is no lag.
    let group = seconds(&inside("group_with"));
    println!(
        "by group, half of the lags are below {:.2} s, the largest {:.2} s",
        middle(&group),
        group[group.len() - 1]
    );
    assert!(group[group.len() - 1] > CHECKPOINT_S * 0.8 && middle(&group) > CHECKPOINT_S * 0.3, "{group:?}");
    for table in [WITH, WITHOUT] {
        let table_lag = seconds(&inside(table));
        println!("by {table}, half of the lags are below {:.2} s", middle(&table_lag));
        assert!(middle(&table_lag) < middle(&group), "{table}: {table_lag:?}, and by its group {group:?}");
    }
    let status = &daemon.get("/api/v1/status")["sources"]["group_without"];
    assert_eq!(status["unknown_reason"], "no commits yet", "{status}");
    assert_eq!(shown(&daemon, "lag_records", "group_without"), None);
    say("the load was looked at");
    all_read(&daemon);
    say("all was read");
    held(&systems, &daemon);
    say("the sink was held, and let go");
    cancelled(&systems, &daemon, &with, &without);
    say("the jobs were cancelled and came back");
    let ended = daemon.terminate();
    say("the run has ended");
    let mut soakd = [WITH, WITHOUT, "group_with"].map(|source| (source, looks.soakd(source)));
    // The job that reads everything again writes old rows over new ones: its table goes back between two looks.
    soakd[1].1.retain(|reading| reading.at < to);
    let log = systems.reader("truth").read(json);
    let ages = systems.ages_of_copies(&log);
    let end_to_end = &ended.report()["measured"]["sources"]["copies"]["end_to_end"];
    let figure = |name: &str| end_to_end[name].as_f64().unwrap_or_else(|| panic!("{name}: {end_to_end}"));
    println!(
        "copies: half within {:.3} s, all within {:.3} s; {end_to_end}",
        middle(&ages),
        ages[ages.len() - 1]
    );
    // The reader has a record some time after the broker has it.
    assert!((-0.01..0.5).contains(&(figure("p50_seconds") - middle(&ages))), "{end_to_end}");
    assert!((-0.01..0.5).contains(&(figure("max_seconds") - ages[ages.len() - 1])), "{end_to_end}");
    assert!((0.98..=1.0).contains(&(figure("count") / ages.len() as f64)), "{end_to_end} of {}", ages.len());
    for source in [WITH, WITHOUT, "group_with", "read", "copies"] {
        let left = &ended.report()["drain"]["sources"][source]["remaining_records"];
        assert_eq!(left, 0, "{source}: {}", ended.out);
    }
    let truth = Truth::new(looks.end(), log);
    for (source, readings) in soakd {
        println!("{}", truth.judge(source, &readings, RATE));
    }
}

/// With the load paused, all that is read is written.
fn all_read(daemon: &Daemon) {
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
    for source in [WITH, WITHOUT, "group_with", "read", "counted", "pending", "copies"] {
        daemon.wait_metric(30, &of("lag_records", source), |lag| lag == 0.0);
        assert_eq!(shown(daemon, "progress_unknown_partitions", source), Some(0.0), "{source}");
    }
    // What was read is what was sent, by both accounts of it.
    let acked = daemon.metric("records_acked_total");
    for source in ["read", "counted"] {
        assert_eq!(shown(daemon, "progress_records", source), Some(acked), "{source}");
    }
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    let acked = daemon.metric("records_acked_total");
    daemon.wait_metric(30, "records_acked_total", |now| now >= acked + RATE * CHECKPOINT_S / 2.0);
}

/// A job whose sink can write nothing soon reads nothing more. What it has read it tells by its offsets and by its count, which
/// have to agree; it is more than the table shows.
fn held(systems: &Systems, daemon: &Daemon) {
    const HOLD: &str = "BEGIN; LOCK TABLE checkpoints IN EXCLUSIVE MODE; SELECT pg_sleep(100)";
    let url = systems.postgres.url().to_owned();
    let holder = std::thread::spawn(move || psql(&url, HOLD));
    eventually(Duration::from_secs(10), "the table is locked", || {
        let locked = "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'ExclusiveLock' AND relation = 'checkpoints'::regclass";
        (systems.postgres.psql(locked) == "1").then_some(())
    });
    // Some records are read before the job is stuck; the load ends long after.
    let acked = daemon.metric("records_acked_total");
    daemon.wait_metric(60, "records_acked_total", |now| now >= acked + 8.0 * RATE);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
    let lags = eventually(Duration::from_secs(30), "both accounts of what was read agree", || {
        let scrape = daemon.scrape();
        let lag = |source: &str| crate::daemon::series(&scrape, &of("lag_records", source));
        let (table, by_offset, by_count, pending) = (lag(WITH), lag("read"), lag("counted"), lag("pending"));
        (by_offset == by_count).then_some((table, by_offset, pending))
    });
    println!(
        "held: behind by {} records in its table, {} in what was read, {} pending",
        lags.0, lags.1, lags.2
    );
    assert!(lags.0 >= lags.1 && lags.1 >= lags.2 && lags.1 > RATE, "{lags:?}");
    systems
        .postgres
        .psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%'");
    assert!(holder.join().unwrap().is_err());
    for source in [WITH, "read", "counted", "pending"] {
        daemon.wait_metric(60, &of("lag_records", source), |lag| lag == 0.0);
    }
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    let acked = daemon.metric("records_acked_total");
    daemon.wait_metric(30, "records_acked_total", |now| now >= acked + RATE * CHECKPOINT_S / 2.0);
}

/// With the jobs away each figure stands still: the tables at what was written, the group at the last checkpoint. Started
/// again, the one job goes on at its last checkpoint and the other reads everything again; both catch up.
fn cancelled(systems: &Systems, daemon: &Daemon, with: &str, without: &str) {
    let counted = shown(daemon, "progress_records", "counted").unwrap();
    systems.cancel(with);
    systems.cancel(without);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
    let ends = systems.reader("truth").ends();
    let committed = systems.reader(WITH).committed(PATIENCE).unwrap();
    let behind: u64 = ends.iter().zip(&committed).map(|(end, next)| end - next).sum();
    daemon.wait_metric(30, &of("lag_records", "group_with"), |lag| lag == behind as f64);
    let lags: BTreeMap<&str, f64> =
        [WITH, WITHOUT].map(|source| (source, shown(daemon, "lag_records", source).unwrap())).into();
    // A job that there is no more tells nothing.
    for source in READ {
        daemon.wait_metric(30, &of("progress_up", source), |up| up == 0.0);
    }
    println!("cancelled: by its group {behind} records behind, by table {lags:?}");
    assert!(lags[WITH] <= behind as f64, "the table holds at least what was committed");
    systems.upserts(WITH, TOPICS, &format!("{TASKS}SET 'execution.checkpointing.interval' = '1s';\n"));
    systems.upserts(WITHOUT, "events", "");
    for source in [WITH, WITHOUT, "group_with", "read", "pending"] {
        daemon.wait_metric(60, &of("lag_records", source), |lag| lag == 0.0);
    }
    counts_anew(daemon, counted);
    assert_eq!(shown(daemon, "lag_records", "group_without"), None);
}

/// The count of records began anew with the job. That is one reset, and progress goes on from where it was; how far the figure
/// is off from then on, nobody can know, but it never is below what was counted before.
fn counts_anew(daemon: &Daemon, before: f64) {
    daemon.wait_metric(30, &of("progress_resets_total", "counted"), |resets| resets == 1.0);
    let scrape = daemon.scrape();
    let of_counted = |name: &str| crate::daemon::series(&scrape, &of(name, "counted"));
    let (acked, progress) =
        (crate::daemon::series(&scrape, "records_acked_total"), of_counted("progress_records"));
    println!("counted: {before} before, {progress} now, of {acked}; lag {}", of_counted("lag_records"));
    assert!(progress >= before, "{progress} after {before}");
    assert_eq!(of_counted("lag_records"), (acked - progress).max(0.0));
    for source in ["read", "pending"] {
        assert_eq!(shown(daemon, "progress_resets_total", source), Some(0.0), "{source}");
    }
}

/// The lags in seconds, in order of size.
fn seconds(readings: &[Reading]) -> Vec<f64> {
    let mut seconds: Vec<f64> = readings.iter().filter_map(|reading| reading.seconds).collect();
    assert!(seconds.len() > 20, "{readings:?}");
    seconds.sort_by(f64::total_cmp);
    seconds
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}
