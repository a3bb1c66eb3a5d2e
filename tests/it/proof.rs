//! The proof on real systems: Kafka → Connect → PostgreSQL with upserted keys, watched by soakd, Prometheus and
//! programs that share no code with soakd, while worker, database, broker and the daemon itself are stopped in turn.

mod sink;

use std::time::{Duration, Instant};

use serde_json::Value;

use self::sink::{Sink, Systems};
use crate::daemon::{self, Daemon, eventually};
use crate::looks::{Looks, Reading, Truth};
use crate::services::{Service, prometheus};
use crate::truth::{Reader, cpu_seconds, envelope, wall};

/// How long each part takes.
struct Plan {
    /// Records that the sink's rate is measured with.
    measured_records: u64,
    /// Load at a quarter of the sink's rate.
    steady: Duration,
    /// Load at half of it.
    raised: Duration,
    /// The Connect worker is away.
    stopped: Duration,
    /// How far a rate by Prometheus over `steady` may be off, as a share of it.
    rate_error: f64,
}

#[test]
fn proof_connect_upserts() {
    prove(&Plan {
        measured_records: 60_000,
        steady: Duration::from_secs(8),
        raised: Duration::from_secs(6),
        stopped: Duration::from_secs(8),
        rate_error: 0.03,
    });
}

#[test]
#[ignore = "long: tests/run --long"]
fn long_proof_connect_upserts() {
    prove(&Plan {
        measured_records: 1_000_000,
        steady: Duration::from_secs(300),
        raised: Duration::from_secs(60),
        stopped: Duration::from_secs(30),
        rate_error: 0.01,
    });
}

const PARTITIONS: i32 = 4;
const SOURCES: [&str; 3] = ["table", "group", "rest"];
const ACKED: &str = "records_acked_total";

/// Lag in seconds below which the sink keeps up: its batches and the commit interval of a second are in it.
const KEPT_UP_S: f64 = 3.0;

fn of_source(name: &str, source: &str) -> String {
    format!("{name}{{source=\"{source}\",stream=\"main\"}}")
}

/// The running proof.
struct Proof<'a> {
    plan: &'a Plan,
    systems: &'a Systems,
    sink: Sink<'a>,
    daemon: Daemon,
    prometheus: Service,
    looks: Looks,
    /// Load in records a second.
    rate: f64,
    began: Instant,
}

fn prove(plan: &Plan) {
    let began = Instant::now();
    let systems = Systems::start();
    say(began, "systems are up");
    let most = systems.measure(plan.measured_records);
    say(began, &format!("the sink takes {most:.0} records/s"));
    let mut proof = Proof::start(plan, &systems, (most / 4.0).floor(), began);
    proof.catches_up();
    proof.steady();
    proof.raised();
    proof.worker_stopped();
    proof.database_restarted();
    proof.broker_restarted();
    proof.daemon_stopped();
    proof.end();
}

fn say(began: Instant, what: &str) {
    println!("proof {:6.1} s: {what}", began.elapsed().as_secs_f64());
}

impl<'a> Proof<'a> {
    fn start(plan: &'a Plan, systems: &'a Systems, rate: f64, began: Instant) -> Self {
        let settings = systems.settings(rate);
        let (code, table) = daemon::check(&settings);
        assert_eq!(code, Some(0), "{table}");
        // Both sources wait for the sink: no table and no commits are neither lag 0 nor the end of the start.
        let daemon = daemon::start(&settings);
        let prometheus_server = Service::start("prometheus", &[&daemon.http.to_string()]);
        daemon.wait_metric(30, ACKED, |acked| acked > rate);
        daemon.wait_metric(30, &of_source("progress_up", "table"), |up| up == 0.0);
        daemon.wait_metric(30, &of_source("progress_up", "group"), |up| up == 1.0);
        let scrape = daemon.scrape();
        for source in SOURCES {
            assert!(!scrape.contains_key(&format!("soakd_{}", of_source("lag_records", source))), "{source}");
        }
        // Its discovery takes seconds to hand over the target.
        eventually(Duration::from_secs(60), "prometheus scrapes", || {
            let at = wall();
            prometheus(&prometheus_server, "up", at).first().filter(|(_, up)| *up == 1.0).map(|_| ())
        });
        let looks = systems.looks(daemon.http);
        let sink = systems.sink("proof");
        Self { plan, systems, sink, daemon, prometheus: prometheus_server, looks, rate, began }
    }

