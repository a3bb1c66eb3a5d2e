//! The system under test: Kafka, a Connect worker with a JDBC sink, PostgreSQL.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::PARTITIONS;
use crate::daemon::{self, eventually, request};
use crate::looks::{Looks, PATIENCE, Progress};
use crate::postgres::{Postgres, psql};
use crate::services::{Service, address};
use crate::truth::{Log, Reader, Row, envelope};

pub(super) struct Systems {
    pub(super) kafka: Service,
    pub(super) postgres: Postgres,
    pub(super) connect: Service,
}

/// A sink of the topic of its name into the table of its name.
pub(super) struct Sink<'a> {
    systems: &'a Systems,
    name: &'static str,
}

impl Systems {
    pub(super) fn start() -> Self {
        std::thread::scope(|scope| {
            let postgres = scope.spawn(|| Postgres::start(&[]));
            let kafka = Service::start("kafka", &[]);
            let connect = Service::start("connect", &[kafka.get("BOOTSTRAP")]);
            Self { kafka, connect, postgres: postgres.join().unwrap() }
        })
    }

    fn stream(&self, topic: &str, rate: f64) -> String {
        format!(
            "[kafka]\nbrokers = [\"{}\"]\nclient = {{ \"linger.ms\" = 5, \"compression.type\" = \"lz4\" }}\n\
             [streams.main]\ntopic = \"{topic}\"\npartitions = {PARTITIONS}\nlanes = 2\nrate = {rate}\n\
             key = {{ kind = \"uniform\", cardinality = 10000 }}\n\
             value = {{ kind = \"json\", size = 600, connect_schema = true }}\n",
            self.kafka.get("BOOTSTRAP")
        )
    }

    /// What soakd is told for the proof.
    pub(super) fn settings(&self, rate: f64) -> String {
        format!(
            "[run]\nname = \"proof\"\ndrain_timeout = \"1m\"\n{}overload = {{ max_debt = \"2m\" }}\n\
             [progress.table]\nkind = \"sql\"\nstream = \"main\"\nurl = \"{}\"\nvalue = \"sequence\"\n\
             query = \"SELECT partition, max(sequence) FROM proof GROUP BY 1\"\n\
             [progress.group]\nkind = \"consumer_group\"\nstream = \"main\"\ngroup = \"connect-proof\"\n\
             [progress.rest]\nkind = \"http\"\nstream = \"main\"\npreset = \"connect\"\nobject = \"proof\"\nurl = \"{}\"\n\
             [processes.worker]\nkind = \"local\"\npid_file = \"{}\"\n\
             [processes.postgres]\nkind = \"local\"\npid_file = \"{}\"\ntree = true\n",
            self.stream("proof", rate),
            self.postgres.url(),
            self.connect.get("CONNECT_URL"),
            self.connect.pid_file().display(),
            self.postgres.service.pid_file().display(),
        )
    }

    /// Looks at the truth while the proof runs.
    pub(super) fn looks(&self, soakd: SocketAddr) -> Looks {
        let reader = || Reader::new(self.kafka.get("BOOTSTRAP"), "connect-proof", "proof", PARTITIONS);
        let (log, group, rest, url) = (reader(), reader(), reader(), self.postgres.url().to_owned());
        let table = move || {
            let after = |sequence: Option<u64>| sequence.map_or(0, |sequence| sequence + 1);
            Some(highest(&url, "proof")?.into_iter().map(after).collect())
        };
        let group = move || group.committed(PATIENCE);
        let rest = move || rest.committed(PATIENCE);
        let progress = vec![
            Progress::sequences("table", table),
            Progress::records("group", group),
            Progress::records("rest", rest),
        ];
        Looks::start(soakd, log, progress)
    }

    /// How many records a second the sink takes, of a topic that is full before it begins. Its first, slow seconds are
    /// in it, because the worker is started anew in the proof too.
    pub(super) fn measure(&self, records: u64) -> f64 {
        let more = format!("records = {records}\noverload = {{ policy = \"wait\" }}\n");
        let settings = format!("[run]\nname = \"fill\"\n{}{more}", self.stream("measure", 100_000.0));
        let filled = daemon::start(&settings).wait(Duration::from_secs(120));
        assert!(filled.code() == 0 || filled.code() == 4, "{}\n{}", filled.out, filled.log);
        let log = Reader::new(self.kafka.get("BOOTSTRAP"), "truth", "measure", PARTITIONS).read(envelope);
        let sink = self.sink("measure");
        let mut first = None;
        let rate = eventually(Duration::from_secs(300), "the sink takes all records", || {
            let at = Instant::now();
            let done = self.ingested("measure", &log)?;
            let (since, before) = *first.get_or_insert((at, done));
            (done == records).then(|| (done - before) as f64 / (at - since).as_secs_f64())
        });
        sink.delete();
        rate
    }

    /// How many records of the log are in the table or were replaced there; `None` while there is no table.
    fn ingested(&self, table: &str, log: &Log) -> Option<u64> {
        let highest = highest(self.postgres.url(), table)?;
        let upto = log.partitions.iter().zip(&highest).map(|(entries, sequence)| {
            let sequence = sequence.as_ref()?;
            Some(entries.partition_point(|entry| entry.sequence <= *sequence) as u64)
        });
        Some(upto.flatten().sum())
    }

    pub(super) fn sink(&self, name: &'static str) -> Sink<'_> {
        let sink = Sink { systems: self, name };
        sink.runs();
        sink
    }

    /// Every key's row is the last value of the log with this key, in every column, and there are no other rows.
    pub(super) fn table_holds_the_last_of(&self, log: &Log) {
        let rows = self.postgres.psql("SELECT id, partition, sequence, intended_ms, text FROM proof");
        let rows: HashMap<u64, Row> = rows.lines().map(row).map(|row| (row.id, row)).collect();
        assert_eq!(rows.len(), log.last.len(), "keys");
        for (id, last) in &log.last {
            assert_eq!(rows.get(id), Some(last));
        }
    }
}

/// By partition, the highest sequence in the table; `None` while there is no table or no server.
fn highest(url: &str, table: &str) -> Option<Vec<Option<u64>>> {
    let rows = psql(url, &format!("SELECT partition, max(sequence) FROM {table} GROUP BY 1")).ok()?;
    let mut highest = vec![None; PARTITIONS as usize];
    for row in rows.lines() {
        let (partition, sequence) = row.split_once('|').unwrap();
        highest[partition.parse::<usize>().unwrap()] = Some(sequence.parse().unwrap());
    }
    Some(highest)
}

fn row(line: &str) -> Row {
    let mut columns = line.splitn(5, '|');
    let mut next = || columns.next().unwrap_or_else(|| panic!("{line}"));
    Row {
        id: next().parse().unwrap(),
        partition: next().parse().unwrap(),
        sequence: next().parse().unwrap(),
        intended_ms: next().parse().unwrap(),
        text: next().to_owned(),
    }
}

impl Sink<'_> {
    /// Makes it, or mends it where it failed, and waits until it runs.
    pub(super) fn runs(&self) {
        let database = format!("127.0.0.1:{}", self.systems.postgres.port());
        self.systems.connect.run("sink", &[self.name, self.name, self.name, &database]);
    }

    fn delete(&self) {
        let path = format!("/connectors/{}", self.name);
        let (status, body) =
            request(address(self.systems.connect.get("CONNECT_URL")), "DELETE", &path, None).unwrap();
        assert_eq!(status, 204, "{body}");
    }
}
