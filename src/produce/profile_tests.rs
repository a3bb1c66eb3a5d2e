//! Profiles from their settings: what they come to, and what is refused.
#![allow(clippy::float_cmp)] // numbers that are exact

use super::*;
use crate::core::rate::RECORD;

const SECOND: u64 = 1_000_000_000;

#[derive(Deserialize)]
struct Given {
    profile: Vec<ProfileEntry>,
    #[serde(default)]
    profile_repeat: RepeatSetting,
}

fn made(text: &str) -> Result<Profile, String> {
    let given: Given = toml::from_str(text).map_err(|error| error.to_string())?;
    let profile = compile(&given.profile, given.profile_repeat, Pace::default(), RateSetting(1000.0), "s");
    profile.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn records(profile: &Profile, seconds: u64) -> f64 {
    profile.accrued(seconds * SECOND) as f64 / RECORD as f64
}

#[test]
fn each_part_has_its_integral() {
    for (part, seconds, total) in [
        ("{ rate = 100, for = \"10s\" }", 10, 1000.0),
        ("{ ramp_to = 100, over = \"10s\" }", 10, 500.0),
        ("{ sine = { mean = 100, amplitude = 50, period = \"5s\" }, for = \"10s\" }", 10, 1000.0),
        (
            "{ burst = { rate = 100, for = \"1s\", idle_rate = 10, every = \"5s\" }, for = \"10s\" }",
            10,
            280.0,
        ),
        ("{ burst = { rate = 100, for = \"1s\", every = \"5s\" } }", 10, 200.0),
        ("{ steps = { from = 10, to = 35, by = 10, each = \"1s\" } }", 4, 95.0),
        ("{ steps = { from = 30, to = 10, by = 10, each = \"1s\" } }", 3, 60.0),
        (
            "{ rate = 5, for = \"1s\" }, { ramp_to = 15, over = \"2s\" }, { ramp_to = 0, over = \"2s\" }",
            5,
            40.0,
        ),
        ("{ rate = \"max\", for = \"1s\" }, { rate = 7 }", 3, 14.0),
    ] {
        let profile = made(&format!("profile = [{part}]")).unwrap();
        assert_eq!(records(&profile, seconds), total, "{part}");
    }
    let sine = "sine = { mean = 100, amplitude = 50, period = \"4s\", phase = 0.25 }, for = \"4s\"";
    let sine = made(&format!("profile = [{{ {sine} }}]")).unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|at| sine.pace(at * SECOND).per_second().unwrap()),
        [150.0, 100.0, 50.0, 100.0]
    );
    let saw = made("profile = [{ ramp_to = 100, over = \"1s\" }]\nprofile_repeat = \"forever\"").unwrap();
    assert_eq!((records(&saw, 10), saw.length_ns()), (500.0, u64::MAX));
}

#[test]
fn mistakes_name_field_value_and_remedy() {
    for (text, says) in [
        ("profile = []", "s.profile: is empty"),
        ("profile = [{}]", "s.profile[0]: has 0 of rate"),
        ("profile = [{ rate = 1, ramp_to = 2 }]", "s.profile[0]: has 2 of rate"),
        ("profile = [{ rate = 1 }, { rate = 2 }]", "s.profile[0].for: is missing"),
        ("profile = [{ rate = 1 }]\nprofile_repeat = 2", "s.profile[0].for: is missing"),
        ("profile = [{ rate = 1, over = \"1s\" }]", "s.profile[0].over: 1s belongs to ramp_to; write for"),
        ("profile = [{ ramp_to = 1, for = \"1s\", over = \"1s\" }]", "s.profile[0].for: 1s does not belong"),
        ("profile = [{ ramp_to = 1 }]", "s.profile[0].over: is missing"),
        ("profile = [{ rate = 1, for = \"1ms\" }]", "s.profile[0].for: 1ms is too short; use 10ms or more"),
        ("profile = [{ rate = 1, for = \"4000days\" }]", "is too long; use at most 3650 days"),
        ("profile = [{ rate = 1001, for = \"1s\" }]", "s.profile[0].rate: 1001 is above max_rate = 1000"),
        ("profile = [{ ramp_to = 2000, over = \"1s\" }]", "s.profile[0].ramp_to: 2000 is above max_rate"),
        (
            "profile = [{ steps = { from = 1, to = 9999, by = 5000, each = \"1s\" } }]",
            ".steps.to: 9999 is above",
        ),
        (
            "profile = [{ steps = { from = 1, to = 9, by = 0, each = \"1s\" } }]",
            ".steps.by: 0 is no distance",
        ),
        (
            "profile = [{ steps = { from = 0, to = 999, by = 0.1, each = \"1s\" } }]",
            "are too many; use at most 1000",
        ),
        ("profile = [{ sine = { mean = 5, amplitude = 6, period = \"1s\" } }]", "6 is above mean = 5"),
        (
            "profile = [{ sine = { mean = 900, amplitude = 200, period = \"1s\" } }]",
            "900 + 200, is above max_rate",
        ),
        (
            "profile = [{ sine = { mean = 9, amplitude = 2, period = \"1s\", phase = 90 } }]",
            "90 is no part of a period",
        ),
        ("profile = [{ sine = { mean = 9, amplitude = 2, period = \"90days\" } }]", "use at most 31 days"),
        (
            "profile = [{ burst = { rate = 9, for = \"2s\", every = \"1s\" } }]",
            "1s is shorter than the burst",
        ),
        ("profile = [{ rate = \"max\", for = \"1s\" }, { ramp_to = 5, over = \"1s\" }]", "after \"max\""),
        ("profile = [{ rate = 1 }]\nprofile_repeat = 0", "\"forever\""),
        ("profile = [{ rat = 1 }]", "unknown field"),
    ] {
        let error = made(text).unwrap_err();
        assert!(error.contains(says), "{text}: {says} is not in {error}");
    }
}

#[test]
fn json_is_read_alike_and_mistakes_have_their_path() {
    let given = serde_json::json!([{ "rate": "max", "for": "2s" }, { "rate": 5 }]);
    let (entries, repeat) = read(&given, None).unwrap();
    assert_eq!((entries.len(), repeat), (2, RepeatSetting::Times(1)));
    let profile = compile(&entries, repeat, Pace::default(), RateSetting(10.0), "").unwrap();
    assert_eq!(profile.shown()["profile"], given);
    for (given, at) in [
        (serde_json::json!([{ "rate": -1 }]), "profile[0].rate"),
        (serde_json::json!([{ "rate": 1 }, { "rate": 1, "for": 5 }]), "profile[1].for"),
        (serde_json::json!([{ "burst": { "rate": 1 } }]), "profile[0].burst"),
        (serde_json::json!(5), "profile"),
    ] {
        assert_eq!(read(&given, None).unwrap_err().key, at, "{given}");
    }
    assert_eq!(read(&given, Some(&serde_json::json!(0))).unwrap_err().key, "profile_repeat");
    let above = compile(
        &read(&serde_json::json!([{ "rate": 11 }]), None).unwrap().0,
        repeat,
        Pace::default(),
        RateSetting(10.0),
        "",
    );
    assert_eq!(above.unwrap_err()[0].key, "profile[0].rate");
}
