//! What is built from the settings before anything runs: streams, the board, what the record says of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::StartError;
use super::load::lane_settings;
use crate::config::{PaceSetting, key};
use crate::core::arrivals::Arrivals;
use crate::core::clock::Clock;
use crate::core::counters::Head;
use crate::core::event::EventLog;
use crate::core::machine::{MachineStatus, OWN_MACHINE};
use crate::core::pace::Pace;
use crate::core::rate::Rate;
use crate::core::schedule::Schedule;
use crate::core::status::{Board, RunStatus};
use crate::core::stream::{LaneState, PartitionState, Stream};
use crate::kafka::settings::KafkaSettings;
use crate::kafka::topic::{self, TopicError, TopicInfo, TopicSpec};
use crate::process::ProcessWatch;
use crate::process::settings::ProcessSettings;
use crate::produce::lane::LaneSettings;
use crate::produce::settings::{ArrivalSetting, StreamSettings};
use crate::progress::initial_status;
use crate::record::format::BuildError;
use crate::record::hash::{mix, name_hash};
use crate::record::settings::KeyKind;
use crate::record::{Maker, Wanted};
use crate::settings::Settings;
use crate::store::record::{RunInfo, StreamInfo};

/// How long a start waits for the brokers.
const START_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) fn topic_name(settings: &StreamSettings, run_id: &str) -> String {
    settings.topic.replace("{run}", run_id)
}

/// The topics that the settings want, by stream.
pub(super) fn topic_specs(settings: &Settings, run_id: &str) -> BTreeMap<String, TopicSpec> {
    let spec = |stream: &StreamSettings| TopicSpec {
        name: topic_name(stream, run_id),
        // What somebody else writes to is theirs to make.
        create: stream.create && stream.produce,
        partitions: stream.partitions,
        replication_factor: stream.replication_factor,
        config: stream.topic_config.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
    };
    settings.streams.iter().map(|(name, stream)| (name.clone(), spec(stream))).collect()
}

pub(super) async fn ensure_topics(
    kafka: Arc<KafkaSettings>,
    specs: BTreeMap<String, TopicSpec>,
) -> Result<BTreeMap<String, TopicInfo>, StartError> {
    let ensure = move || {
        let ensure = |(name, spec)| Ok((name, topic::ensure(&kafka, &spec, START_TIMEOUT)?));
        specs.into_iter().map(ensure).collect::<Result<_, TopicError>>()
    };
    let topics = tokio::task::spawn_blocking(ensure).await.map_err(std::io::Error::other)?;
    Ok(topics?)
}

/// What makes the records of each stream. Files are read and schema registries asked, so this may take a while; with
/// `look_only` nothing is written to them.
pub(super) async fn build_makers(
    settings: &Settings,
    run_id: &str,
    topics: &BTreeMap<String, TopicInfo>,
    look_only: bool,
) -> Result<BTreeMap<String, Maker>, StartError> {
    let wanted = settings.streams.iter().filter(|(_, stream)| stream.produce).filter_map(|(name, stream)| {
        let partitions = topics.get(name)?.partitions;
        Some((name.clone(), stream.clone(), partitions))
    });
    let (wanted, seed, run_id): (Vec<_>, _, _) = (wanted.collect(), settings.run.seed, run_id.to_owned());
    let make = move || {
        let make = |(name, stream, partitions): (String, StreamSettings, u32)| {
            let maker = Maker::new(&Wanted {
                seed,
                seed_name: stream.seed_name.as_deref().unwrap_or(&name),
                at: &key("streams", &name),
                run_id: &run_id,
                topic: &topic_name(&stream, &run_id),
                look_only,
                partitions,
                key: &stream.key,
                value: &stream.value,
                headers: &stream.headers,
                markers: stream.marker.interval.is_some(),
                records: stream.all_records(),
            })?;
            Ok((name, maker))
        };
        wanted.into_iter().map(make).collect::<Result<_, BuildError>>()
    };
    let makers = tokio::task::spawn_blocking(make).await.map_err(std::io::Error::other)?;
    Ok(makers?)
}

fn rate(records_per_second: f64) -> Result<Rate, StartError> {
    Rate::from_per_second(records_per_second).map_err(|error| StartError::Settings(error.to_string()))
}

