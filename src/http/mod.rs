//! The HTTP interface: shows snapshots and hands changes to [`Control`]. Handlers never wait for anything but the
//! request itself.
//!
//! One file a resource: each has `routes()`, and `router` below is where it is registered. What all of them share
//! is in `edge` (Host, Origin, token, body limit, and every refusal as problem details).

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;
use serde_json::Value;

use crate::core::control::Control;
use crate::core::status::Board;
use crate::metrics::Renderer;
use achieved::Achieved;
use edge::Guard;
use problem::Problem;

mod achieved;
mod agent;
mod body;
mod edge;
mod health;
mod index;
mod origin;
mod pause;
mod problem;
mod profile;
mod rate;
mod runs;
mod scrape;
mod server;
pub mod settings;
mod status;

pub use agent::AgentServer;
pub use profile::ReadProfile;
pub use server::{HttpError, HttpListener, HttpServer};

/// What the handlers share.
#[derive(Debug)]
struct App {
    control: Arc<Control>,
    metrics: Renderer,
    achieved: Achieved,
    /// Effective settings with origins, shown as they are.
    settings: Value,
    read_profile: ReadProfile,
}

impl App {
    fn board(&self) -> &Board {
        self.control.board()
    }
}

type Shared = Arc<App>;

/// All resources behind the edge.
fn router(app: Shared, guard: Guard) -> Router {
    let resources = Router::new()
        .merge(index::routes())
        .merge(scrape::routes())
        .merge(health::routes())
        .merge(status::routes())
        .merge(rate::routes())
        .merge(profile::routes())
        .merge(pause::routes())
        .merge(runs::routes())
        .fallback(nothing_here)
        .with_state(app);
    behind_the_edge(resources, guard)
}

fn behind_the_edge(resources: Router, guard: Guard) -> Router {
    // A layer on `resources` itself would sit inside the routes and not see the Allow header of a 405.
    let edge = axum::middleware::from_fn_with_state(Arc::new(guard), edge::guard);
    Router::new().fallback_service(resources).layer(edge)
}

/// The one variable part of a path, decoded: a name of a stream or the id of a run.
#[derive(Debug)]
struct Segment(String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(rejection) => Err(Problem::new(rejection.status(), rejection.body_text())),
        }
    }
}

async fn nothing_here(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}: GET / lists what there is", uri.path()))
}
