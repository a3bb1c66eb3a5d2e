//! A producer on librdkafka's own calls, and the only unsafe code of soakd.
//!
//! Why not the wrapper crate's producer: it makes a C string of the topic's name at every record, looks the topic up by
//! it, and its poll either spins through the last millisecond of a wait or stamps reports up to a wait late. Here a record
//! costs one call (`rd_kafka_produceva` with a topic handle) and no allocation of ours, reports are read from the
//! client's queue as events on the thread that polls, and a poll returns when something has come.
//!
//! What keeps it sound: a [`Producer`] owns its three handles and gives none away; they are valid from `new` to `drop`;
//! librdkafka's calls may be made from any thread. Records are copied by the client before `send` returns
//! (`RD_KAFKA_MSG_F_COPY`), so that no borrow outlives a call. No callback into Rust is ever registered.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use rdkafka::bindings as sys;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

use super::client::log;

/// Most events read by one poll, so that a flood of them does not keep the caller from its own work.
const MAX_EVENTS: usize = 64;
/// No more events are read after so many reports: what the caller keeps of them should stay in the processor's caches. An
/// event holds the reports of a whole batch.
const MANY_REPORTS: usize = 4096;
/// How long a dropped client may take to give its records back.
const FAREWELL: Duration = Duration::from_millis(500);

/// How often, and how many times, a new client is hastened.
const HASTEN_EVERY: Duration = Duration::from_millis(25);
const HASTEN_TIMES: u32 = 20;

/// A producer to one topic. Purged and destroyed when it is dropped.
pub struct Producer {
    client: NonNull<sys::rd_kafka_t>,
    topic: NonNull<sys::rd_kafka_topic_t>,
    queue: NonNull<sys::rd_kafka_queue_t>,
    arguments: Box<Arguments>,
    /// Times that it will be hastened yet; 0 once it has delivered.
    hasten_times: u32,
    hasten_next: Instant,
}

// SAFETY: librdkafka's handles are not bound to a thread, and every call used here may be made from any. What the arguments
// point to is looked at during `send` only.
unsafe impl Send for Producer {}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("hasten_times", &self.hasten_times).finish_non_exhaustive()
    }
}

/// Most headers of a record; what is beyond is not sent.
pub const MAX_HEADERS: usize = 16;
/// Arguments of a record besides its headers.
const FIXED_ARGUMENTS: usize = 7;
/// The arguments of a call, kept: their types and what is the same for every record are written once, because filling
/// them anew cost more than the call's own work on them.
type Arguments = [sys::rd_kafka_vu_t; FIXED_ARGUMENTS + MAX_HEADERS];

/// The arguments of records to a topic, before the first.
fn arguments(topic: NonNull<sys::rd_kafka_topic_t>) -> Box<Arguments> {
    use sys::rd_kafka_vtype_t as kind;
    let nothing = sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: ptr::null_mut(), size: 0 };
    let mem = Argument { mem: nothing };
    let mut all = [sys::rd_kafka_vu_t { vtype: kind::RD_KAFKA_VTYPE_HEADER, u: mem }; _];
    let fixed = [
        (kind::RD_KAFKA_VTYPE_PARTITION, Argument { i32_: 0 }),
        (kind::RD_KAFKA_VTYPE_TIMESTAMP, Argument { i64_: 0 }),
        (kind::RD_KAFKA_VTYPE_KEY, mem),
        (kind::RD_KAFKA_VTYPE_VALUE, mem),
        (kind::RD_KAFKA_VTYPE_OPAQUE, Argument { ptr: ptr::null_mut() }),
        (kind::RD_KAFKA_VTYPE_RKT, Argument { rkt: topic.as_ptr() }),
        (kind::RD_KAFKA_VTYPE_MSGFLAGS, Argument { i: sys::RD_KAFKA_MSG_F_COPY as c_int }),
    ];
    for (place, (vtype, u)) in all.iter_mut().zip(fixed) {
        *place = sys::rd_kafka_vu_t { vtype, u };
    }
    Box::new(all)
}

/// A key or value as an argument.
fn mem(bytes: Option<&[u8]>) -> Argument {
    let (ptr, size) = bytes.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()));
    Argument { mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: ptr.cast_mut().cast(), size } }
}

