//! What `soakd check` tries: everything that a run would connect to, without writing anything.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer;

use super::build::{build_board, build_makers, build_streams, marker_warnings, topic_specs};
use super::load::Load;
use crate::core::clock::Clock;
use crate::kafka::client::{last_heard, reader};
use crate::kafka::settings::KafkaSettings;
use crate::kafka::topic::{self, TopicError, TopicInfo};
use crate::process::{Look, ProcessWatch};
use crate::progress::Poller;
use crate::progress::settings::ProgressValue;
use crate::record::{Facts, Keyed, Maker, Payload};
use crate::settings::Settings;

/// How long each broker is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How one line of a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// As a run needs it.
    Good,
    /// A run would start, and this may be a mistake.
    Doubtful,
    /// The settings cannot work.
    Wrong,
    /// A system does not answer.
    Unreachable,
}

/// One line of a check.
#[derive(Debug, Clone)]
pub struct Row {
    /// `broker`, `stream`, `progress`, `process`, `http`.
    pub part: &'static str,
    /// The name in the settings, or the address.
    pub name: String,
    /// How it came out.
    pub found: Found,
    /// What was seen, in words.
    pub detail: String,
}

impl Row {
    fn new(part: &'static str, name: &str, found: Found, detail: impl Into<String>) -> Self {
        Self { part, name: name.to_owned(), found, detail: detail.into() }
    }
}

/// Tries everything.
pub async fn check(settings: &Settings) -> Vec<Row> {
    let kafka = Arc::new(settings.kafka.clone());
    let mut rows = vec![http(settings)];
    let brokers = {
        let kafka = Arc::clone(&kafka);
        tokio::task::spawn_blocking(move || brokers(&kafka)).await.unwrap_or_default()
    };
    if brokers.iter().any(|row| row.found == Found::Wrong) {
        // A client that the settings do not give makes every other line a consequence.
        rows.extend(brokers);
        return rows;
    }
    let reachable = brokers.iter().any(|row| row.found == Found::Good);
    rows.extend(brokers);
    let (mut topics, mut makers) = (BTreeMap::new(), BTreeMap::new());
    for (name, spec) in topic_specs(settings, "check") {
        let Some(stream) = settings.streams.get(&name) else { continue };
        let absent = TopicInfo {
            partitions: spec.partitions,
            created: false,
            watermarks: vec![(0, 0); spec.partitions as usize],
        };
        let made =
            build_makers(settings, "check", &BTreeMap::from([(name.clone(), absent.clone())]), true).await;
        let bytes = match made {
            Ok(mut made) => {
                if let Some(maker) = made.get_mut(&name) {
                    rows.extend(record_rows(&name, maker));
                }
                makers.extend(made);
                makers.get(&name).map_or(0, Maker::max_record_bytes)
            }
            Err(error) => {
                let found = if error.exit_code() == 3 { Found::Unreachable } else { Found::Wrong };
                rows.push(Row::new("records", &name, found, error.to_string()));
                continue;
            }
        };
        let load = if stream.produce {
            load_words(stream, bytes, spec.partitions)
        } else {
            "only watched: somebody else produces".to_owned()
        };
        let (info, row) = if reachable {
            let look = topic::TopicSpec { create: false, ..spec.clone() };
            let kafka = Arc::clone(&kafka);
            let looked = tokio::task::spawn_blocking(move || topic::ensure(&kafka, &look, TIMEOUT)).await;
            match looked {
                Ok(Ok(info)) => {
                    let detail = format!("topic {} has {} partitions; {load}", spec.name, info.partitions);
                    (info, Row::new("stream", &name, Found::Good, detail))
                }
                Ok(Err(TopicError::Missing(_))) if spec.create => {
                    let detail = format!(
                        "topic {} will be created with {} partitions; {load}",
                        stream.topic, spec.partitions
                    );
                    (absent, Row::new("stream", &name, Found::Good, detail))
                }
                Ok(Err(error @ TopicError::Client(_))) => {
                    (absent, Row::new("stream", &name, Found::Wrong, error.to_string()))
                }
                Ok(Err(error)) => (absent, Row::new("stream", &name, Found::Unreachable, error.to_string())),
                Err(error) => (absent, Row::new("stream", &name, Found::Unreachable, error.to_string())),
            }
        } else {
            (absent, Row::new("stream", &name, Found::Unreachable, format!("no broker answers; {load}")))
        };
        rows.push(row);
        topics.insert(name, info);
    }
    let clock = Clock::start();
    let streams = match build_streams(settings, "check", &topics, &makers, clock) {
        Ok(streams) => streams,
        Err(error) => {
            rows.push(Row::new("stream", "", Found::Wrong, error.to_string()));
            return rows;
        }
    };
    let board = Arc::new(build_board(settings, "check", streams, clock));
    // Makes the clients and sends nothing: a property that the client refuses shows here.
    if let Err(error) = Load::build(settings, &kafka, &board, &makers) {
        rows.push(Row::new("stream", "", Found::Wrong, error.to_string()));
    }
    for (name, warning) in marker_warnings(settings) {
        rows.push(Row::new("progress", name, Found::Doubtful, warning));
    }
    for (name, source) in &settings.progress {
        let row = match Poller::new(name, source, &kafka, &board) {
            Err(error) => Row::new("progress", name, Found::Wrong, error.to_string()),
            Ok(mut poller) => {
                let polled = poller.poll_once().await;
                poller.close().await;
                match polled {
                    Ok(polled) => {
                        let detail = format!(
                            "{} in {:.0} ms",
                            words(&polled.progress, source.common().value),
                            polled.took.as_secs_f64() * 1e3
                        );
                        Row::new("progress", name, Found::Good, detail)
                    }
                    Err(error) => progress_error(name, &error),
                }
            }
        };
        rows.push(row);
    }
    for (name, process) in &settings.processes {
        let Some(cell) = board.processes.get(name) else { continue };
        let mut watch =
            ProcessWatch::new(name.clone(), process, Arc::clone(cell), Arc::clone(&board.events), clock);
        rows.push(match watch.look().await {
            Ok(look) => Row::new("process", name, Found::Good, seen(&look)),
            // A process may be started after soakd, and is found then.
            Err(error) => Row::new("process", name, Found::Doubtful, error.to_string()),
        });
    }
    rows
}

