//! Presets of kind `sql` against real servers, filled in as the settings do it.

use serde_json::{Value, json};
use soakd::core::lag::Progress;
use soakd::progress::preset;
use soakd::progress::settings::SourceSettings;

use super::{STREAM, ask, parts};
use crate::postgres::Postgres;

/// A source as it is with its preset filled in.
fn filled(preset: &str, object: &str, url: &str) -> SourceSettings {
    let mut source = json!({ "stream": STREAM, "preset": preset, "object": object, "url": url });
    let fillings = preset::fill(&json!({ "progress": { "view": source } })).unwrap();
    for filling in fillings {
        let Value::Object(values) = filling.values else { panic!("no table") };
        source.as_object_mut().unwrap().extend(values);
    }
    serde_json::from_value(source).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_shows_the_highest_sequence_by_partition_and_cannot_write() {
    let pg = Postgres::start(&[]);
    let source = filled("postgres", "events", pg.url());
    let missing = ask(4, &source).await.unwrap_err();
    assert!(missing.text.contains("relation \"events\" does not exist"), "{missing}");
    pg.psql("create table events(partition int, sequence bigint, id bigint)");
    assert_eq!(ask(4, &source).await, Ok(Progress::NoData("no rows".to_owned())));
    pg.psql("insert into events values (0, 4, 1), (0, 8, 1), (2, 6, 2)");
    assert_eq!(ask(4, &source).await, Ok(parts(&[(0, Some(8)), (2, Some(6))])));
    // Whatever stands in the place of the table, the session only reads.
    let evil = filled("postgres", "(select nextval('s') as partition, 1 as sequence) t", pg.url());
    pg.psql("create sequence s");
    let refused = ask(4, &evil).await.unwrap_err();
    assert!(refused.text.contains("read-only transaction"), "{refused}");
}
