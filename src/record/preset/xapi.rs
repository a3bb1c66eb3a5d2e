//! `xapi`: statements of the Experience API (version 1.0.3) as Open edX's event-routing-backends makes them of tracking
//! events, keyed by the actor, so that each learner's statements stay in order.

use super::super::Facts;
use super::super::format::{Format, MakeError};
use super::super::hash::{Random, below};
use super::super::settings::PresetValueSettings;
use super::super::text::{UUID_BYTES, facts_object, fixed, instant, number, padded, uuid, words};
use super::campus::{Campus, Kind, Visit};
use super::tracking::longest;

const HOME: &str = "https://lms.example.com";
const ADL: &str = "http://adlnet.gov/expapi/verbs/";
const VIDEO: &str = "https://w3id.org/xapi/video/";
const TINCAN: &str = "http://id.tincanapi.com/";
const ACROSSX: &str = "https://w3id.org/xapi/acrossx/";

/// Statements.
#[derive(Debug, Clone)]
pub(super) struct Xapi {
    campus: Campus,
}

impl Xapi {
    pub(super) fn new(seed: u64, settings: &PresetValueSettings) -> Self {
        Self { campus: Campus::new(seed, settings.cardinality) }
    }
}

impl Format for Xapi {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        let visit = self.campus.visit(facts);
        let actor = if facts.marker { marker_actor(facts.key_id) } else { visit.actor_random() };
        write(visit, actor, facts, value);
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        longest(&self.campus, |visit, facts, out| write(visit, visit.actor_random(), facts, out))
    }

    fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let actor = self.campus.actor(sequence);
        uuid(&mut self.campus.actor_random(actor), key);
        Some(actor)
    }

    fn marker_key(&self, number: u64, key: &mut Vec<u8>) {
        uuid(&mut marker_actor(number), key);
    }

    fn max_key_bytes(&self) -> usize {
        UUID_BYTES
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}

fn text(out: &mut Vec<u8>, texts: &[&str]) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}

/// The verb of a kind of event: the beginning of its id, and its name, which is also the rest of the id.
const fn verb(kind: Kind) -> (&'static str, &'static str) {
    const VIDEO_VERBS: &str = "https://w3id.org/xapi/video/verbs/";
    const TINCAN_VERBS: &str = "http://id.tincanapi.com/verb/";
    const ACROSSX_VERBS: &str = "https://w3id.org/xapi/acrossx/verbs/";
    match kind {
        Kind::LoadVideo => (ADL, "initialized"),
        Kind::PlayVideo => (VIDEO_VERBS, "played"),
        Kind::PauseVideo => (VIDEO_VERBS, "paused"),
        Kind::SeekVideo => (VIDEO_VERBS, "seeked"),
        Kind::StopVideo => (ADL, "terminated"),
        Kind::SpeedChange | Kind::Hint => (ADL, "interacted"),
        Kind::ProblemCheck => (ACROSSX_VERBS, "evaluated"),
        Kind::ProblemSubmitted => (ADL, "attempted"),
        Kind::ShowAnswer => (ADL, "asked"),
        Kind::Next | Kind::Previous | Kind::Tab => ("https://w3id.org/xapi/dod-isd/verbs/", "navigated"),
        Kind::LinkClicked | Kind::Outline => (ADL, "experienced"),
        Kind::ThreadViewed => (TINCAN_VERBS, "viewed"),
        Kind::ThreadCreated => (ACROSSX_VERBS, "posted"),
        Kind::Enrolled => (ADL, "registered"),
        Kind::Unenrolled => (TINCAN_VERBS, "unregistered"),
    }
}

/// A marker's statements are those of an actor of its own: its key is an actor's, too.
const fn marker_actor(number: u64) -> Random {
    Random::of(0x006d_6172_6b65_7273, number)
}

fn write(mut visit: Visit, mut actor: Random, facts: &Facts, out: &mut Vec<u8>) {
    text(out, &["{\"id\":\""]);
    uuid(&mut visit.random, out);
    text(
        out,
        &["\",\"actor\":{\"objectType\":\"Agent\",\"account\":{\"homePage\":\"", HOME, "\",\"name\":\""],
    );
    uuid(&mut actor, out);
    let (base, name) = verb(visit.kind);
    text(
        out,
        &["\"}},\"verb\":{\"id\":\"", base, name, "\",\"display\":{\"en\":\"", name, "\"}},\"object\":{"],
    );
    let visit = &mut visit;
    object_and_result(visit, out);
    text(out, &[",\"context\":{\"contextActivities\":{\"parent\":[{\"id\":\""]);
    course(visit, out);
    text(out, &["\",\"objectType\":\"Activity\",\"definition\":{\"name\":{\"en-US\":\"Course "]);
    number(visit.course + 1, out);
    text(out, &["\"},\"type\":\"http://adlnet.gov/expapi/activities/course\"}}]},\"extensions\":{"]);
    text(
        out,
        &[
            "\"https://w3id.org/xapi/openedx/extension/transformer-version\":\"event-routing-backends@9.0.0\",",
        ],
    );
    text(out, &["\"https://w3id.org/xapi/openedx/extensions/session-id\":\""]);
    visit.session(out);
    // The keys of extensions are IRIs.
    text(out, &["\",\"urn:soakd:facts\":"]);
    facts_object(facts, out);
    text(out, &["}},\"timestamp\":\""]);
    instant(facts.intended_ms, b"000+00:00", out);
    text(out, &["\",\"version\":\"1.0.3\"}"]);
}

