//! Progress by a consumer group's commits, on the mock cluster: for faults that a real broker cannot be made to show on demand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, DefaultConsumerContext};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use soakd::core::lag::Progress;
use soakd::core::status::{Board, ProgressErrorKind};
use soakd::kafka::settings::KafkaSettings;
use soakd::progress::Poller;
use soakd::progress::settings::SourceSettings;
use tokio_util::sync::CancellationToken;

use crate::board::{STREAM, board, events, poller, set_head, status};

const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "t";
const GROUP: &str = "g";

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster(partitions: i32) -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, partitions, 1).unwrap();
    cluster
}

fn kafka(cluster: &Cluster, client: Value) -> KafkaSettings {
    serde_json::from_value(json!({ "brokers": [cluster.bootstrap_servers()], "client": client })).unwrap()
}

fn settings(timeout: &str) -> SourceSettings {
    let all = json!({ "kind": "consumer_group", "stream": STREAM, "group": GROUP, "interval": "200ms", "timeout": timeout });
    serde_json::from_value(all).unwrap()
}

fn one(cluster: &Cluster, partitions: u32, timeout: &str) -> (Arc<Board>, Poller) {
    let settings = settings(timeout);
    let board = board(TOPIC, partitions, &[("group", &settings)]);
    let poller = poller(&board, "group", &settings, &kafka(cluster, json!({ "linger.ms": 5 })));
    (board, poller)
}

/// Commits offsets for the group and ends, as a consumer that died.
fn commit(cluster: &Cluster, offsets: &[(i32, i64)]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers()).set("group.id", GROUP);
    let consumer: BaseConsumer<DefaultConsumerContext> = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(TOPIC, *partition, Offset::Offset(*offset)).unwrap();
    }
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_never_committed_is_unknown_until_the_first_commit() {
    let cluster = cluster(4);
    let (board, mut poller) = one(&cluster, 4, "20s");
    (0..4).for_each(|partition| set_head(&board, partition, 250));
    let polled = poller.poll_once().await.unwrap();
    assert_eq!(polled.progress, Progress::NoData("no commits yet".to_owned()));
    let now = status(&board, "group");
    assert!(now.up, "{now:?}");
    assert_eq!(now.unknown_reason.as_deref(), Some("no commits yet"));
    assert_eq!(now.reading.and_then(|reading| reading.lag_records), None);
    tokio::task::block_in_place(|| commit(&cluster, &[(1, 200)]));
    let polled = poller.poll_once().await.unwrap();
    let expected = [(0, None), (1, Some(200)), (2, None), (3, None)].into_iter().collect();
    assert_eq!(polled.progress, Progress::Partitions(expected));
    poller.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l11_lag_rises_while_the_group_has_no_members() {
    let cluster = cluster(2);
    let (board, mut poller) = one(&cluster, 2, "20s");
    // A broker that cannot list groups; offset fetches need no listing.
    let none = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION;
    cluster.request_errors(RDKafkaApiKey::ListGroups, &[none; 100]);
    (0..2).for_each(|partition| set_head(&board, partition, 100));
    tokio::task::block_in_place(|| commit(&cluster, &[(0, 100), (1, 100)]));
    for lag in [0, 100, 3_000] {
        set_head(&board, 0, 100 + lag);
        poller.poll_once().await.unwrap();
        assert_eq!(status(&board, "group").reading.unwrap().lag_records, Some(lag));
    }
    assert_eq!(events(&board), Vec::<&str>::new());
    poller.close().await;
}

/// One partition that a broker says nothing about hides nothing of the others.
#[tokio::test(flavor = "multi_thread")]
async fn l2_a_partition_that_the_broker_refuses_is_unknown_and_spoils_no_other() {
    let cluster = cluster(2);
    // The topic has two partitions, the source asks about three.
    let (board, mut poller) = one(&cluster, 3, "20s");
    (0..3).for_each(|partition| set_head(&board, partition, 100));
    let error = poller.poll_once().await.unwrap_err();
    assert_eq!(
        error.kind,
        ProgressErrorKind::Query,
        "nothing is known, and that is the broker's word: {error}"
    );
    tokio::task::block_in_place(|| commit(&cluster, &[(0, 60), (1, 100)]));
    poller.poll_once().await.unwrap();
    let now = status(&board, "group");
    let reading = now.reading.unwrap();
    assert_eq!((reading.lag_records, reading.unknown_partitions, reading.caught_up), (Some(40), 1, false));
    let by_partition: Vec<_> = now.partitions.iter().map(|one| (one.value, one.lag_records)).collect();
    assert_eq!(by_partition, [(Some(60), Some(40)), (Some(100), Some(0)), (None, None)]);
    poller.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_brokers_own_error_is_counted_as_query_and_shown() {
    let cluster = cluster(1);
    let (board, mut poller) = one(&cluster, 1, "20s");
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::OffsetFetch, &[refused; 1]);
    let error = poller.poll_once().await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Query, "{error}");
    assert!(error.text.contains("offsets of group \"g\"") && error.text.contains("uthorization"), "{error}");
    poller.poll_once().await.unwrap();
    assert_eq!(events(&board), ["source_lost", "source_found"]);
    poller.close().await;
}

