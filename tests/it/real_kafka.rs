//! The load on a real Kafka broker: exact through a kill, by TLS and SASL, watched by a real group.

mod anew;
mod grown;
mod output;
mod watched;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigEntry, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::children::Start as _;
use crate::daemon::{self, Daemon};
use crate::services::{Service, home};
use crate::truth::{self, Reader};

/// One broker for the tests here, because each takes seconds of two cores to start.
struct Broker {
    service: Service,
    /// Certificate of the broker, which signed itself.
    ca_file: String,
}

/// Tests that take the broker down hold it alone.
static ALONE: RwLock<()> = RwLock::new(());

fn shared() -> RwLockReadGuard<'static, ()> {
    ALONE.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    ALONE.write().unwrap_or_else(PoisonError::into_inner)
}

fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(Broker::start)
}

impl Broker {
    fn start() -> Self {
        let home = home();
        let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
        let (store, ca_file) = (path("broker.p12"), path("ca.pem"));
        let common =
            ["-alias", "kafka", "-storetype", "PKCS12", "-keystore", &store, "-storepass", "changeit"];
        let keytool = |verb: &str, more: &[&str]| {
            let done = Command::new("keytool").arg(verb).args(common).args(more).run_for_output().unwrap();
            assert!(done.status.success(), "keytool {verb}: {}", String::from_utf8_lossy(&done.stdout));
        };
        let valid = ["-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-validity", "30"];
        keytool("-genkeypair", &[&["-keyalg", "RSA", "-keysize", "2048"][..], &valid].concat());
        keytool("-exportcert", &["-rfc", "-file", &ca_file]);
        let security = "org.apache.kafka.common.security";
        let jaas = |listener: &str, mechanism: &str, module: &str| {
            format!("listener.name.{listener}.{mechanism}.sasl.jaas.config={security}.{module};")
        };
        let scram = "scram.ScramLoginModule required";
        let arguments = [
            "listener=SSL".to_owned(),
            "listener=SASL_PLAINTEXT".to_owned(),
            "listener=SASL_SSL".to_owned(),
            "ssl.keystore.type=PKCS12".to_owned(),
            format!("ssl.keystore.location={store}"),
            "ssl.keystore.password=changeit".to_owned(),
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER".to_owned(),
            "listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-512".to_owned(),
            jaas(
                "sasl_plaintext",
                "plain",
                &format!("plain.PlainLoginModule required user_alice=\"{SECRET}\""),
            ),
            jaas("sasl_plaintext", "scram-sha-512", scram),
            jaas("sasl_ssl", "scram-sha-512", scram),
            jaas(
                "sasl_plaintext",
                "oauthbearer",
                "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\"",
            ),
            format!("--add-scram=SCRAM-SHA-512=[name=alice,password={SECRET}]"),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Self { service: Service::start_in(home, "kafka", &arguments), ca_file }
    }

    fn bootstrap(&self) -> &str {
        self.service.get("BOOTSTRAP")
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", self.bootstrap()).create().unwrap()
    }
}

const SECRET: &str = "alice-has-a-secret";

fn settings(brokers: &str, client: &Value, more: &str) -> String {
    let client = client.as_object().unwrap().iter();
    let client: String = client.map(|(name, value)| format!("\"{name}\" = {value}\n")).collect();
    format!("[run]\nname = \"it\"\n[kafka]\nbrokers = [\"{brokers}\"]\n[kafka.client]\n{client}{more}\n")
}

fn admin<T>(call: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(call)
}

/// Every record that was due is in the log, once and in order, although the broker was killed in the middle.
#[test]
fn real_kafka_load_is_exact() {
    const PARTITIONS: i32 = 6;
    let broker = broker();
    let _alone = alone();
    let topic = "exact";
    let stream = format!(
        "[streams.main]\ntopic = \"{topic}\"\npartitions = {PARTITIONS}\nlanes = 3\nrate = 5000\n\
         topic_config = {{ \"retention.ms\" = \"3600000\" }}\n\
         overload = {{ max_debt = \"10m\", max_catch_up = 4.0 }}\nvalue = {{ kind = \"random\", size = 200 }}\n"
    );
    let client =
        json!({ "acks": "all", "enable.idempotence": true, "compression.type": "zstd", "linger.ms": 10 });
    let settings = settings(broker.bootstrap(), &client, &stream);
    let (code, table) = daemon::check(&settings);
    assert!(code == Some(0) && table.contains(&format!("topic {topic} will be created")), "{code:?} {table}");
    let daemon = daemon::start(&settings);
    daemon.wait_metric(30, "records_acked_total", |acked| acked >= 4_000.0);
    broker.service.order("kill");
    daemon.wait_metric(30, "records_in_flight", |in_flight| in_flight > 500.0);
    broker.service.order("start");
    let (back, acked) = (Instant::now(), daemon.metric("records_acked_total"));
    daemon.wait_metric(60, "records_acked_total", |now| now > acked);
    println!("acks again {:.1} s after the broker was back", back.elapsed().as_secs_f64());
    daemon.wait_metric(60, "records_acked_total", |now| now >= acked + 10_000.0);
    daemon.wait_metric(60, "schedule_backlog_records", |backlog| backlog < 100.0);
    let ended = daemon.terminate();
    ended.good();
    assert!(ended.log.lines().count() < 60, "{}", ended.log);

    let totals = &ended.report()["streams"]["main"]["totals"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{totals}"));
    let all = |reasons: &Value| reasons.as_object().unwrap().values().map(number).sum::<u64>();
    let (acked, failed, dropped) =
        (number(&totals["acked"]), all(&totals["failed"]), all(&totals["dropped"]));
    let unknown = totals["failed"]["outcome_unknown"].as_u64().unwrap_or(0);
    let reader = Reader::new(broker.bootstrap(), "truth", topic, PARTITIONS);
    let in_broker: u64 = reader.ends().iter().sum();
    println!(
        "acked {acked}, in the broker {in_broker}, unknown {unknown}, failed {failed}, dropped {dropped}"
    );
    assert!(acked <= in_broker && in_broker <= acked + unknown, "{acked} {in_broker} {unknown}");
    // A client finds its broker again by itself. Only one that is stuck, and said to be, is given up with what it has in
    // flight.
    assert!(failed == unknown && (failed == 0 || ended.log.contains("client rebuilt")), "{}", ended.log);
    let log = reader.read(truth::random);
    let mut seen = BTreeSet::new();
    for (partition, entries) in log.partitions.iter().enumerate() {
        assert!(entries.is_sorted_by(|one, next| one.sequence < next.sequence), "partition {partition}");
        assert!(
            entries.is_sorted_by(|one, next| one.timestamp_ms <= next.timestamp_ms),
            "partition {partition}"
        );
        seen.extend(entries.iter().map(|entry| entry.sequence));
    }
    let (count, last) = (seen.len() as u64, *seen.last().unwrap());
    assert_eq!(count, in_broker, "each sequence is there once");
    let missing = last + 1 - count;
    assert!(missing <= failed + dropped, "{missing} missing, {failed} failed, {dropped} dropped");
    assert_eq!(number(&totals["scheduled"]), acked + failed + dropped);
    // The times say what the schedule said: record n was due n / 5,000 s after the first.
    let first_ms = log.partitions.iter().map(|entries| entries[0].timestamp_ms).min().unwrap();
    for entry in log.partitions.iter().flatten() {
        let due_ms = first_ms + (entry.sequence / 5) as i64;
        assert!((entry.timestamp_ms - due_ms).abs() <= 2, "{entry:?} was due at {due_ms}");
    }
    topic_is_as_ordered(broker, topic);
}

/// The report's ratio is that of the broker's own files.
#[test]
fn the_ratio_of_the_codec_is_that_of_the_brokers_files() {
    const RECORDS: u64 = 60_000;
    let broker = broker();
    let _shared = shared();
    let stream = format!(
        "[streams.main]\ntopic = \"ratio\"\nrate = 30000\nrecords = {RECORDS}\n\
         value = {{ kind = \"random\", size = 400, compressibility = 0.6 }}\n"
    );
    let client = json!({ "compression.type": "zstd", "linger.ms": 20, "statistics.interval.ms": 100 });
    let ended = daemon::start(&settings(broker.bootstrap(), &client, &stream)).wait(Duration::from_secs(60));
    ended.good();
    let found = &ended.report()["streams"]["main"];
    let ratio = found["compression"]["ratio"].as_f64().unwrap();
    let acked = found["totals"]["bytes_acked"].as_f64().unwrap();
    let logs = (0..4).map(|partition| {
        let path = format!("data/ratio-{partition}/00000000000000000000.log");
        std::fs::metadata(broker.service.dir.join(path)).unwrap().len()
    });
    let kept = logs.sum::<u64>() as f64;
    println!("ratio {ratio}, by the broker's files {}", acked / kept);
    assert!((ratio / (acked / kept) - 1.0).abs() < 0.02, "{ratio}, {acked} bytes in files of {kept}");
    assert!((2.3..2.9).contains(&ratio), "{ratio}");
}

fn topic_is_as_ordered(broker: &Broker, topic: &str) {
    let admin_client = broker.admin();
    let found =
        admin(admin_client.describe_configs([&ResourceSpecifier::Topic(topic)], &AdminOptions::new()));
    let found = found.unwrap().remove(0).unwrap();
    let value = |entry: &ConfigEntry| entry.value.clone();
    assert_eq!(found.get("retention.ms").and_then(value).as_deref(), Some("3600000"));
}

/// A real group: unknown before its first commit, exact after it; what retention removed is expired and not lag.
#[test]
fn l2_l8_a_real_group_is_unknown_then_exact_then_expired_then_gone() {
    let broker = broker();
    let _shared = shared();
    let more = "[streams.main]\ntopic = \"grouped\"\nrate = 2000\nlanes = 2\n\
                [progress.group]\nkind = \"consumer_group\"\nstream = \"main\"\ngroup = \"it-group\"\ninterval = \"200ms\"\n";
    let settings = settings(broker.bootstrap(), &json!({}), more);
    let daemon = daemon::start(&settings.replace("[run]", "[run]\ndrain_timeout = \"1s\""));
    let group = "{source=\"group\",stream=\"main\"}";
    let series = |name: &str| format!("{name}{group}");
    daemon.wait_metric(30, "records_acked_total", |acked| acked >= 3_000.0);
    daemon.wait_metric(30, &series("progress_unknown_partitions"), |unknown| unknown == 4.0);
    let scrape = daemon.scrape();
    assert_eq!(daemon::series(&scrape, &series("progress_up")), 1.0);
    assert!(!scrape.contains_key(&format!("soakd_lag_records{group}")), "no commit is no lag");

    // A consumer commits while the load goes on: from then on there is lag; at rest it is exact.
    let reader = Reader::new(broker.bootstrap(), "it-group", "grouped", 4);
    reader.commit(&[100, 200, 0, 300]);
    daemon.wait_metric(10, &series("lag_records"), |lag| lag > 0.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |in_flight| in_flight == 0.0);
    let ends = reader.ends();
    let behind: u64 = ends.iter().sum::<u64>() - 600;
    daemon.wait_metric(10, &series("lag_records"), |lag| lag == behind as f64);
    assert_eq!(daemon.metric("records_acked_total"), ends.iter().sum::<u64>() as f64);
    age_is_that_of_the_oldest_record(&daemon, &reader, &series("lag_seconds"));

    // Retention takes the first 500 of each partition: that is no lag any more, and said apart.
    let mut below = TopicPartitionList::new();
    (0..4).for_each(|partition| {
        below.add_partition_offset("grouped", partition, Offset::Offset(500)).unwrap();
    });
    admin(broker.admin().delete_records(&below, &AdminOptions::new())).unwrap();
    assert!(reader.watermarks().iter().all(|(low, _)| *low == 500));
    daemon.wait_metric(30, &series("expired_records"), |expired| expired == 2_000.0 - 600.0);
    let left = ends.iter().sum::<u64>() - 2_000;
    daemon.wait_metric(10, &series("lag_records"), |lag| lag == left as f64);

    reader.commit(&ends);
    daemon.wait_metric(10, &series("lag_records"), |lag| lag == 0.0);
    daemon.wait_metric(10, &series("expired_records"), |expired| expired == 0.0);
    assert_eq!(daemon.metric(&series("lag_seconds")), 0.0);

    // Its offsets are deleted, as a broker does by itself when a group was without members for a week: no lag at all.
    let deleted = admin(broker.admin().delete_groups(&["it-group"], &AdminOptions::new())).unwrap();
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    daemon.wait_metric(10, &series("progress_unknown_partitions"), |unknown| unknown == 4.0);
    assert!(!daemon.scrape().contains_key(&format!("soakd_lag_records{group}")), "no commit is no lag");
    let status = daemon.get("/api/v1/status?partitions=true");
    let source = &status["sources"]["group"];
    assert!(source["unknown_reason"].as_str().unwrap().starts_with("no commits any more"), "{source}");
    reader.commit(&ends);
    daemon.wait_metric(10, &series("lag_records"), |lag| lag == 0.0);
    let status = daemon.get("/api/v1/status?partitions=true");
    let partitions = status["sources"]["group"]["partitions"].as_array().unwrap().clone();
    let values: Vec<u64> = partitions.iter().map(|one| one["value"].as_u64().unwrap()).collect();
    assert_eq!(values, ends);
    let ended = daemon.terminate();
    ended.good();
}

/// Record 0 of partition 2 is the oldest that is not read.
fn age_is_that_of_the_oldest_record(daemon: &Daemon, reader: &Reader, series: &str) {
    let log = reader.read(truth::random);
    let oldest = [(0, 100), (1, 200), (2, 0), (3, 300)]
        .map(|(partition, next): (usize, usize)| log.partitions[partition][next].timestamp_ms);
    let oldest_s = oldest.into_iter().min().unwrap() as f64 / 1e3;
    let before = truth::wall();
    let age = daemon.metric(series);
    // The newest sample may be from up to an interval before, and a busy machine's a little more.
    let (youngest, eldest) = (before - oldest_s - 3.0, truth::wall() - oldest_s + 0.1);
    assert!((youngest..=eldest).contains(&age), "{age} is not in {youngest}..{eldest}");
}

#[test]
fn real_kafka_takes_the_load_through_tls_and_sasl() {
    let broker = broker();
    let _shared = shared();
    let ca = &broker.ca_file;
    let password = |protocol: &str, mechanism: &str| {
        json!({ "security.protocol": protocol, "sasl.mechanism": mechanism,
                "sasl.username": "alice", "sasl.password": SECRET })
    };
    let with = |mut client: Value, name: &str, value: &str| {
        client[name] = json!(value);
        client
    };
    let oauth = json!({ "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER",
                        "enable.sasl.oauthbearer.unsecure.jwt": true, "sasl.oauthbearer.config": "principal=bob" });
    let tls = json!({ "security.protocol": "ssl", "ssl.ca.location": ca, "compression.type": "zstd" });
    let scram_tls = with(password("sasl_ssl", "SCRAM-SHA-512"), "ssl.ca.location", ca);
    let ways = [
        ("tls", "SSL", tls.clone()),
        ("plain", "SASL_PLAINTEXT", with(password("sasl_plaintext", "PLAIN"), "compression.type", "lz4")),
        (
            "scram",
            "SASL_PLAINTEXT",
            with(password("sasl_plaintext", "SCRAM-SHA-512"), "compression.type", "gzip"),
        ),
        ("scram-tls", "SASL_SSL", with(scram_tls, "compression.type", "snappy")),
        ("oauthbearer", "SASL_PLAINTEXT", oauth),
    ];
    for (name, listener, client) in &ways {
        let topic = format!("secure-{name}");
        let stream = format!("[streams.main]\ntopic = \"{topic}\"\nrate = 5000\nrecords = 1000\nlanes = 2\n");
        let address = broker.service.get(&format!("BOOTSTRAP_{listener}"));
        let ended = daemon::start(&settings(address, client, &stream)).wait(Duration::from_secs(60));
        ended.good();
        assert!(!(ended.out + &ended.log).contains(SECRET), "{name}");
        let reader = Reader::new(broker.bootstrap(), "truth", &topic, 4);
        assert_eq!(reader.ends().iter().sum::<u64>(), 1000, "{name}");
    }
    // What is refused is said with the reason, and without the secret.
    let wrong = with(password("sasl_plaintext", "SCRAM-SHA-512"), "sasl.password", "not-the-password");
    let no_ca = json!({ "security.protocol": "ssl" });
    std::thread::scope(|scope| {
        for (listener, client, reason) in
            [("SASL_PLAINTEXT", &wrong, "invalid credentials"), ("SSL", &no_ca, "certificate verify failed")]
        {
            let address = broker.service.get(&format!("BOOTSTRAP_{listener}"));
            let settings = settings(address, client, "[streams.main]\n");
            scope.spawn(move || {
                let (code, table) = daemon::check(&settings);
                assert!(code == Some(3) && table.contains(reason), "{code:?} {table}");
                assert!(!table.contains("not-the-password"), "{table}");
            });
        }
    });
}
