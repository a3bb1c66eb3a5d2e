use std::io::Write as _;

use soakd::http::settings::HttpSettings;

use super::daemon::Daemon;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const RATE: &str = "{\"records_per_second\": 400}";

#[test]
fn unknown_paths_are_404() {
    let daemon = Daemon::start();
    for path in
        ["/nothing", "/api/v1", "/api/v1/rate/", "/api/v2/rate", "/%zz", "//", "/api/v1/streams//rate"]
    {
        daemon.get(path).problem(404);
    }
}

#[test]
fn wrong_methods_are_405_and_say_what_is_allowed() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for (method, path, allow) in [
        ("DELETE", "/api/v1/rate", "GET,HEAD,PUT"),
        ("POST", "/metrics", "GET,HEAD"),
        ("PUT", "/api/v1/pause", "POST"),
        ("BREW", "/api/v1/streams/main/rate", "GET,HEAD,PUT"),
        ("GET", "/api/v1/runs/current/stop", "POST"),
    ] {
        let answer = client.ask(method, path, &[JSON], RATE);
        answer.problem(405);
        assert_eq!(answer.headers["allow"], allow, "{method} {path}");
    }
    let options = client.ask("OPTIONS", "/api/v1/rate", &[], "");
    assert_eq!((options.status, options.headers["allow"].as_str()), (204, "GET,HEAD,PUT"));
    assert!(!options.headers.keys().any(|name| name.starts_with("access-control")), "no other origin");
    client.ask("OPTIONS", "/nothing", &[], "").problem(404);
    client.ask("HEAD", "/api/v1/pause", &[], "");
    assert_eq!(client.ask("GET", "/livez", &[], "").status, 200, "the connection goes on");
}

#[test]
fn head_answers_as_get_without_a_body() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for path in ["/", "/metrics", "/livez", "/readyz", "/api/v1/status", "/api/v1/rate", "/api/v1/runs"] {
        let answer = client.ask("HEAD", path, &[], "");
        assert_eq!(answer.status, 200, "{path}");
        assert_ne!(answer.headers["content-length"], "0", "{path}");
    }
    assert_eq!(client.ask("HEAD", "/nothing", &[], "").status, 404);
    assert_eq!(client.ask("GET", "/livez", &[], "").status, 200);
}

#[test]
fn odd_paths_are_refused_without_closing_the_connection() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.ask("GET", "/api/v1/streams/%FF%FE/rate", &[], "").problem(400);
    client.ask("GET", "/api/v1/runs/%c3%28", &[], "").problem(400);
    client.ask("GET", "/api/v1/streams/%zz/rate", &[], "").problem(404);
    client.ask("GET", "/api/v1/streams/a%2Fb%00/rate", &[], "").problem(404);
    let long = "x".repeat(20_000);
    client.ask("GET", &format!("/{long}"), &[], "").problem(414);
    client.ask("GET", &format!("/metrics?{long}"), &[], "").problem(414);
    assert_eq!(client.ask("GET", "/livez", &[], "").status, 200);
}

#[test]
fn what_is_not_http_is_400_and_harms_nobody() {
    let daemon = Daemon::start();
    for garbage in [
        &b"\x16\x03\x01\x02\x00garbage\r\n\r\n"[..],
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"G\0T / HTTP/1.1\r\n\r\n",
    ] {
        let mut client = daemon.connect();
        client.send(garbage);
        assert_eq!(client.read(false).status, 400, "{garbage:?}");
        client.wait_for_close();
    }
    let mut many = daemon.connect();
    let headers: String = (0..300).map(|i| format!("X-{i}: y\r\n")).collect();
    many.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes());
    assert_eq!(many.read(false).status, 431);
    assert_eq!(daemon.get("/livez").status, 200);
}

#[test]
fn a_body_of_10_mib_is_413_and_the_connection_goes_on() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let body = "x".repeat(10 * 1024 * 1024);
    for path in ["/api/v1/rate", "/api/v1/pause", "/nothing"] {
        let method = if path == "/api/v1/rate" { "PUT" } else { "POST" };
        client.ask(method, path, &[JSON], &body).problem(413);
    }
    // Chunked, so that the length is not known beforehand.
    client.send(b"PUT /api/v1/rate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    client.send(format!("{chunk}{chunk}0\r\n\r\n").as_bytes());
    client.read(false).problem(413);
    let just_fits = format!("{{\"records_per_second\": 400{}}}", " ".repeat(64 * 1024 - 27));
    assert_eq!(just_fits.len(), 64 * 1024);
    client.ask("PUT", "/api/v1/rate", &[JSON], &just_fits).ok();
    client.ask("PUT", "/api/v1/rate", &[JSON], &format!("{just_fits} ")).problem(413);
}

