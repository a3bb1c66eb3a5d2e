use std::net::TcpListener;
use std::time::{Duration, Instant};

use soakd::http::settings::HttpSettings;
use soakd::http::{HttpError, HttpListener};

use super::daemon::{Client, Daemon, PATIENCE};
use crate::children::while_none_starts;

fn bind(settings: &HttpSettings) -> Result<HttpListener, HttpError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { HttpListener::bind(settings) })
}

fn on(listen: &str) -> HttpSettings {
    HttpSettings { listen: listen.parse().unwrap(), token_file: None }
}

#[test]
fn h6_a_port_in_use_is_one_line_that_names_it() {
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = occupied.local_addr().unwrap();
    let error = bind(&on(&addr.to_string())).unwrap_err().to_string();
    assert!(error.contains(&format!("port {}", addr.port())) && !error.contains('\n'), "{error}");
}

#[test]
fn h6_a_restart_binds_at_once_although_connections_were_open() {
    let mut daemon = Daemon::start();
    let addr = daemon.addr;
    let mut clients: Vec<Client> = (0..4).map(|_| daemon.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("GET", "/livez", &[], "").status, 200);
    }
    // The server closes first, so that its side of the connections lingers, as after a kill.
    daemon.stop();
    let again = while_none_starts(|| Daemon::with(&on(&addr.to_string())));
    assert_eq!(again.get("/livez").status, 200);
}

#[test]
fn beyond_loopback_a_token_is_needed_and_the_error_says_how_to_set_one() {
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9640"] {
        let error = bind(&on(listen)).unwrap_err();
        assert!(matches!(error, HttpError::NoToken(_)), "{error}");
        assert!(error.to_string().contains("http.token_file"), "{error}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut settings = on("0.0.0.0:0");
    settings.token_file = Some(file.path().to_owned());
    let empty = bind(&settings).unwrap_err().to_string();
    assert!(empty.contains("http.token_file") && empty.contains("empty"), "{empty}");
    std::fs::write(file.path(), "secret\n").unwrap();
    bind(&settings).unwrap();
}

#[test]
fn an_address_that_is_not_ours_is_an_error_with_the_address() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret\n").unwrap();
    let mut settings = on("192.0.2.1:9640");
    settings.token_file = Some(file.path().to_owned());
    let error = bind(&settings).unwrap_err();
    assert!(matches!(error, HttpError::Listen { .. }), "{error}");
    assert!(error.to_string().contains("192.0.2.1:9640"), "{error}");
}

#[test]
fn half_open_clients_do_not_hold_the_stop() {
    let mut daemon = Daemon::start();
    let mut idle = daemon.connect();
    idle.ask("GET", "/livez", &[], "").ok();
    let mut half_head = daemon.connect();
    half_head.send(b"GET /livez HTT");
    let mut half_body = daemon.connect();
    half_body.send(b"PUT /api/v1/rate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
    let silent = daemon.connect();
    // A client that asks for much and reads nothing of it.
    let mut deaf = daemon.connect();
    deaf.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(500).as_bytes());
    daemon.get("/livez").ok();
    let begin = Instant::now();
    daemon.stop();
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    for mut client in [idle, half_head, half_body, silent, deaf] {
        client.wait_for_close();
    }
}

#[test]
fn a_request_under_way_is_answered_during_the_stop() {
    let mut daemon = Daemon::start();
    let mut client = daemon.connect();
    let body = "{\"records_per_second\": 40}";
    let head = format!(
        "PUT /api/v1/rate HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes());
    assert_eq!(client.read(true).status, 100, "the handler is at work");
    let stopping = std::thread::spawn(move || {
        daemon.stop();
        daemon
    });
    // The listener is closed first: from then on the stop is under way.
    let begin = Instant::now();
    let addr = client.addr();
    while std::net::TcpStream::connect(addr).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "still listening");
        std::thread::sleep(Duration::from_millis(1));
    }
    client.send(body.as_bytes());
    client.read(false).ok();
    client.wait_for_close();
    stopping.join().unwrap();
}

#[test]
fn a_client_that_closed_its_side_still_gets_its_answer() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.send(b"GET /livez HTTP/1.0\r\n\r\n");
    client.close_writing();
    client.read(false).ok();
}

#[test]
fn a_crowd_is_served_without_anybody_being_cut() {
    let daemon = Daemon::start();
    let mut crowd: Vec<Client> = (0..200).map(|_| daemon.connect()).collect();
    for client in &mut crowd {
        client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for client in &mut crowd {
        client.read(false).ok();
    }
}

#[test]
fn clients_that_hold_connections_open_keep_nobody_out() {
    let daemon = Daemon::start();
    let mut held: Vec<Client> = (0..300).map(|_| daemon.connect()).collect();
    for client in &mut held {
        client.send(b"GET /livez HTT");
    }
    for _ in 0..3 {
        assert_eq!(daemon.get("/livez").status, 200);
    }
}
