//! `/api/v1/streams/{name}/profile`: the planned course of a stream's rate.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::Value;

use super::body::Fields;
use super::problem::Problem;
use super::rate::find;
use super::{App, Segment, Shared};
use crate::core::lock::lock;
use crate::core::pace::Pace;
use crate::core::profile::Profile;
use crate::core::rate::Rate;
use crate::core::schedule::Position;
use crate::core::stream::Stream;

/// Makes a profile of what stands in a body under `profile` and `profile_repeat`. Given: the pace before, where a first ramp
/// begins, and the highest rate. What is wrong comes with its field.
pub type ReadProfile = fn(&Value, Option<&Value>, Pace, Rate) -> Result<Profile, crate::config::Problem>;

/// The fields of a change, as in a settings file.
const PROFILE: &str = "profile";
const REPEAT: &str = "profile_repeat";

/// The profile that a stream follows.
#[derive(Debug, Serialize)]
struct ProfileBody {
    /// Null when a rate is set instead.
    profile: Value,
    profile_repeat: Value,
    /// On the profile's clock, which stands still while the whole load is paused; null before it begins.
    position_seconds: Option<f64>,
    /// How often it was gone through before.
    cycle: Option<u64>,
    /// Index of the segment, each step counted; the number of segments after the end.
    segment: Option<usize>,
    /// Length of all times together; null for one without end.
    length_seconds: Option<f64>,
    /// The rate of this moment, whether paused or not.
    records_per_second: Pace,
    /// What the schedule follows now: 0 while paused, before the start and after the end.
    target_records_per_second: Pace,
    max_records_per_second: f64,
    paused: bool,
}

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/api/v1/streams/{name}/profile", get(one).put(set))
}

async fn one(State(app): State<Shared>, Segment(name): Segment) -> Result<Json<ProfileBody>, Problem> {
    Ok(Json(body(find(&app, &name)?)))
}

async fn set(
    State(app): State<Shared>,
    Segment(name): Segment,
    fields: Fields,
) -> Result<Json<ProfileBody>, Problem> {
    let stream = find(&app, &name)?;
    app.control.set_profile(&name, asked(&app, stream, fields)?)?;
    Ok(Json(body(stream)))
}

fn asked(app: &App, stream: &Stream, fields: Fields) -> Result<Profile, Problem> {
    let fields = fields.only(&[PROFILE, REPEAT])?;
    let Some(profile) = fields.get(PROFILE) else {
        let detail = "the field profile is missing: {\"profile\": [{\"rate\": 1000, \"for\": \"10m\"}]}";
        return Err(Problem::unprocessable(detail).field(PROFILE));
    };
    // A first ramp begins where the load is.
    let before = lock(&stream.schedule).pace(stream.clock.now_ns());
    (app.read_profile)(profile, fields.get(REPEAT), before, stream.max_rate).map_err(|problem| {
        let field = problem.key.clone();
        Problem::unprocessable(problem.to_string()).field(field)
    })
}

fn body(stream: &Stream) -> ProfileBody {
    let mut schedule = lock(&stream.schedule);
    let now_ns = stream.clock.now_ns();
    let position = schedule.position(now_ns);
    let target = schedule.target_now(now_ns);
    let (pace, paused) = (schedule.pace(now_ns), schedule.is_paused());
    drop(schedule);
    let shown = |name: &str| {
        let shown = position.as_ref().and_then(|position| position.profile.shown().get(name));
        shown.cloned().unwrap_or_default()
    };
    let piece = position.as_ref().and_then(|Position { profile, at_ns }| Some(profile.piece((*at_ns)?)));
    let length_ns =
        position.as_ref().map(|position| position.profile.length_ns()).filter(|ns| *ns < u64::MAX);
    ProfileBody {
        profile: shown(PROFILE),
        profile_repeat: shown(REPEAT),
        position_seconds: position.as_ref().and_then(|position| position.at_ns).map(seconds),
        cycle: piece.map(|piece| piece.cycle),
        segment: piece.map(|piece| piece.segment),
        length_seconds: length_ns.map(seconds),
        records_per_second: pace,
        target_records_per_second: target,
        max_records_per_second: stream.max_rate.per_second(),
        paused,
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