pub(super) fn build_streams(
    settings: &Settings,
    run_id: &str,
    topics: &BTreeMap<String, TopicInfo>,
    makers: &BTreeMap<String, Maker>,
    clock: Clock,
) -> Result<BTreeMap<String, Arc<Stream>>, StartError> {
    let limit = settings.run.duration.map(|duration| duration.get() + settings.run.warmup.get());
    let limit_ns = limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let mut streams = BTreeMap::new();
    for (name, stream) in &settings.streams {
        let Some(info) = topics.get(name) else { continue };
        // A topic that was there already may have fewer partitions than lanes were asked for.
        let lanes = if stream.produce { stream.lanes.min(info.partitions).max(1) } else { 1 };
        let state = |lane| LaneState { done: !stream.produce, ..lane_state(info, lane, lanes) };
        let states = (0..lanes).map(|lane| Mutex::new(state(lane))).collect();
        let held = makers.get(name).and_then(Maker::records);
        let schedule = schedule(settings, name, stream, lanes as usize, limit_ns, held)?;
        let built = Stream {
            name: name.clone(),
            topic: topic_name(stream, run_id),
            partitions: info.partitions,
            produced: stream.produce,
            max_rate: rate(stream.max_rate.0)?,
            clock,
            schedule: Mutex::new(schedule),
            lanes: states,
            held_back: Mutex::default(),
        };
        streams.insert(name.clone(), Arc::new(built));
    }
    Ok(streams)
}

/// When the records of a stream are due. `held` is how many there are, when a file holds them and is not sent again: its end is
/// the stream's, whether it is reached in the preload or later.
fn schedule(
    settings: &Settings,
    name: &str,
    stream: &StreamSettings,
    lanes: usize,
    limit_ns: Option<u64>,
    held: Option<u64>,
) -> Result<Schedule, StartError> {
    let pace = match stream.pace() {
        _ if !stream.produce => Pace::Steady(Rate::ZERO),
        PaceSetting::Rate(per_second) => Pace::Steady(rate(per_second.0)?),
        PaceSetting::Max => Pace::Max,
    };
    let arrivals = match stream.arrivals {
        ArrivalSetting::Even => Arrivals::Even,
        ArrivalSetting::Poisson => {
            let seed_name = stream.seed_name.as_deref().unwrap_or(name);
            Arrivals::Poisson { seed: mix(settings.run.seed ^ name_hash(&format!("{seed_name} arrivals"))) }
        }
    };
    let preload = stream.preload.min(held.unwrap_or(u64::MAX));
    let records = stream.records.into_iter().chain(held.map(|held| held - preload)).min();
    let schedule = Schedule::new(pace, lanes, limit_ns, records);
    let schedule = schedule.with_preload(preload).with_arrivals(arrivals);
    if stream.profile.is_empty() {
        return Ok(schedule);
    }
    let profile = stream.compile(&key("streams", name)).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        StartError::Settings(problems.join("; "))
    })?;
    let warmup_ns = u64::try_from(settings.run.warmup.get().as_nanos()).unwrap_or(u64::MAX);
    Ok(schedule.with_profile(profile, warmup_ns))
}

/// A lane's partitions before the first ack: everything up to the broker's end is not ours.
fn lane_state(info: &TopicInfo, lane: u32, lanes: u32) -> LaneState {
    let own = (0..info.partitions).zip(&info.watermarks).filter(|(partition, _)| partition % lanes == lane);
    let partitions = own.map(|(partition, (low, high))| {
        let head = Head { next_offset: *high, baseline: *high, log_start: *low, ..Head::default() };
        (partition, PartitionState { head, ..PartitionState::default() })
    });
    LaneState { partitions: partitions.collect(), ..LaneState::default() }
}

pub(super) fn build_board(
    settings: &Settings,
    run_id: &str,
    streams: BTreeMap<String, Arc<Stream>>,
    clock: Clock,
) -> Board {
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let run = RunStatus {
        tags: settings.run.tags.clone(),
        duration_ns: settings.run.duration.map(|duration| ns(duration.get())),
        warmup_ns: ns(settings.run.warmup.get()),
        ..RunStatus::starting(run_id, &settings.run.name)
    };
    let source = |(name, source): (&String, _)| (name.clone(), Arc::new(Mutex::new(initial_status(source))));
    Board {
        clock,
        run: Mutex::new(run),
        streams,
        sources: settings.progress.iter().map(source).collect(),
        processes: settings.processes.keys().map(|name| (name.clone(), Arc::default())).collect(),
        machines: machines(&settings.processes),
        events: Arc::new(EventLog::default()),
        heartbeats: AtomicU64::new(0),
    }
}

