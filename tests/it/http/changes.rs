use serde_json::{Value, json};
use soakd::core::event::Event;
use soakd::core::lock::lock;
use soakd::core::status::RunState;

use super::daemon::{Daemon, MAX_RATE};

fn set_rates(daemon: &Daemon) -> Vec<f64> {
    daemon
        .board()
        .streams
        .values()
        .map(|stream| lock(&stream.schedule).pace(0).per_second().unwrap())
        .collect()
}

fn paused(daemon: &Daemon) -> Vec<bool> {
    daemon.board().streams.values().map(|stream| lock(&stream.schedule).is_paused()).collect()
}

#[test]
fn the_total_rate_keeps_the_shares_and_says_what_each_stream_got() {
    let daemon = Daemon::start();
    assert_eq!(daemon.get("/api/v1/rate").ok()["records_per_second"], 400.0);
    let rates = daemon.put("/api/v1/rate", "{\"records_per_second\": 800}").ok();
    assert_eq!(rates["records_per_second"], 800.0);
    assert_eq!(rates["streams"]["main"]["records_per_second"], 600.0);
    assert_eq!(rates["streams"]["side"]["records_per_second"], 200.0);
    assert_eq!(set_rates(&daemon), [600.0, 200.0]);
    assert_eq!(daemon.get("/api/v1/rate").ok(), rates);
    let events = daemon.board().events.drain();
    assert!(matches!(&events[0].event, Event::RateChanged { stream, .. } if stream == "main"), "{events:?}");
    assert_eq!(events.len(), 2);
    assert!(daemon.get("/metrics").body.contains("soakd_events_total{kind=\"rate_changed\"} 2\n"));
}

#[test]
fn one_stream_has_its_own_rate() {
    let daemon = Daemon::start();
    let path = "/api/v1/streams/side/rate";
    let wanted = json!({ "records_per_second": 0.5, "target_records_per_second": 0.5,
        "max_records_per_second": MAX_RATE, "paused": false });
    assert_eq!(daemon.put(path, "{\"records_per_second\": 0.5}").ok(), wanted);
    assert_eq!(daemon.get(path).ok(), wanted);
    assert_eq!(set_rates(&daemon), [300.0, 0.5]);
}

#[test]
fn a_rate_that_cannot_be_is_422_with_the_field_and_changes_nothing() {
    let daemon = Daemon::start();
    for (body, field) in [
        ("{\"records_per_second\": -1}", "records_per_second"),
        ("{\"records_per_second\": 1e10}", "records_per_second"),
        ("{\"records_per_second\": 1e-9}", "records_per_second"),
        ("{\"records_per_second\": 50000}", "records_per_second"),
        ("{\"records_per_second\": \"400\"}", "records_per_second"),
        ("{\"records_per_second\": null}", "records_per_second"),
        ("{\"records_per_second\": [1]}", "records_per_second"),
        ("{}", "records_per_second"),
        ("{\"records_per_second\": 1, \"rate\": 2}", "rate"),
        ("{\"rate\": 2}", "rate"),
    ] {
        for path in ["/api/v1/rate", "/api/v1/streams/main/rate"] {
            let problem = daemon.put(path, body).problem(422);
            assert_eq!(problem["field"], field, "{body}: {problem}");
        }
    }
    for body in ["[]", "5", "null", "\"x\"", "{\"records_per_second\": 1, \"records_per_second\": 2}"] {
        daemon.put("/api/v1/rate", body).problem(422);
    }
    let above = daemon.put("/api/v1/streams/main/rate", "{\"records_per_second\": 10001}").problem(422);
    assert!(above["detail"].as_str().unwrap().contains("max_rate 10000"), "{above}");
    assert_eq!(set_rates(&daemon), [300.0, 100.0]);
}

