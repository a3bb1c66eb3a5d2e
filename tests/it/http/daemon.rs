//! A daemon of two streams, a source and a process without any of the parts behind them, and a raw HTTP client.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use soakd::core::clock::Clock;
use soakd::core::control::Control;
use soakd::core::event::EventLog;
use soakd::core::lock::lock;
use soakd::core::rate::Rate;
use soakd::core::schedule::Schedule;
use soakd::core::status::{Board, ProcessStatus, RunState, RunStatus, SourceStatus};
use soakd::core::stream::{LaneState, Stream};
use soakd::http::settings::HttpSettings;
use soakd::http::{HttpListener, HttpServer};
use tokio_util::sync::CancellationToken;

/// Longer than anything may take that is not stuck.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Rates of the two streams, and the most that may be asked of each.
pub(super) const RATES: [(&str, f64); 2] = [("main", 300.0), ("side", 100.0)];
pub(super) const MAX_RATE: f64 = 10_000.0;

pub(super) struct Daemon {
    pub(super) addr: SocketAddr,
    pub(super) control: Arc<Control>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

fn board() -> Board {
    let clock = Clock::start();
    let streams = RATES.map(|(name, rate)| {
        let mut schedule = Schedule::new(Rate::from_per_second(rate).unwrap(), 1, None, None);
        schedule.start(clock.now_ns());
        let stream = Stream {
            name: name.to_owned(),
            topic: format!("soak-{name}"),
            partitions: 2,
            produced: true,
            max_rate: Rate::from_per_second(MAX_RATE).unwrap(),
            clock,
            schedule: Mutex::new(schedule),
            lanes: vec![Mutex::new(LaneState::default())],
            held_back: Mutex::default(),
        };
        (name.to_owned(), Arc::new(stream))
    });
    let source = SourceStatus {
        kind: "sql",
        value: "next_offset",
        stream: "main".to_owned(),
        up: true,
        ..SourceStatus::default()
    };
    let process = ProcessStatus { up: true, pid: Some(7), ..ProcessStatus::default() };
    Board {
        clock,
        run: Mutex::new(RunStatus {
            tags: BTreeMap::from([("variant".to_owned(), "a".to_owned())]),
            state: RunState::Measuring,
            started_ns: Some(1),
            measuring_ns: Some(2),
            duration_ns: Some(60_000_000_000),
            ..RunStatus::starting("steady-20260101", "steady")
        }),
        streams: BTreeMap::from(streams),
        sources: BTreeMap::from([("view".to_owned(), Arc::new(Mutex::new(source)))]),
        processes: BTreeMap::from([("engine".to_owned(), Arc::new(Mutex::new(process)))]),
        machines: BTreeMap::new(),
        events: Arc::new(EventLog::default()),
        heartbeats: AtomicU64::new(0),
    }
}

impl Daemon {
    pub(super) fn start() -> Self {
        Self::with(&HttpSettings { listen: "127.0.0.1:0".parse().unwrap(), token_file: None })
    }

    pub(super) fn with(settings: &HttpSettings) -> Self {
        let control = Arc::new(Control::new(Arc::new(board())));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let shown = json!({ "http": { "listen": "somewhere" } });
        let listener = runtime.block_on(async { HttpListener::bind(settings) }).unwrap();
        let (addr, stop) = (listener.local_addr(), CancellationToken::new());
        let server =
            HttpServer::new(listener, Arc::clone(&control), shown, soakd::produce::profile::from_json);
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || runtime.block_on(server.run(stopped)));
        Self { addr, control, stop, thread: Some(thread) }
    }

    pub(super) fn board(&self) -> &Board {
        self.control.board()
    }

    pub(super) fn set_state(&self, state: RunState) {
        lock(&self.board().run).state = state;
    }

    pub(super) fn source(&self, change: impl FnOnce(&mut SourceStatus)) {
        change(&mut lock(&self.board().sources["view"]));
    }

    /// Stops the server and waits until it has ended.
    pub(super) fn stop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub(super) fn connect(&self) -> Client {
        Client::new(self.addr)
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.connect().ask("GET", path, &[], "")
    }

    pub(super) fn put(&self, path: &str, body: &str) -> Answer {
        self.connect().ask("PUT", path, &[("Content-Type", "application/json")], body)
    }

    pub(super) fn post(&self, path: &str) -> Answer {
        self.connect().ask("POST", path, &[], "")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Client {
    pub(super) fn new(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream), host: addr.to_string() }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.stream.get_ref().peer_addr().unwrap()
    }

    pub(super) fn close_writing(&self) {
        self.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Sends a request and reads its answer; Host is right unless it is given.
    pub(super) fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {}\r\n", self.host));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.send(format!("{head}\r\n{body}").as_bytes());
        self.read(method == "HEAD")
    }

    /// Reads one answer.
    pub(super) fn read(&mut self, without_body: bool) -> Answer {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not an answer: {line:?}"));
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; if without_body { 0 } else { length }];
        self.stream.read_exact(&mut body).unwrap();
        Answer { status, headers, body: String::from_utf8(body).unwrap() }
    }

    /// Waits until the other side has closed; whether it did so cleanly does not matter.
    pub(super) fn wait_for_close(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "not closed: {error}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Answer {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(super) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Asserts that this is a problem of this status, and returns it.
    #[track_caller]
    pub(super) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status);
        for text in ["type", "title", "detail"] {
            assert!(problem[text].as_str().is_some_and(|text| !text.is_empty()), "{text}: {problem}");
        }
        problem
    }
}