/// A record as it is handed over.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a, H> {
    /// Its partition.
    pub partition: i32,
    /// Its timestamp in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Its headers, at most [`MAX_HEADERS`].
    pub headers: H,
}

/// Why the client did not take a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// Its queue is full, by number or by bytes: try again later.
    QueueFull,
    /// The client is dead for good.
    Fatal(String),
    /// This record is refused for good.
    Refused(RDKafkaErrorCode),
}

/// What became of a record that the client took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The number that was given to [`Producer::send`].
    pub record: usize,
    /// Its offset, or why it was not acked.
    pub outcome: Result<u64, Failure>,
}

/// Why a record was not acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The client's error.
    pub code: RDKafkaErrorCode,
    /// The broker may have kept the record all the same: it was sent, and no answer came.
    pub maybe_kept: bool,
}

/// Takes what a poll finds.
pub trait Events {
    /// A delivery report.
    fn report(&mut self, report: Report);
    /// The client's statistics as JSON.
    fn statistics(&mut self, json: &[u8]);
}

impl Producer {
    /// A client and its topic. Connects in the background.
    ///
    /// # Errors
    /// When the client refuses a property or cannot start; the error names the property.
    pub fn new(config: &ClientConfig, topic: &str) -> KafkaResult<Self> {
        let native = config.create_native_config()?;
        let name = CString::new(topic)?;
        let mut text: [c_char; 512] = [0; 512];
        let events = sys::RD_KAFKA_EVENT_DR
            | sys::RD_KAFKA_EVENT_ERROR
            | sys::RD_KAFKA_EVENT_STATS
            | sys::RD_KAFKA_EVENT_LOG;
        // SAFETY: `native` is a valid configuration. `rd_kafka_new` takes the copy over when it succeeds; when it does
        // not, the copy is ours to destroy. `text` is as long as is said.
        let client = unsafe {
            let copy = sys::rd_kafka_conf_dup(native.ptr());
            sys::rd_kafka_conf_set_events(copy, events);
            // Else the client prints its log to standard error.
            let (name, on) = (c"log.queue", c"true");
            sys::rd_kafka_conf_set(copy, name.as_ptr(), on.as_ptr(), ptr::null_mut(), 0);
            let kind = sys::rd_kafka_type_t::RD_KAFKA_PRODUCER;
            let client = sys::rd_kafka_new(kind, copy, text.as_mut_ptr(), text.len());
            if client.is_null() {
                sys::rd_kafka_conf_destroy(copy);
            }
            client
        };
        let Some(client) = NonNull::new(client) else {
            // SAFETY: librdkafka ends its message with a zero, within the length it was told.
            let reason = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
            return Err(KafkaError::ClientCreation(reason));
        };
        // SAFETY: `client` is valid, `name` ends with a zero, no topic configuration means the client's defaults.
        let (topic, queue) = unsafe {
            (
                NonNull::new(sys::rd_kafka_topic_new(client.as_ptr(), name.as_ptr(), ptr::null_mut())),
                NonNull::new(sys::rd_kafka_queue_get_main(client.as_ptr())),
            )
        };
        match (topic, queue) {
            (Some(topic), Some(queue)) => {
                // SAFETY: the client is valid; no queue means its main one, which `poll` reads.
                let error = unsafe { sys::rd_kafka_set_log_queue(client.as_ptr(), ptr::null_mut()) };
                tracing::trace!(?error, "the client's log goes to its queue");
                let hasten_next = Instant::now() + HASTEN_EVERY;
                let arguments = arguments(topic);
                Ok(Self { client, topic, queue, arguments, hasten_times: HASTEN_TIMES, hasten_next })
            }
            (topic, queue) => {
                // SAFETY: each handle is ours, valid, and destroyed once; the client last.
                unsafe {
                    queue.inspect(|queue| sys::rd_kafka_queue_destroy(queue.as_ptr()));
                    topic.inspect(|topic| sys::rd_kafka_topic_destroy(topic.as_ptr()));
                    sys::rd_kafka_destroy(client.as_ptr());
                }
                Err(KafkaError::ClientCreation("the topic's handle cannot be made".to_owned()))
            }
        }
    }