    fn say(&self, what: &str) {
        say(self.began, what);
    }

    /// One number by Prometheus, as Grafana would show it.
    fn by_prometheus(&self, query: &str, at: f64) -> f64 {
        let found = prometheus(&self.prometheus, query, at);
        assert_eq!(found.len(), 1, "{query} at {at}: {found:?}");
        found[0].1
    }

    /// Waits until all sources say that the system keeps up.
    fn catches_up(&self) {
        let asked = Instant::now();
        for source in SOURCES {
            self.daemon.wait_metric(600, &of_source("lag_seconds", source), |lag| lag < KEPT_UP_S);
            self.say(&format!("caught up by {source}, waited {:.1} s for it", asked.elapsed().as_secs_f64()));
        }
    }

    /// Load for some time, counted in records that were due.
    fn load_for(&self, time: Duration) {
        let due = self.daemon.metric("records_scheduled_total") + self.rate * time.as_secs_f64();
        self.daemon.wait_metric(time.as_secs() * 2 + 30, "records_scheduled_total", |now| now >= due);
    }

    /// Prometheus' rate of acked records over the last `time` is the one that was set. Asked until it is: a machine
    /// that is busy with something else delays acks and scrapes.
    fn rate_is_held(&self, time: Duration, error: f64) {
        let query = format!("rate(soakd_records_acked_total{{stream=\"main\"}}[{}s])", time.as_secs());
        let by_prometheus = eventually(Duration::from_secs(60), &query, || {
            let found = prometheus(&self.prometheus, &query, wall());
            let found = found.first()?.1;
            if (found / self.rate - 1.0).abs() > error {
                println!("{query} is {found}");
                std::thread::sleep(Duration::from_secs(1));
                return None;
            }
            Some(found)
        });
        self.say(&format!("target {} records/s, by Prometheus {by_prometheus:.1}", self.rate));
    }

    fn steady(&self) {
        let (worker, before, cpu) =
            (self.systems.connect.pid(), wall(), cpu_seconds(self.systems.connect.pid()));
        self.load_for(self.plan.steady);
        let seconds = wall() - before;
        let cores = (cpu_seconds(worker) - cpu) / seconds;
        let at = wall();
        self.rate_is_held(self.plan.steady, self.plan.rate_error);
        let window = seconds.floor();
        let query = format!("sum(rate(soakd_sut_cpu_seconds_total{{process=\"worker\"}}[{window}s]))");
        let by_prometheus = self.by_prometheus(&query, at);
        self.say(&format!("the worker used {cores:.3} cores, by Prometheus {by_prometheus:.3}"));
        // soakd reads once a second, Prometheus scrapes once a second: two seconds of the window may be others,
        // and one may be missed.
        let error = 0.05 + 3.0 * cores / seconds;
        assert!((by_prometheus - cores).abs() < error, "{query} at {at} is {by_prometheus}, not {cores}");
        for source in SOURCES {
            let lag = self.by_prometheus(
                &format!("avg_over_time(soakd_lag_seconds{{source=\"{source}\"}}[{window}s])"),
                at,
            );
            let found = self.looks.soakd(source);
            let inside = found.iter().filter(|reading| reading.at > before && reading.at < at);
            let seconds: Vec<f64> = inside.filter_map(|reading| reading.seconds).collect();
            let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
            self.say(&format!("mean lag by {source} {mean:.3} s, by Prometheus {lag:.3} s"));
            assert!((lag - mean).abs() < 0.5 + mean / 4.0, "{source}: {lag}, and {mean} by its samples");
        }
    }

    fn raised(&mut self) {
        let low = self.rate;
        self.set_rate(low * 2.0);
        self.load_for(self.plan.raised);
        let inner = self.plan.raised - Duration::from_secs(2);
        self.rate_is_held(inner, 0.05);
        self.catches_up();
        self.set_rate(low);
    }

    fn set_rate(&mut self, rate: f64) {
        let acked = self.daemon.metric(ACKED);
        self.daemon.set_rate(rate);
        assert!(self.daemon.metric(ACKED) >= acked, "a change of rate resets nothing");
        assert_eq!(self.daemon.metric("target_records_per_second"), rate);
        self.rate = rate;
    }