/// What a look at a process found, in one line.
fn seen(look: &Look) -> String {
    let status = &look.status;
    let mut detail = status.pid.map_or_else(String::new, |pid| format!("pid {pid}, "));
    let _ = write!(detail, "{} processes", status.processes);
    if let Some(bytes) = status.memory_bytes() {
        let _ = write!(detail, ", {:.0} MiB", bytes as f64 / 1_048_576.0);
    }
    for remark in &look.remarks {
        detail.push_str("; ");
        detail.push_str(remark);
    }
    detail
}

/// The first record of a stream, and what may be a mistake about its records.
fn record_rows(stream: &str, maker: &mut Maker) -> Vec<Row> {
    let warning = |text| Row::new("records", stream, Found::Doubtful, text);
    let mut rows: Vec<Row> = maker.warnings().into_iter().map(warning).collect();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let Keyed { id: key_id, partition } = maker.key(0, &mut key);
    let intended_ms = Clock::start().wall_ms(0);
    let facts = Facts { sequence: 0, partition, key_id, intended_ms, marker: false };
    rows.push(match maker.value(&facts, &mut value) {
        Err(error) => warning(format!("the first record cannot be made: {error}")),
        Ok(payload) => {
            let key = if maker.has_keys() { shown(&key) } else { "none".to_owned() };
            let value = if payload == Payload::Value {
                shown(&value)
            } else {
                "none (it deletes its key)".to_owned()
            };
            Row::new("records", stream, Found::Good, format!("the first one: key {key}, value {value}"))
        }
    });
    rows
}

/// The beginning of a key or value, as text where it is one.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 200;
    let begun = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let more = if begun.len() < bytes.len() { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    let is_text = |text: &str| text.chars().all(|c| !c.is_control());
    // A character that the cut went through is no reason to show bytes.
    let text = match std::str::from_utf8(begun) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            begun.get(..error.valid_up_to()).and_then(|whole| std::str::from_utf8(whole).ok())
        }
        Err(_) => None,
    };
    match text.filter(|text| is_text(text)) {
        Some(text) => format!("{text}{more}"),
        None => {
            let hex: String = begun.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
            format!(
                "0x{hex}{}",
                if bytes.len() > 32 { format!("… ({} bytes)", bytes.len()) } else { String::new() }
            )
        }
    }
}