    /// Hands a record over; it is copied. `number` comes back in its [`Report`].
    ///
    /// # Errors
    /// When the client does not take it; there is no report then.
    pub fn send<'a>(
        &mut self,
        record: Record<'a, impl Iterator<Item = (&'a CStr, &'a [u8])>>,
        number: usize,
    ) -> Result<(), SendError> {
        let [partition, timestamp, key, value, opaque, _, _, headers @ ..] = &mut *self.arguments;
        partition.u.i32_ = record.partition;
        timestamp.u.i64_ = record.timestamp_ms;
        key.u = mem(record.key);
        value.u = mem(record.value);
        opaque.u.ptr = ptr::without_provenance_mut(number);
        let mut count = FIXED_ARGUMENTS;
        for (place, (name, value)) in headers.iter_mut().zip(record.headers) {
            place.u.header = sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_2 {
                name: name.as_ptr(),
                val: value.as_ptr().cast(),
                size: isize::try_from(value.len()).unwrap_or(0),
            };
            count += 1;
        }
        // SAFETY: each of the first `count` arguments holds the union's member that its type tells (see `arguments`), the
        // handles are valid, and key, value and headers live through the call, which copies them. The error, if any, is
        // ours to destroy, once, after it was read.
        unsafe {
            let error = sys::rd_kafka_produceva(self.client.as_ptr(), self.arguments.as_ptr(), count);
            if error.is_null() {
                return Ok(());
            }
            let code = RDKafkaErrorCode::from(sys::rd_kafka_error_code(error));
            let reason = match code {
                RDKafkaErrorCode::QueueFull => SendError::QueueFull,
                RDKafkaErrorCode::Fatal => SendError::Fatal(
                    CStr::from_ptr(sys::rd_kafka_error_string(error)).to_string_lossy().into_owned(),
                ),
                code => SendError::Refused(code),
            };
            sys::rd_kafka_error_destroy(error);
            Err(reason)
        }
    }

    /// Reads reports and other events: waits until something comes, at most `wait` (whole milliseconds), and then takes
    /// what is there.
    pub fn poll(&mut self, wait: Duration, events: &mut impl Events) {
        let mut wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        let mut reports = 0;
        for _ in 0..MAX_EVENTS {
            // SAFETY: the queue is valid. An event that comes is ours until it is destroyed at the end of `take`.
            let event = unsafe { sys::rd_kafka_queue_poll(self.queue.as_ptr(), wait_ms) };
            let Some(event) = NonNull::new(event) else { break };
            reports += take(event, events);
            if reports >= MANY_REPORTS {
                break;
            }
            wait_ms = 0;
        }
        if reports > 0 {
            self.hasten_times = 0;
        }
        if self.hasten_times > 0 && Instant::now() >= self.hasten_next {
            self.hasten();
        }
    }

    /// Has a new client ask its broker for metadata, and waits a millisecond at most.
    ///
    /// An idempotent client sends nothing before it has its producer id. It asks for the id when metadata come, and
    /// else only twice a second; the first metadata come from the bootstrap connection, which is given up for them, so
    /// that nobody is there to be asked. The first records would wait for half a second or a whole one.
    fn hasten(&mut self) {
        self.hasten_times -= 1;
        self.hasten_next = Instant::now() + HASTEN_EVERY;
        let mut metadata = ptr::null();
        // SAFETY: the handles are valid. Metadata that come are ours to destroy, once; none come with an error.
        unsafe {
            sys::rd_kafka_metadata(self.client.as_ptr(), 0, self.topic.as_ptr(), &mut metadata, 1);
            if !metadata.is_null() {
                sys::rd_kafka_metadata_destroy(metadata);
            }
        }
    }

    /// The fatal error of the client, if it has one: nothing can be sent by it any more.
    #[must_use]
    pub fn fatal_error(&self) -> Option<String> {
        let mut text: [c_char; 512] = [0; 512];
        // SAFETY: the client is valid, `text` is as long as is said and ends with a zero when an error is returned.
        unsafe {
            let code = sys::rd_kafka_fatal_error(self.client.as_ptr(), text.as_mut_ptr(), text.len());
            (code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR)
                .then(|| CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
        }
    }
}

/// A member of librdkafka's argument union.
type Argument = sys::rd_kafka_vu_s__bindgen_ty_1;