fn course(visit: &Visit, out: &mut Vec<u8>) {
    text(out, &[HOME, "/course/"]);
    visit.course_id(out);
}

fn block(visit: &Visit, kind: &str, id: &[u8; 32], out: &mut Vec<u8>) {
    text(out, &["\"id\":\"", HOME, "/xblock/"]);
    visit.usage_key(kind, id, out);
    text(out, &["\",\"objectType\":\"Activity\",\"definition\":{"]);
}

/// The object from behind its brace, and the result where there is one.
fn object_and_result(visit: &mut Visit, out: &mut Vec<u8>) {
    match visit.kind {
        Kind::LoadVideo
        | Kind::PlayVideo
        | Kind::PauseVideo
        | Kind::SeekVideo
        | Kind::StopVideo
        | Kind::SpeedChange => video(visit, out),
        Kind::ProblemCheck | Kind::ProblemSubmitted => graded(visit, out),
        Kind::ShowAnswer | Kind::Hint => {
            let problem = visit.problem();
            block(visit, "problem", &problem.id, out);
            text(out, &["\"type\":\"http://adlnet.gov/expapi/activities/question\"}}"]);
        }
        Kind::Next | Kind::Previous | Kind::Tab => {
            let sequential = visit.sequential();
            block(visit, "sequential", &sequential.id, out);
            text(out, &["\"type\":\"", TINCAN, "activitytype/resource\",\"extensions\":{\"", ACROSSX]);
            text(out, &["extensions/total-items\":"]);
            number(2 + below(visit.random.next(), 8), out);
            text(out, &["}}}"]);
        }
        Kind::LinkClicked | Kind::Outline => {
            let sequential = visit.sequential();
            block(visit, "sequential", &sequential.id, out);
            text(out, &["\"type\":\"http://adlnet.gov/expapi/activities/link\"}}"]);
        }
        Kind::ThreadViewed | Kind::ThreadCreated => {
            let mut thread = visit.thread();
            text(out, &["\"id\":\"", HOME, "/api/discussion/v1/threads/"]);
            out.extend_from_slice(thread.id.get(..24).unwrap_or(&thread.id));
            text(out, &["\",\"objectType\":\"Activity\",\"definition\":{\"name\":{\"en\":\""]);
            words(5, &mut thread.random, out);
            text(out, &["\"},\"type\":\"", TINCAN, "activitytype/discussion\"}}"]);
        }
        Kind::Enrolled | Kind::Unenrolled => {
            text(out, &["\"id\":\""]);
            course(visit, out);
            text(out, &["\",\"objectType\":\"Activity\",\"definition\":{"]);
            text(out, &["\"type\":\"http://adlnet.gov/expapi/activities/course\"}}"]);
        }
    }
}

fn video(visit: &mut Visit, out: &mut Vec<u8>) {
    let video = visit.video();
    let duration = video.duration();
    block(visit, "video", &video.id, out);
    text(out, &["\"type\":\"", VIDEO, "activity-type/video\"}}"]);
    let at = |visit: &mut Visit, name: &str, out: &mut Vec<u8>| {
        let ms = below(visit.random.next(), duration * 1000);
        text(out, &["\"", VIDEO, "extensions/", name, "\":"]);
        number(ms / 1000, out);
        out.push(b'.');
        padded(ms % 1000, 3, out);
    };
    match visit.kind {
        Kind::LoadVideo => return,
        Kind::SeekVideo => {
            text(out, &[",\"result\":{\"extensions\":{"]);
            at(visit, "time-from", out);
            out.push(b',');
            at(visit, "time-to", out);
        }
        Kind::SpeedChange => {
            text(
                out,
                &[
                    ",\"result\":{\"extensions\":{\"https://w3id.org/xapi/openedx/extension/speed-from\":\"1.0x\",",
                ],
            );
            text(out, &["\"https://w3id.org/xapi/openedx/extension/speed-to\":\"1.25x\""]);
        }
        _ => {
            text(out, &[",\"result\":{\"extensions\":{"]);
            at(visit, "time", out);
        }
    }
    text(out, &["}}"]);
}

fn graded(visit: &mut Visit, out: &mut Vec<u8>) {
    let problem = visit.problem();
    let points = problem.points();
    let choice = below(visit.random.next(), 3);
    let success = choice == problem.right_choice();
    block(visit, "problem", &problem.id, out);
    text(
        out,
        &[
            "\"type\":\"http://adlnet.gov/expapi/activities/cmi.interaction\",\"interactionType\":\"choice\"}}",
        ],
    );
    text(out, &[",\"result\":{\"score\":{\"scaled\":"]);
    fixed(i64::from(success), 0, out);
    text(out, &[",\"raw\":"]);
    number(if success { points } else { 0 }, out);
    text(out, &[",\"min\":0,\"max\":"]);
    number(points, out);
    text(out, &["},\"success\":", if success { "true" } else { "false" }, ",\"response\":\"choice_"]);
    number(choice, out);
    text(out, &["\"}"]);
}