fn progress_error(name: &str, error: &crate::progress::ProbeError) -> Row {
    use crate::core::status::ProgressErrorKind as Kind;
    let found = match error.kind {
        Kind::Connect | Kind::Timeout => Found::Unreachable,
        Kind::Query if error.hopeless => Found::Wrong,
        // The table may come with the first record.
        Kind::Query => Found::Doubtful,
        Kind::Shape | Kind::BadValue => Found::Wrong,
    };
    Row::new("progress", name, found, error.text.clone())
}

fn words(progress: &crate::core::lag::Progress, value: ProgressValue) -> String {
    use crate::core::lag::Progress;
    let number = |number: u64| match value {
        ProgressValue::LagSeconds => format!("{} s", number as f64 / 1e9),
        _ => number.to_string(),
    };
    match progress {
        Progress::Total(total) => format!("answers {}", number(*total)),
        Progress::NoData(why) => format!("answers, without a figure yet: {why}"),
        Progress::Partitions(partitions) => {
            let value = |value: &Option<u64>| value.map_or_else(|| "none".to_owned(), number);
            let shown: Vec<String> = partitions
                .iter()
                .take(4)
                .map(|(partition, found)| format!("{partition}: {}", value(found)))
                .collect();
            let more = if partitions.len() > 4 { ", …" } else { "" };
            format!("answers by partition {}{more}", shown.join(", "))
        }
    }
}

fn http(settings: &Settings) -> Row {
    let listen = settings.http.listen;
    match TcpListener::bind(listen) {
        Ok(_) => Row::new("http", &listen.to_string(), Found::Good, "free"),
        Err(error) => Row::new(
            "http",
            &listen.to_string(),
            Found::Wrong,
            format!("cannot listen: {error}; stop what does, or choose another port in http.listen"),
        ),
    }
}

/// Asks for the cluster's brokers and connects to each.
fn brokers(kafka: &KafkaSettings) -> Vec<Row> {
    let seeds = kafka.brokers.join(",");
    let reader = match reader(kafka) {
        Ok(reader) => reader,
        Err(error) => {
            return vec![Row::new("broker", &seeds, Found::Wrong, format!("kafka.client: {error}"))];
        }
    };
    let metadata = match reader.fetch_metadata(None, TIMEOUT) {
        Ok(metadata) => metadata,
        Err(error) => {
            let heard = last_heard(&reader);
            let detail = format!("does not answer within {} s: {error}{heard}", TIMEOUT.as_secs());
            return vec![Row::new("broker", &seeds, Found::Unreachable, detail)];
        }
    };
    let connect = |broker: &rdkafka::metadata::MetadataBroker| {
        let address = format!("{}:{}", broker.host(), broker.port());
        let connected = address
            .to_socket_addrs()
            .and_then(|mut found| found.next().ok_or_else(|| std::io::Error::other("no address")))
            .and_then(|found| TcpStream::connect_timeout(&found, TIMEOUT));
        match connected {
            Ok(_) => Row::new("broker", &address, Found::Good, format!("id {}", broker.id())),
            Err(error) => {
                Row::new("broker", &address, Found::Unreachable, format!("id {}: {error}", broker.id()))
            }
        }
    };
    metadata.brokers().iter().map(connect).collect()
}

/// Rate, size and what an hour of it takes on the broker's disk.
fn load_words(
    stream: &crate::produce::settings::StreamSettings,
    record_bytes: usize,
    partitions: u32,
) -> String {
    let bytes = record_bytes as f64;
    let peak = stream.peak();
    let Some(rate) = peak.per_second() else {
        return format!("as many records as the client takes (max), of up to {bytes:.0} bytes");
    };
    let markers =
        stream.marker.interval.map_or(0.0, |every| f64::from(partitions) / every.get().as_secs_f64());
    let hour_gib = bytes * (rate + markers) * 3600.0 / 1_073_741_824.0 * f64::from(stream.replication_factor);
    format!(
        "{}{} records/s{} of up to {bytes:.0} bytes, up to {hour_gib:.2} GiB an hour on the brokers before compression",
        if stream.profile.is_empty() { "" } else { "at most " },
        peak,
        if markers > 0.0 { format!(" and {markers} markers/s") } else { String::new() },
    )
}