    /// While nobody ingests, lag grows by the rate and by one second a second; then it drains.
    fn worker_stopped(&self) {
        self.systems.connect.order("stop");
        self.say("the worker is stopped");
        self.daemon.wait_metric(30, "sut_up{process=\"worker\"}", |up| up == 0.0);
        // The worker's own interface is away with it, and so is what it would say.
        self.daemon.wait_metric(30, &of_source("progress_up", "rest"), |up| up == 0.0);
        let from = wall();
        self.load_for(self.plan.stopped);
        let to = wall();
        let lag = format!("soakd_{}", of_source("lag_records", "rest"));
        assert!(!self.daemon.scrape().contains_key(&lag), "{lag} stands still");
        for source in ["table", "group"] {
            let found = self.looks.soakd(source);
            let inside = || found.iter().filter(|reading| reading.at > from && reading.at < to);
            let (first, last) = (inside().next().unwrap(), inside().next_back().unwrap());
            let over = last.middle() - first.middle();
            let by = |figure: fn(&Reading) -> Option<f64>| figure(last).unwrap() - figure(first).unwrap();
            let (records, seconds) =
                (by(|reading| reading.records) / over, by(|reading| reading.seconds) / over);
            self.say(&format!(
                "by {source}, over {over:.1} s lag grew by {records:.1} records/s and {seconds:.4} s/s, \
                 to {} records and {:.2} s",
                last.records.unwrap(),
                last.seconds.unwrap(),
            ));
            assert!(over > self.plan.stopped.as_secs_f64() - 3.0, "{source}: {over}");
            // A slow poll says itself how far it may be off, and a busy broker acks in bursts.
            let error = 0.03 * self.rate + (first.uncertainty + last.uncertainty + 0.5 * self.rate) / over;
            assert!((records - self.rate).abs() < error, "{source}: {records}/s at {}", self.rate);
            assert!((seconds - 1.0).abs() < 0.03, "{source}: {seconds} s a second");
            // What Grafana shows.
            let window = (to - from).floor() - 1.0;
            let query = |name: &str| format!("deriv(soakd_{name}{{source=\"{source}\"}}[{window}s])");
            let slope = self.by_prometheus(&query("lag_seconds"), to);
            assert!((slope - 1.0).abs() < 0.15, "{source}: {slope} s a second by Prometheus");
            let slope = self.by_prometheus(&query("lag_records"), to);
            assert!((slope / self.rate - 1.0).abs() < 0.2, "{source}: {slope} a second by Prometheus");
        }
        let asked = Instant::now();
        self.systems.connect.order("start");
        self.sink.runs();
        self.say(&format!("the worker is back after {:.1} s", asked.elapsed().as_secs_f64()));
        self.catches_up();
        self.daemon.wait_metric(30, "sut_restarts_total{process=\"worker\"}", |restarts| restarts == 1.0);
    }

    fn database_restarted(&self) {
        let before = self.daemon.scrape();
        self.systems.postgres.order("stop");
        self.daemon.wait_metric(30, &of_source("progress_up", "table"), |up| up == 0.0);
        // Three missed polls: the last lag is gone instead of standing still, and the other source goes on.
        let table = format!("soakd_{}", of_source("lag_records", "table"));
        eventually(Duration::from_secs(30), "lag by table disappears", || {
            (!self.daemon.scrape().contains_key(&table)).then_some(())
        });
        self.daemon.wait_metric(30, &of_source("progress_up", "group"), |up| up == 1.0);
        let now = self.daemon.scrape();
        assert!(now.contains_key(&format!("soakd_{}", of_source("lag_records", "group"))));
        assert_eq!(
            daemon::sum(&now, "progress_resets_total", ""),
            daemon::sum(&before, "progress_resets_total", "")
        );
        let asked = Instant::now();
        self.systems.postgres.order("start");
        self.daemon.wait_metric(30, &of_source("progress_up", "table"), |up| up == 1.0);
        self.say(&format!(
            "the database is back, seen {:.1} s after the order",
            asked.elapsed().as_secs_f64()
        ));
        self.sink.runs();
        self.catches_up();
        self.daemon.wait_metric(30, "sut_restarts_total{process=\"postgres\"}", |restarts| restarts == 1.0);
    }

    fn broker_restarted(&self) {
        let asked = Instant::now();
        self.systems.kafka.order("restart");
        let (back, acked) = (Instant::now(), self.daemon.metric(ACKED));
        self.say(&format!("the broker was restarted in {:.1} s", asked.elapsed().as_secs_f64()));
        self.daemon.wait_metric(60, ACKED, |now| now > acked);
        self.say(&format!("acks again {:.1} s after that", back.elapsed().as_secs_f64()));
        self.daemon.wait_metric(120, "schedule_backlog_records", |backlog| backlog < self.rate / 10.0);
        self.sink.runs();
        self.catches_up();
    }

