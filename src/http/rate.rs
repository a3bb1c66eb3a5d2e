//! `/api/v1/rate` and `/api/v1/streams/{name}/rate`.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::body::Fields;
use super::problem::Problem;
use super::{App, Segment, Shared};
use crate::core::control::ControlError;
use crate::core::lock::lock;
use crate::core::pace::{MAX, Pace};
use crate::core::rate::Rate;
use crate::core::stream::Stream;

/// The one field of a change.
const FIELD: &str = "records_per_second";

/// The rate of one stream.
#[derive(Debug, Serialize)]
pub(super) struct StreamRate {
    /// As set, whether paused or not; "max" is a closed loop. Of a profile the rate of this moment.
    records_per_second: Pace,
    /// What the schedule follows now: 0 while paused, before the start and after the end.
    target_records_per_second: Pace,
    /// The highest rate that may be set.
    max_records_per_second: f64,
    paused: bool,
}

/// The rates of all streams.
#[derive(Debug, Serialize)]
pub(super) struct Rates {
    /// Total of the rates that are set; "max" when a stream is.
    records_per_second: Pace,
    target_records_per_second: Pace,
    streams: BTreeMap<String, StreamRate>,
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/v1/rate", get(total).put(set_total))
        .route("/api/v1/streams/{name}/rate", get(one).put(set_one))
}

async fn total(State(app): State<Shared>) -> Json<Rates> {
    Json(rates(&app))
}

async fn set_total(State(app): State<Shared>, fields: Fields) -> Result<Json<Rates>, Problem> {
    app.control.set_total_rate(asked(fields)?)?;
    Ok(Json(rates(&app)))
}

async fn one(State(app): State<Shared>, Segment(name): Segment) -> Result<Json<StreamRate>, Problem> {
    stream_rate(&app, &name).map(Json)
}

async fn set_one(
    State(app): State<Shared>,
    Segment(name): Segment,
    fields: Fields,
) -> Result<Json<StreamRate>, Problem> {
    app.control.set_rate(&name, asked(fields)?)?;
    stream_rate(&app, &name).map(Json)
}

/// The rate that a body asks for.
fn asked(fields: Fields) -> Result<Pace, Problem> {
    let fields = fields.only(&[FIELD])?;
    if fields.get(FIELD).is_some_and(|value| value == MAX) {
        return Ok(Pace::Max);
    }
    let number = fields.number_or(FIELD, MAX)?;
    let rate = Rate::from_per_second(number);
    rate.map(Pace::Steady).map_err(|error| Problem::unprocessable(error.to_string()).field(FIELD))
}

/// What every stream is set to now.
pub(super) fn rates(app: &App) -> Rates {
    let streams = app.board().streams.iter();
    let streams: BTreeMap<String, StreamRate> =
        streams.map(|(name, stream)| (name.clone(), read(stream))).collect();
    // Added up in millionths, so that the total is exactly what was asked for.
    Rates {
        records_per_second: Pace::total(streams.values().map(|stream| stream.records_per_second)),
        target_records_per_second: Pace::total(
            streams.values().map(|stream| stream.target_records_per_second),
        ),
        streams,
    }
}

/// What one stream is set to now.
pub(super) fn stream_rate(app: &App, name: &str) -> Result<StreamRate, Problem> {
    find(app, name).map(read)
}

/// The stream of a path.
pub(super) fn find<'a>(app: &'a App, name: &str) -> Result<&'a Stream, Problem> {
    let streams = &app.board().streams;
    let stream = streams.get(name).ok_or_else(|| ControlError::UnknownStream {
        name: name.to_owned(),
        known: streams.keys().cloned().collect::<Vec<_>>().join(", "),
    })?;
    Ok(stream)
}

fn read(stream: &Stream) -> StreamRate {
    let mut schedule = lock(&stream.schedule);
    let now_ns = stream.clock.now_ns();
    StreamRate {
        records_per_second: schedule.pace(now_ns),
        target_records_per_second: schedule.target_now(now_ns),
        max_records_per_second: stream.max_rate.per_second(),
        paused: schedule.is_paused(),
    }
}
