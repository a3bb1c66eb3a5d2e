//! The profile of a stream over HTTP.

use serde_json::{Value, json};
use soakd::core::event::Event;
use soakd::core::lock::lock;

use super::daemon::{Daemon, MAX_RATE};

const PATH: &str = "/api/v1/streams/main/profile";

#[test]
fn a_profile_is_taken_and_shown_with_its_position() {
    let daemon = Daemon::start();
    let none = daemon.get(PATH).ok();
    assert_eq!((&none["profile"], &none["position_seconds"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&none["records_per_second"], &none["max_records_per_second"]),
        (&json!(300.0), &json!(MAX_RATE))
    );
    let body = json!({ "profile": [{ "ramp_to": 900, "over": "1h" }, { "rate": 5, "for": "1h" }],
        "profile_repeat": "forever" });
    let answer = daemon.put(PATH, &body.to_string()).ok();
    assert_eq!((&answer["profile"], &answer["profile_repeat"]), (&body["profile"], &body["profile_repeat"]));
    assert_eq!(
        (&answer["segment"], &answer["cycle"], &answer["length_seconds"]),
        (&json!(0), &json!(0), &Value::Null)
    );
    // A first ramp begins where the load was.
    let rate = answer["records_per_second"].as_f64().unwrap();
    assert!((300.0..310.0).contains(&rate), "{rate}");
    assert!(matches!(&daemon.board().events.drain()[..], [stamped]
        if matches!(&stamped.event, Event::ProfileStarted { stream, .. } if stream == "main")));
    let later = daemon.get(PATH).ok();
    assert!(later["position_seconds"].as_f64() >= answer["position_seconds"].as_f64(), "{later}");
    assert_eq!(
        daemon.put("/api/v1/streams/main/rate", "{\"records_per_second\": 7}").ok()["records_per_second"],
        7.0
    );
    assert_eq!(daemon.get(PATH).ok()["profile"], Value::Null, "a rate takes the place of a profile");
}

#[test]
fn max_is_a_word_of_its_own_and_makes_the_total_max() {
    let daemon = Daemon::start();
    let answer = daemon.put("/api/v1/streams/side/rate", "{\"records_per_second\": \"max\"}").ok();
    assert_eq!(
        (&answer["records_per_second"], &answer["target_records_per_second"]),
        (&json!("max"), &json!("max"))
    );
    assert_eq!(daemon.get("/api/v1/rate").ok()["records_per_second"], "max");
    let status = daemon.get("/api/v1/status").ok();
    assert_eq!(status["totals"]["set_records_per_second"], "max");
    assert_eq!(status["streams"]["side"]["target_records_per_second"], "max");
    let metrics = daemon.get("/metrics").body;
    assert!(metrics.contains("soakd_target_records_per_second{stream=\"main\"} 300\n"), "{metrics}");
    assert!(!metrics.contains("soakd_target_records_per_second{stream=\"side\"}"), "{metrics}");
    // Without rates to go by, shares are those of the settings.
    let rates = daemon.put("/api/v1/rate", "{\"records_per_second\": 800}").ok();
    assert_eq!(rates["streams"]["main"]["records_per_second"], 600.0);
    let all = daemon.put("/api/v1/rate", "{\"records_per_second\": \"max\"}").ok();
    assert_eq!(all["streams"]["main"]["records_per_second"], "max");
    assert_eq!(daemon.post("/api/v1/pause").ok()["target_records_per_second"], 0.0);
    for word in ["\"MAX!\"", "\"min\""] {
        let problem = daemon.put("/api/v1/rate", &format!("{{\"records_per_second\": {word}}}")).problem(422);
        assert!(problem["detail"].as_str().unwrap().contains("a number or \"max\""), "{problem}");
    }
}

#[test]
fn a_profile_that_cannot_be_is_422_with_the_field_and_changes_nothing() {
    let daemon = Daemon::start();
    for (body, field) in [
        (json!({}), "profile"),
        (json!({ "profile": [] }), "profile"),
        (json!({ "profile": 5 }), "profile"),
        (json!({ "profile": [{ "rate": 1 }], "repeat": 2 }), "repeat"),
        (json!({ "profile": [{ "rate": 1, "for": "1s" }], "profile_repeat": 0 }), "profile_repeat"),
        (json!({ "profile": [{ "rate": -1 }] }), "profile[0].rate"),
        (json!({ "profile": [{ "rate": 10_001 }] }), "profile[0].rate"),
        (json!({ "profile": [{ "rate": 1, "for": "1s" }, { "ramp_to": 1 }] }), "profile[1].over"),
        (json!({ "profile": [{ "rate": 1, "for": 5 }] }), "profile[0].for"),
        (json!({ "profile": [{ "rat": 1 }] }), "profile[0].rat"),
        (json!({ "profile": [null] }), "profile[0]"),
        (json!({ "profile": [{ "burst": 5 }] }), "profile[0].burst"),
        (
            json!({ "profile": [{ "sine": { "mean": 1, "amplitude": 2, "period": "1s" } }] }),
            "profile[0].sine.amplitude",
        ),
    ] {
        let problem = daemon.put(PATH, &body.to_string()).problem(422);
        assert_eq!(problem["field"], field, "{body}: {problem}");
        assert!(!problem["detail"].as_str().unwrap().contains("struct"), "{problem}");
    }
    daemon.put(PATH, "{").problem(400);
    daemon.put("/api/v1/streams/mian/profile", "{\"profile\": [{\"rate\": 1}]}").problem(404);
    daemon.get("/api/v1/streams/mian/profile").problem(404);
    let rate = lock(&daemon.board().streams["main"].schedule).pace(0).per_second();
    assert_eq!(rate, Some(300.0));
}