/// soakd's own machine, and those that sources of processes tell of.
pub(super) fn machines(
    processes: &BTreeMap<String, ProcessSettings>,
) -> BTreeMap<String, Arc<Mutex<MachineStatus>>> {
    let told = processes.iter().filter_map(|(name, process)| Some(process.machine(name)?.name));
    told.chain([OWN_MACHINE.to_owned()]).map(|name| (name, Arc::default())).collect()
}

/// Watches of all processes, each with the cell of the machine that it tells of; of several on one machine the first tells.
pub(super) fn process_watches<'b>(
    processes: &'b BTreeMap<String, ProcessSettings>,
    board: &'b Board,
) -> impl Iterator<Item = ProcessWatch> + use<'b> {
    let mut told = BTreeSet::new();
    processes.iter().filter_map(move |(name, process)| {
        let (cell, events) = (Arc::clone(board.processes.get(name)?), Arc::clone(&board.events));
        let machine = process.machine(name).map(|machine| machine.name);
        let machine = machine.filter(|machine| told.insert(machine.clone()));
        let machine = machine.and_then(|machine| board.machines.get(&machine)).map(Arc::clone);
        Some(ProcessWatch::new(name.clone(), process, cell, events, board.clock).with_machine(machine))
    })
}

pub(super) fn run_info(settings: &Settings, run_id: &str, makers: &BTreeMap<String, Maker>) -> RunInfo {
    let kafka = Arc::new(settings.kafka.clone());
    let of_load = |name: &str, stream: &StreamSettings| StreamInfo {
        partitioner: match stream.key.kind_for(&stream.value) {
            KeyKind::None => "sequence modulo partitions".to_owned(),
            _ => "murmur2 of the key modulo partitions, as the Java client does".to_owned(),
        },
        limits: queue_limits(
            &lane_settings(&kafka, stream),
            stream,
            makers.get(name).map_or(1, Maker::max_record_bytes),
        ),
    };
    let stream = |name: &str, stream: &StreamSettings| match stream.produce {
        true => of_load(name, stream),
        false => StreamInfo::default(),
    };
    RunInfo {
        id: run_id.to_owned(),
        name: settings.run.name.clone(),
        tags: settings.run.tags.clone(),
        drain_timeout_seconds: settings.run.drain_timeout.get().as_secs_f64(),
        streams: settings
            .streams
            .iter()
            .map(|(name, settings)| (name.clone(), stream(name, settings)))
            .collect(),
        tolerance_records: settings.progress.iter().map(|(n, s)| (n.clone(), s.common().tolerance)).collect(),
    }
}

/// What bounds the records between soakd and the broker, and how long a load each limit holds.
fn queue_limits(lane: &LaneSettings, stream: &StreamSettings, record_bytes: usize) -> Vec<String> {
    let peak = stream.peak();
    let holds = |records: f64| match peak.per_second().map(|rate| records / rate) {
        Some(seconds) if seconds.is_finite() => format!("{seconds:.1} s of load"),
        _ => format!("{records:.0} records"),
    };
    let max_rate = rate(stream.max_rate.0).unwrap_or_default();
    let (in_flight, queue) = (lane.in_flight_at(peak, record_bytes), lane.queue_records(max_rate));
    let record_bytes = record_bytes.max(1) as f64;
    let kbytes: f64 = lane
        .kafka
        .client
        .get(QUEUE_KBYTES)
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_QUEUE_KBYTES);
    vec![
        format!("at most {in_flight} records in flight: {}", holds(in_flight as f64)),
        format!("queue.buffering.max.messages {queue}: {}", holds(queue as f64)),
        format!("{QUEUE_KBYTES} {kbytes:.0}: {}", holds(kbytes * 1024.0 / record_bytes)),
    ]
}

/// The client's limit on bytes in its queue, and librdkafka's default of it.
const QUEUE_KBYTES: &str = "queue.buffering.max.kbytes";
const DEFAULT_QUEUE_KBYTES: f64 = 1_048_576.0;

/// What may be a mistake about each source whose stream has markers.
pub(super) fn marker_warnings(settings: &Settings) -> impl Iterator<Item = (&str, String)> {
    settings.progress.iter().filter_map(|(name, source)| {
        settings.streams.get(source.stream())?.marker.interval?;
        Some((name.as_str(), source.marker_warning()?))
    })
}