#[test]
fn a_client_that_waits_for_permission_is_told_at_once() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let head = "PUT /api/v1/rate HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Type: application/json\r\nContent-Length: ";
    client.send(format!("{head}10485760\r\n\r\n").as_bytes());
    client.read(false).problem(413);
    let mut client = daemon.connect();
    client.send(format!("{head}{}\r\n\r\n", RATE.len()).as_bytes());
    assert_eq!(client.read(true).status, 100);
    client.send(RATE.as_bytes());
    client.read(false).ok();
}

#[test]
fn a_broken_body_is_400() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.send(b"PUT /api/v1/rate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    client.send(b"Transfer-Encoding: chunked\r\n\r\nnot a length\r\n");
    client.read(false).problem(400);
    client.wait_for_close();
}

#[test]
fn without_a_token_only_loopback_names_are_answered() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for host in ["localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:9640"] {
        assert_eq!(client.ask("GET", "/livez", &[("Host", host)], "").status, 200, "{host}");
    }
    for host in ["evil.example", "evil.example:9640", "127.0.0.1.evil.example", "192.168.0.7:9640"] {
        client.ask("GET", "/metrics", &[("Host", host)], "").problem(421);
        client.ask("PUT", "/api/v1/rate", &[("Host", host), JSON], RATE).problem(421);
    }
    client.ask("GET", "http://evil.example/livez", &[], "").problem(421);
    client.send(b"GET /livez HTTP/1.1\r\n\r\n");
    client.read(false).problem(400);
    client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n");
    client.read(false).problem(400);
    assert!(daemon.board().events.drain().is_empty());
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for origin in ["http://evil.example", "null", "http://localhost:1"] {
        client.ask("PUT", "/api/v1/rate", &[("Origin", origin), JSON], RATE).problem(403);
        client.ask("POST", "/api/v1/pause", &[("Origin", origin)], "").problem(403);
        assert_eq!(client.ask("GET", "/livez", &[("Origin", origin)], "").status, 200);
    }
    assert!(daemon.board().events.drain().is_empty());
    let own = format!("http://{}", daemon.addr);
    client.ask("POST", "/api/v1/pause", &[("Origin", &own)], "").ok();
}

#[test]
fn with_a_token_changes_need_it_and_any_host_will_do() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "a-long-secret").unwrap();
    let token_file = Some(file.path().to_owned());
    let daemon = Daemon::with(&HttpSettings { listen: "127.0.0.1:0".parse().unwrap(), token_file });
    let mut client = daemon.connect();
    let host = ("Host", "soak.example");
    assert_eq!(client.ask("GET", "/metrics", &[host], "").status, 200);
    let wrong = [
        vec![host, JSON],
        vec![host, JSON, ("Authorization", "Bearer a-long-secreT")],
        vec![host, JSON, ("Authorization", "Bearer a-long")],
        vec![host, JSON, ("Authorization", "Bearer ")],
        vec![host, JSON, ("Authorization", "Basic a-long-secret")],
        vec![host, JSON, ("Authorization", "a-long-secret")],
        vec![host, JSON, ("Authorization", "Bearer a-long-secret"), ("Authorization", "Bearer other")],
    ];
    for headers in wrong {
        let answer = client.ask("PUT", "/api/v1/rate", &headers, RATE);
        answer.problem(401);
        assert!(answer.headers["www-authenticate"].starts_with("Bearer"), "{answer:?}");
        assert!(!answer.body.contains("secret"), "{answer:?}");
        assert_eq!(client.ask("POST", "/api/v1/pause", &headers, "{}").status, 401);
    }
    assert!(daemon.board().events.drain().is_empty());
    let right = [host, JSON, ("Authorization", "bearer a-long-secret")];
    client.ask("PUT", "/api/v1/rate", &right, RATE).ok();
    let origin = [host, ("Authorization", "Bearer a-long-secret"), ("Origin", "http://evil.example")];
    client.ask("POST", "/api/v1/pause", &origin, "").problem(403);
    assert!(!daemon.get("/api/v1/status").body.contains("a-long-secret"));
}