/// Reads an event and destroys it; returns the number of delivery reports in it.
fn take(event: NonNull<sys::rd_kafka_event_t>, events: &mut impl Events) -> usize {
    let mut reports = 0;
    // SAFETY: the event is valid until it is destroyed below; each accessor is called for its own type of event only, and
    // nothing that it lends is kept.
    unsafe {
        let kind = sys::rd_kafka_event_type(event.as_ptr());
        match kind {
            sys::RD_KAFKA_EVENT_DR => {
                while let Some(message) = sys::rd_kafka_event_message_next(event.as_ptr()).as_ref() {
                    events.report(read(message));
                    reports += 1;
                }
            }
            sys::RD_KAFKA_EVENT_STATS => {
                events.statistics(text(sys::rd_kafka_event_stats(event.as_ptr())).to_bytes());
            }
            sys::RD_KAFKA_EVENT_LOG => {
                let (mut facility, mut line, mut level) = (ptr::null(), ptr::null(), 0);
                if sys::rd_kafka_event_log(event.as_ptr(), &mut facility, &mut line, &mut level) == 0 {
                    let (facility, line) = (text(facility).to_string_lossy(), text(line).to_string_lossy());
                    log(&level, &facility, &line);
                }
            }
            sys::RD_KAFKA_EVENT_ERROR => {
                let error = text(sys::rd_kafka_event_error_string(event.as_ptr())).to_string_lossy();
                tracing::debug!(%error, "kafka producer error");
            }
            _ => {}
        }
        sys::rd_kafka_event_destroy(event.as_ptr());
    }
    reports
}

/// The offset of an acked record whose offset the broker did not tell: what follows it counts on from there, and says nothing
/// either.
pub const NO_OFFSET: u64 = u64::MAX;

fn read(message: &sys::rd_kafka_message_t) -> Report {
    let record = message._private.addr();
    let outcome = if message.err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        Ok(u64::try_from(message.offset).unwrap_or(NO_OFFSET))
    } else {
        // SAFETY: the message is a delivery report's, for which the status is defined.
        let status = unsafe { sys::rd_kafka_message_status(message) };
        let maybe_kept = status != sys::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
        Err(Failure { code: message.err.into(), maybe_kept })
    };
    Report { record, outcome }
}

/// A text that librdkafka lends; empty when there is none.
///
/// # Safety
/// `text` is null or ends with a zero and lives as long as the result is used.
unsafe fn text<'a>(text: *const c_char) -> &'a CStr {
    // SAFETY: by the caller's word.
    if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } }
}