    /// Three seconds in which the daemon does not run are seen: in latency from intended time, or as drops.
    fn daemon_stopped(&self) {
        let before = self.daemon.scrape();
        let (slow_before, bound) = slower_than_a_second(&before);
        let stopped = Instant::now();
        self.daemon.signal("STOP");
        std::thread::sleep(Duration::from_secs(3));
        self.daemon.signal("CONT");
        let seconds = stopped.elapsed().as_secs_f64();
        let due = daemon::series(&before, "records_scheduled_total") + self.rate * (seconds + 1.0);
        self.daemon.wait_metric(60, ACKED, |acked| acked >= due - self.rate);
        self.daemon.wait_metric(60, "schedule_backlog_records", |backlog| backlog < self.rate / 10.0);
        let after = self.daemon.scrape();
        let shown = slower_than_a_second(&after).0 - slow_before;
        let dropped = daemon::sum(&after, "records_dropped_total", "")
            - daemon::sum(&before, "records_dropped_total", "");
        self.say(&format!(
            "stopped for {seconds:.2} s, {shown} records show more than {bound:.2} s from intended time, {dropped} dropped"
        ));
        // Records that were due in the stop, up to `bound` before its end.
        let owed = self.rate * (seconds - bound);
        assert!(shown + dropped > 0.9 * owed, "{shown} slow and {dropped} dropped of {owed}");
        let limited = |scrape| daemon::sum(scrape, "load_limited_seconds_total", "");
        let limited = limited(&after) - limited(&before);
        assert!(limited > 2.5, "the load was limited for {limited} s");
        self.catches_up();
    }

    fn end(self) {
        let Self { systems, daemon, looks, began, .. } = self;
        assert_eq!(daemon.send("POST", "/api/v1/runs/current/stop", None).0, 202);
        let ended = daemon.wait(Duration::from_secs(120));
        let soakd = SOURCES.map(|source| (source, looks.soakd(source)));
        let looked = looks.end();
        say(began, "the run has ended");
        println!("{}", ended.out);
        let report = ended.report();
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} in {report}"));
        let totals = &report["streams"]["main"]["totals"];
        let acked = number(&totals["acked"]);
        let unknown = totals["failed"]["outcome_unknown"].as_u64().unwrap_or(0);
        let reader = Reader::new(systems.kafka.get("BOOTSTRAP"), "truth", "proof", PARTITIONS);
        let marks = reader.watermarks();
        assert!(marks.iter().all(|(low, _)| *low == 0), "{marks:?}");
        let in_broker: u64 = marks.iter().map(|(_, high)| high).sum();
        say(began, &format!("acked {acked}, in the broker {in_broker}, outcome unknown {unknown}"));
        assert!(acked <= in_broker && in_broker <= acked + unknown);
        assert_eq!(report["drain"]["drained"], true, "{report}");
        for source in SOURCES {
            assert_eq!(report["drain"]["sources"][source]["remaining_records"], 0, "{source}: {report}");
        }
        // Three seconds are more than 1 % of a short run, and then the run is void by soakd's own word.
        let share = report["generator_limited_share"].as_f64().unwrap();
        assert_eq!(ended.code(), if share > 0.01 { 4 } else { 0 }, "{share}: {}", ended.out);

        let log = reader.read(envelope);
        say(began, "the topic is read");
        systems.table_holds_the_last_of(&log);
        let truth = Truth::new(looked, log);
        for (source, readings) in soakd {
            say(began, &truth.judge(source, &readings, self.rate));
        }
    }
}

/// Acked records with more than about a second from intended time, and the exact bound in seconds.
fn slower_than_a_second(scrape: &daemon::Scrape) -> (f64, f64) {
    let series = |end: &str| format!("soakd_ack_latency_seconds_{end}{{stream=\"main\",from=\"intended\"");
    let bucket = series("bucket") + ",le=\"";
    let buckets = scrape.iter().filter_map(|(name, count)| {
        let bound = name.strip_prefix(&bucket)?.strip_suffix("\"}")?.parse::<f64>().ok()?;
        Some((bound, *count)).filter(|(bound, _)| *bound >= 1.0)
    });
    let (bound, faster) = buckets.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
    (scrape[&(series("count") + "}")] - faster, bound)
}