#[test]
fn what_is_not_json_is_400_and_another_type_is_415() {
    let daemon = Daemon::start();
    let open = "[".repeat(40_000);
    let deep = format!("{{\"records_per_second\": {}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    for body in
        [&open, &deep, "{", "{\"records_per_second\": 1e400}", "{\"records_per_second\": NaN}", "x", "{} {}"]
    {
        daemon.put("/api/v1/rate", body).problem(400);
    }
    let body = "{\"records_per_second\": 1}";
    let mut client = daemon.connect();
    client.send(
        b"PUT /api/v1/rate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
          Content-Length: 4\r\n\r\n",
    );
    client.send(b"\"\xff\xfe\"");
    client.read(false).problem(400);
    for headers in [
        vec![],
        vec![("Content-Type", "text/plain")],
        vec![("Content-Type", "application/x-www-form-urlencoded")],
        vec![("Content-Type", "application/jsonp")],
    ] {
        client.ask("PUT", "/api/v1/rate", &headers, body).problem(415);
        client.ask("POST", "/api/v1/pause", &headers, "{\"a\": 1}").problem(415);
    }
    assert_eq!(set_rates(&daemon), [300.0, 100.0]);
    let json = [("Content-Type", "Application/JSON; charset=utf-8")];
    assert_eq!(client.ask("PUT", "/api/v1/rate", &json, body).status, 200);
}

#[test]
fn h3_pause_holds_all_streams_and_resume_starts_all_of_them() {
    let daemon = Daemon::start();
    for _ in 0..2 {
        let rates = daemon.post("/api/v1/pause").ok();
        assert_eq!(rates["target_records_per_second"], 0.0);
        assert_eq!(rates["records_per_second"], 400.0);
        assert_eq!(paused(&daemon), [true, true]);
    }
    let status = daemon.get("/api/v1/status").ok();
    for name in ["main", "side"] {
        assert_eq!(status["streams"][name]["paused"], true);
        assert_eq!(status["streams"][name]["target_records_per_second"], 0.0);
    }
    for _ in 0..2 {
        assert_eq!(daemon.post("/api/v1/resume").ok()["target_records_per_second"], 400.0);
        assert_eq!(paused(&daemon), [false, false]);
    }
    let kinds: Vec<&str> = daemon.board().events.drain().iter().map(|event| event.event.kind()).collect();
    assert_eq!(kinds, ["paused", "resumed"], "a second time is no event");
}

#[test]
fn one_stream_is_paused_alone() {
    let daemon = Daemon::start();
    let json = [("Content-Type", "application/json")];
    let side = daemon.connect().ask("POST", "/api/v1/streams/side/pause", &json, "{}").ok();
    assert_eq!((&side["paused"], &side["target_records_per_second"]), (&json!(true), &json!(0.0)));
    assert_eq!(paused(&daemon), [false, true]);
    assert_eq!(daemon.post("/api/v1/streams/side/resume").ok()["paused"], false);
    let problem = daemon.connect().ask("POST", "/api/v1/pause", &json, "{\"for\": 1}").problem(422);
    assert_eq!(problem["field"], "for");
}

#[test]
fn h5_quick_pauses_and_resumes_from_four_clients_end_running() {
    let daemon = Daemon::start();
    let all_equal = |state: Vec<bool>| state.iter().all(|paused| *paused == state[0]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = daemon.connect();
                for _ in 0..100 {
                    for action in ["/api/v1/pause", "/api/v1/resume"] {
                        client.ask("POST", action, &[], "").ok();
                    }
                }
            });
        }
    });
    assert!(all_equal(paused(&daemon)));
    assert_eq!(daemon.post("/api/v1/resume").ok()["target_records_per_second"], 400.0);
    assert_eq!(set_rates(&daemon), [300.0, 100.0]);
}

#[test]
fn a_stop_is_accepted_once_and_harmless_twice() {
    let daemon = Daemon::start();
    daemon.post("/api/v1/runs/another/stop").problem(404);
    assert_eq!(daemon.control.stop_requested(), None);
    for id in ["current", "steady-20260101"] {
        let answer = daemon.post(&format!("/api/v1/runs/{id}/stop"));
        assert_eq!(answer.status, 202);
        assert_eq!(answer.json()["stop_requested"], "http");
    }
    assert_eq!(daemon.control.stop_requested(), Some("http".to_owned()));
}

#[test]
fn after_the_load_has_ended_changes_are_409() {
    let daemon = Daemon::start();
    daemon.set_state(RunState::Finished);
    let rate = "{\"records_per_second\": 1}";
    daemon.put("/api/v1/rate", rate).problem(409);
    daemon.put("/api/v1/streams/main/rate", rate).problem(409);
    for path in ["/api/v1/pause", "/api/v1/resume", "/api/v1/streams/main/pause"] {
        let problem = daemon.post(path).problem(409);
        assert!(problem["detail"].as_str().unwrap().contains("finished"), "{problem}");
    }
    assert_eq!(daemon.get("/api/v1/rate").status, 200);
}

#[test]
fn an_unknown_stream_is_404_and_the_known_ones_are_named() {
    let daemon = Daemon::start();
    let rate = "{\"records_per_second\": 1}";
    let answers = [
        daemon.get("/api/v1/streams/mian/rate"),
        daemon.put("/api/v1/streams/mian/rate", rate),
        daemon.post("/api/v1/streams/mian/pause"),
        daemon.post("/api/v1/streams/mian/resume"),
    ];
    for answer in answers {
        let problem: Value = answer.problem(404);
        assert!(problem["detail"].as_str().unwrap().contains("main, side"), "{problem}");
    }
}