impl Drop for Producer {
    fn drop(&mut self) {
        /// Reports of a client that nobody waits for.
        struct Nobody;
        impl Events for Nobody {
            fn report(&mut self, _: Report) {}
            fn statistics(&mut self, _: &[u8]) {}
        }
        let flags = sys::RD_KAFKA_PURGE_F_QUEUE | sys::RD_KAFKA_PURGE_F_INFLIGHT;
        // SAFETY: the client is valid. What is purged comes back as reports, which are read before it goes.
        let purged = unsafe { sys::rd_kafka_purge(self.client.as_ptr(), flags as c_int) };
        let deadline = Instant::now() + FAREWELL;
        // SAFETY: the client is valid.
        while unsafe { sys::rd_kafka_outq_len(self.client.as_ptr()) } > 0 && Instant::now() < deadline {
            self.poll(Duration::from_millis(10), &mut Nobody);
        }
        tracing::trace!(?purged, "kafka producer ends");
        // SAFETY: each handle is valid, ours, and destroyed once; the client last.
        unsafe {
            sys::rd_kafka_topic_destroy(self.topic.as_ptr());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
            sys::rd_kafka_destroy(self.client.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;

    use super::*;

    #[derive(Default)]
    struct Seen {
        reports: Vec<Report>,
        statistics: usize,
    }

    impl Events for Seen {
        fn report(&mut self, report: Report) {
            self.reports.push(report);
        }
        fn statistics(&mut self, json: &[u8]) {
            assert_eq!(json.first(), Some(&b'{'));
            self.statistics += 1;
        }
    }

    /// No broker answers here.
    const NOBODY: &str = "127.0.0.1:1";

    fn mock() -> MockCluster<'static, DefaultProducerContext> {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 2, 1).unwrap();
        cluster
    }

    fn producer(cluster: &MockCluster<'static, DefaultProducerContext>, more: &[(&str, &str)]) -> Producer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers());
        for (name, value) in more {
            config.set(*name, *value);
        }
        Producer::new(&config, "t").unwrap()
    }

    fn wait_for(producer: &mut Producer, seen: &mut Seen, reports: usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while seen.reports.len() < reports && Instant::now() < deadline {
            producer.poll(Duration::from_millis(100), seen);
        }
        assert_eq!(seen.reports.len(), reports);
    }

    #[test]
    fn a_new_idempotent_client_delivers_without_waiting_for_its_timer() {
        let cluster = mock();
        let mut times: Vec<Duration> = (0..9)
            .map(|_| {
                let begin = Instant::now();
                let mut producer = producer(&cluster, &[("enable.idempotence", "true"), ("linger.ms", "1")]);
                send(&mut producer, 0, None, b"value", 1).unwrap();
                wait_for_first(&mut producer);
                begin.elapsed()
            })
            .collect();
        times.sort_unstable();
        // The timer is half a second. One client may be lucky without help, or late on a busy machine; not most.
        assert!(times[4] < Duration::from_millis(450), "{times:?}");
    }

    /// Hands a record without headers over.
    fn send(
        producer: &mut Producer,
        partition: i32,
        key: Option<&[u8]>,
        value: &[u8],
        number: usize,
    ) -> Result<(), SendError> {
        let headers = std::iter::empty();
        let record = Record { partition, timestamp_ms: 1_700_000_000_000, key, value: Some(value), headers };
        producer.send(record, number)
    }

    /// Polls as a lane does at a low rate.
    fn wait_for_first(producer: &mut Producer) {
        let mut seen = Seen::default();
        let deadline = Instant::now() + Duration::from_secs(30);
        while seen.reports.is_empty() && Instant::now() < deadline {
            producer.poll(Duration::from_millis(2), &mut seen);
        }
        assert_eq!(seen.reports.len(), 1);
    }

    #[test]
    fn records_come_back_once_each_with_their_offsets() {
        let cluster = mock();
        let mut producer = producer(&cluster, &[("statistics.interval.ms", "10"), ("linger.ms", "5")]);
        let mut seen = Seen::default();
        for record in 0..1000 {
            let key = (record % 3 > 0).then_some(b"k".as_slice());
            send(&mut producer, (record % 2) as i32, key, b"value", record).unwrap();
        }
        wait_for(&mut producer, &mut seen, 1000);
        let mut offsets = [0, 0];
        for report in &seen.reports {
            let next = &mut offsets[report.record % 2];
            assert_eq!(report.outcome, Ok(*next));
            *next += 1;
        }
        assert_eq!(offsets, [500, 500]);
        while seen.statistics == 0 {
            producer.poll(Duration::from_millis(20), &mut seen);
        }
        assert_eq!(producer.fatal_error(), None);
    }

    #[test]
    fn a_full_queue_and_a_large_record_are_told_apart() {
        let limits = [
            ("bootstrap.servers", NOBODY),
            ("queue.buffering.max.messages", "10"),
            ("message.max.bytes", "1000"),
        ];
        let mut producer = producer(&mock(), &limits);
        let large = send(&mut producer, 0, None, &[0; 2000], 0);
        assert_eq!(large, Err(SendError::Refused(RDKafkaErrorCode::MessageSizeTooLarge)));
        let taken = (0..20).filter(|record| send(&mut producer, 0, None, b"v", *record).is_ok()).count();
        assert_eq!(taken, 10);
        assert_eq!(send(&mut producer, 0, None, b"v", 99), Err(SendError::QueueFull));
        // Dropped with ten records that never left: this must not hang.
    }

    #[test]
    fn a_record_that_never_left_is_not_kept_by_the_broker() {
        let limits = [("bootstrap.servers", NOBODY), ("message.timeout.ms", "200")];
        let mut producer = producer(&mock(), &limits);
        let mut seen = Seen::default();
        send(&mut producer, 0, None, b"v", 7).unwrap();
        wait_for(&mut producer, &mut seen, 1);
        let failure = Failure { code: RDKafkaErrorCode::MessageTimedOut, maybe_kept: false };
        assert_eq!(seen.reports, [Report { record: 7, outcome: Err(failure) }]);
    }

    #[test]
    fn a_property_that_makes_no_sense_is_named() {
        let mut config = ClientConfig::new();
        config.set("linger.ms", "many");
        let error = Producer::new(&config, "t").unwrap_err().to_string();
        assert!(error.contains("linger.ms"), "{error}");
    }
}