/// The runtime has one thread, so that a single call that blocks it shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn h7_a_broker_that_is_away_never_blocks_the_runtime_and_questions_do_not_pile_up() {
    let cluster = cluster(16);
    let (board, poller) = one(&cluster, 16, "1s");
    tokio::task::block_in_place(|| commit(&cluster, &[(0, 7)]));
    let stop = CancellationToken::new();
    let task = tokio::spawn(poller.run(stop.clone()));
    wait("it is up", || status(&board, "group").up).await;
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    crate::children::while_none_starts(|| cluster.broker_down(1)).unwrap();
    wait("it is down", || !status(&board, "group").up).await;
    let before = threads();
    let mut worst = Duration::ZERO;
    let began = Instant::now();
    while status(&board, "group").missed_polls < 5 {
        assert!(began.elapsed() < PATIENCE, "{:?}", status(&board, "group"));
        let asked = Instant::now();
        tokio::spawn(async {}).await.unwrap();
        worst = worst.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(worst < Duration::from_millis(250), "{worst:?}");
    // One deadline for all 16 partitions: five polls of a second each, and not sixteen times that.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // Other tests of this process start and end threads too.
    assert!(threads() < before + 20, "{before} threads, then {}", threads());
    let now = status(&board, "group");
    assert!(now.reading.is_none() && now.error.is_some(), "{now:?}");
    let away =
        now.errors[ProgressErrorKind::Connect as usize] + now.errors[ProgressErrorKind::Timeout as usize];
    assert!(away >= 5, "{now:?}");
    cluster.broker_up(1).unwrap();
    wait("it is back", || status(&board, "group").up).await;
    assert_eq!(events(&board), ["source_lost", "source_found"]);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_answers_too_late_is_a_timeout() {
    let cluster = cluster(1);
    let (_, mut poller) = one(&cluster, 1, "2s");
    poller.poll_once().await.unwrap();
    cluster.broker_round_trip_time(1, Duration::from_secs(30)).unwrap();
    let error = poller.poll_once().await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Timeout, "{error}");
    let began = Instant::now();
    poller.close().await;
    assert!(began.elapsed() < Duration::from_secs(5), "the end waits for no broker");
}

#[test]
fn c4_a_refused_client_property_is_a_start_error_with_its_name() {
    let cluster = cluster(1);
    let settings = settings("1s");
    let board = board(TOPIC, 1, &[("group", &settings)]);
    let refused = Poller::new("group", &settings, &kafka(&cluster, json!({ "linger.mss": 5 })), &board);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("progress.group") && text.contains("linger.mss"), "{text}");
}

async fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
