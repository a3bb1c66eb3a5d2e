//! Environment and `--set`: text that is parsed by the type of its setting.

use super::{BASE, file_at, load, refusal};
use crate::config::{Duration, Origin, PaceSetting, RateSetting};
use crate::progress::settings::{ProgressValue, SourceSettings, SqlSettings};
use crate::settings::Settings;

fn view(settings: &Settings) -> &SqlSettings {
    match &settings.progress["view"] {
        SourceSettings::Sql(sql) => sql,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nested_and_underscored_keys_are_reached_by_the_environment() {
    let env = [("SOAKD__STREAMS__MAIN__RATE", "250.5"), ("SOAKD__PROGRESS__VIEW__TIMEOUT", "4s")];
    let loaded = load(BASE, &env, &[]).unwrap();
    assert_eq!(loaded.settings.streams["main"].rate, Some(PaceSetting::Rate(RateSetting(250.5))));
    assert_eq!(view(&loaded.settings).timeout, Duration::from_secs(4));
    assert_eq!(loaded.origins["streams.main.rate"], Origin::Env("SOAKD__STREAMS__MAIN__RATE".into()));
    assert_eq!(loaded.origins["progress.view.timeout"].to_string(), "SOAKD__PROGRESS__VIEW__TIMEOUT");
    let deep = [("SOAKD__STREAMS__MAIN__OVERLOAD__MAX_CATCH_UP", "3")];
    assert!(
        load(BASE, &deep, &[])
            .unwrap()
            .to_toml()
            .contains("max_catch_up = 3.0  # SOAKD__STREAMS__MAIN__OVERLOAD")
    );
}

#[test]
fn a_misspelt_variable_is_an_error_and_a_single_underscore_a_warning() {
    assert_eq!(
        refusal(BASE, &[("SOAKD__PROGRESS__VIEW__TIMEOUTS", "1s")], &[]),
        "settings are not valid: SOAKD__PROGRESS__VIEW__TIMEOUTS: progress.view.timeouts: unknown key; did you mean \"timeout\"?"
    );
    let loaded =
        load(BASE, &[("SOAKD_RATE", "5"), ("PATH", "/bin"), ("soakd__run__name", "x")], &[]).unwrap();
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("SOAKD_RATE is ignored"));
    assert!(loaded.warnings[1].contains("soakd__run__name is ignored"));
    for (name, says) in [
        ("SOAKD__", "unknown key"),
        ("SOAKD__NOSUCH__KEY", "SOAKD__NOSUCH__KEY: nosuch: unknown key; known are http, kafka"),
        ("SOAKD__RUN__NAME__X", "run.name: is text in quotes; there is no key \"X\" below it"),
        ("SOAKD__KAFKA__CLIENT__", "a name is missing"),
        ("SOAKD__STREAMS__MAIN", "streams.main: is a table; set one key below it"),
    ] {
        let text = refusal(BASE, &[(name, "5")], &[]);
        assert!(text.contains(says), "{name}: {text}");
    }
}

#[test]
fn commas_separate_brokers_and_leave_sql_alone() {
    let sql = "select max(a), 1 from t";
    for (brokers, expected) in [
        ("a:1,b:2", vec!["a:1", "b:2"]),
        ("a:1", vec!["a:1"]),
        (" a:1 , b:2, ", vec!["a:1", "b:2"]),
        (r#"["a:1","b:2"]"#, vec!["a:1", "b:2"]),
    ] {
        let env = [("SOAKD__KAFKA__BROKERS", brokers), ("SOAKD__PROGRESS__VIEW__QUERY", sql)];
        let by_env = load(BASE, &env, &[]).unwrap().settings;
        let sets = [&format!("kafka.brokers={brokers}"), &format!("progress.view.query={sql}")];
        let by_set = load(BASE, &[], &sets.map(String::as_str)).unwrap().settings;
        assert_eq!(by_env.kafka.brokers, expected);
        assert_eq!(view(&by_env).query, sql);
        assert_eq!(by_env, by_set);
    }
    for (session, expected) in [
        ("SET a = '1', '2'", vec!["SET a = '1', '2'"]),
        (r#"["SET a = 1, 2", "SET b = 3"]"#, vec!["SET a = 1, 2", "SET b = 3"]),
        ("", vec![]),
    ] {
        let loaded = load(BASE, &[("SOAKD__PROGRESS__VIEW__SESSION", session)], &[]).unwrap();
        assert_eq!(view(&loaded.settings).session, expected);
    }
    let text = refusal(BASE, &[("SOAKD__KAFKA__BROKERS", "[a:1,")], &[]);
    assert!(text.contains("kafka.brokers: begins like a list but is no JSON array"), "{text}");
}

#[test]
fn text_stays_text_and_numbers_become_numbers() {
    let env = [
        ("SOAKD__RUN__NAME", "00123"),
        ("SOAKD__RUN__TAGS__BUILD", "007"),
        ("SOAKD__RUN__SEED", "1_000"),
        ("SOAKD__STREAMS__MAIN__CREATE", "false"),
        ("SOAKD__STREAMS__MAIN__RECORDS", ""),
    ];
    let settings = load(BASE, &env, &["run.tags.Variant=true", "run.duration=2h"]).unwrap().settings;
    assert_eq!(settings.run.name, "00123");
    assert_eq!(settings.run.tags["build"], "007");
    assert_eq!(settings.run.tags["Variant"], "true");
    assert_eq!(settings.run.seed, 1000);
    assert_eq!(settings.run.duration, Some(Duration::from_secs(7200)));
    assert!(!settings.streams["main"].create);
    assert_eq!(settings.streams["main"].records, None);
}

#[test]
fn dotted_client_keys_pass_through_every_layer() {
    let file = format!(
        "{BASE}\n[kafka.client]\n\"queue.buffering.max.messages\" = \"1000\"\n\"linger.ms\" = 5\n\"enable.idempotence\" = true\n"
    );
    let loaded = load(&file, &[], &[]).unwrap();
    let client: Vec<_> = loaded.settings.kafka.client.iter().collect();
    assert_eq!(
        client,
        [("enable.idempotence", "true"), ("linger.ms", "5"), ("queue.buffering.max.messages", "1000")]
    );
    let loaded = load(&file, &[("SOAKD__KAFKA__CLIENT__LINGER_MS", "20")], &[]).unwrap();
    assert_eq!(loaded.settings.kafka.client.get("linger.ms"), Some("20"));
    assert_eq!(loaded.settings.kafka.client.iter().count(), 3);
    assert_eq!(loaded.origins["kafka.client.\"linger.ms\""].to_string(), "SOAKD__KAFKA__CLIENT__LINGER_MS");
    assert_eq!(file_at(&loaded, "kafka.client.\"enable.idempotence\""), "soakd.toml");
    for set in ["kafka.client.\"linger.ms\"=30", "kafka.client.'linger.ms'=30", "kafka.client.linger.ms=30"] {
        let loaded = load(&file, &[("SOAKD__KAFKA__CLIENT__LINGER_MS", "20")], &[set]).unwrap();
        assert_eq!(loaded.settings.kafka.client.get("linger.ms"), Some("30"), "{set}");
        assert_eq!(loaded.origins["kafka.client.\"linger.ms\""], Origin::Set);
    }
    let set = ["streams.main.topic_config={ \"retention.ms\" = 5, \"cleanup.policy\" = \"delete\" }"];
    let loaded = load(&file, &[("SOAKD__KAFKA__CLIENT", r#"{"acks": 1}"#)], &set).unwrap();
    assert_eq!(loaded.settings.streams["main"].topic_config.get("retention.ms"), Some("5"));
    assert_eq!(loaded.settings.kafka.client.get("acks"), Some("1"));
    let unquoted = refusal(&format!("{BASE}\n[kafka.client]\nlinger.ms = 5"), &[], &[]);
    assert!(
        unquoted.contains("soakd.toml:17: kafka.client.linger: found a table; a name with dots needs quotes"),
        "{unquoted}"
    );
}

#[test]
fn names_are_matched_without_case_and_new_ones_are_lower_case() {
    let file = BASE.replace("main", "Main-2");
    let loaded = load(
        &file,
        &[("SOAKD__STREAMS__MAIN_2__RATE", "7"), ("SOAKD__STREAMS__NEW_ONE__RATE", "8")],
        &["streams.new_one.topic=new"],
    )
    .unwrap();
    assert_eq!(loaded.settings.streams["Main-2"].rate, Some(PaceSetting::Rate(RateSetting(7.0))));
    assert_eq!(loaded.settings.streams["new_one"].rate, Some(PaceSetting::Rate(RateSetting(8.0))));
    let twice = format!("{BASE}\n[streams.MAIN]\ntopic = \"a\"\n[streams.Main]\ntopic = \"b\"\n");
    let loaded = load(&twice, &[("SOAKD__STREAMS__MAIN__RATE", "7")], &[]).unwrap();
    assert_eq!(loaded.settings.streams["MAIN"].rate, Some(PaceSetting::Rate(RateSetting(7.0))));
    let text = refusal(&twice, &[("SOAKD__STREAMS__mAIN__RATE", "7")], &[]);
    assert!(text.contains("\"mAIN\" could be each of MAIN, Main, main; use --set"), "{text}");
    let both = [("SOAKD__STREAMS__MAIN__RATE", "7"), ("SOAKD__streams__main__RATE", "8")];
    let text = refusal(BASE, &both, &[]);
    assert!(
        text.contains(
            "SOAKD__streams__main__RATE: streams.main.rate: is set by SOAKD__STREAMS__MAIN__RATE too"
        ),
        "{text}"
    );
}

#[test]
fn set_comes_after_the_environment_and_the_last_set_wins() {
    let env = [("SOAKD__STREAMS__MAIN__RATE", "200")];
    let loaded = load(BASE, &env, &["streams.main.rate=300", "streams.main.rate=400"]).unwrap();
    assert_eq!(loaded.settings.streams["main"].rate, Some(PaceSetting::Rate(RateSetting(400.0))));
    assert_eq!(loaded.origins["streams.main.rate"], Origin::Set);
    assert_eq!(file_at(&loaded, "progress.view.query"), "soakd.toml");
    assert_eq!(loaded.origins["run.seed"], Origin::Default);
    assert_eq!(loaded.origins["streams.main.value.size"], Origin::Default);
}

#[test]
fn a_set_that_is_no_assignment_says_how_to_write_one() {
    for (set, says) in [
        ("run.name", "--set: \"run.name\" has no `=`; write key=value"),
        ("", "\"\" has no `=`"),
        ("=5", "\"\" is not a dotted key"),
        ("run..name=5", "\"run..name\" is not a dotted key"),
        ("run.name\nx=5", "is not a dotted key"),
        ("run.nam=5", "--set: run.nam: unknown key; did you mean \"name\"?"),
        ("streams.main.rate=fast", "--set: streams.main.rate: \"fast\" is not a number of records a second"),
        ("streams.main.rate=fast", "or \"max\""),
        ("streams.main.max_rate=max", "\"max\" is not a number of records a second"),
        ("streams.main.profile_repeat=0", "\"0\" is no number of times"),
        ("streams.main.partitions=4.5", "streams.main.partitions: found \"4.5\", expected a whole number"),
        ("streams.main.partitions=-1", "-1 is out of range, expected 0 to 4294967295"),
        ("streams.main.create=yes", "found \"yes\", expected true or false"),
        ("run.duration=5", "run.duration: 5 has no unit"),
        ("run.after_run=idl", "found the text \"idl\"; did you mean \"idle\"?"),
        ("run.tags=x", "run.tags: is a table"),
    ] {
        let text = refusal(BASE, &[], &[set]);
        assert!(text.contains(says), "{set}: {text}");
    }
    // What stands behind the first `=` is the value, with all its signs.
    let loaded = load(BASE, &[], &["progress.view.query=SELECT a = 'x=y'", "run.tags.\"a=b\"=c=d"]).unwrap();
    assert_eq!(view(&loaded.settings).query, "SELECT a = 'x=y'");
    assert_eq!(loaded.settings.run.tags["a=b"], "c=d");
}

#[test]
fn secrets_are_in_no_text() {
    let file =
        format!("{BASE}\n[kafka.client]\n\"sasl.password\" = \"hunter2\"\n\"ssl.key.pem\" = \"hunter2\"\n");
    let env = [("SOAKD__KAFKA__CLIENT__SASL_JAAS_CONFIG", "hunter2")];
    let loaded = load(&file, &env, &[]).unwrap();
    assert_eq!(view(&loaded.settings).url.expose(), "postgres://soakd:hunter2@sut:6875/db");
    assert_eq!(loaded.settings.kafka.client.get("sasl.password"), Some("hunter2"));
    for text in [loaded.to_toml(), format!("{loaded:?}"), serde_json::to_string(&loaded.settings).unwrap()] {
        assert!(text.contains("redacted") && !text.contains("hunter2"), "{text}");
    }
    for (set, file) in [
        ("progress.view.url=mysql://u:hunter2@h/db", BASE),
        ("progress.view.url=postgres://u:hunter2@h:port/db", BASE),
        ("progress.view.url=postgres://u:hunter2@h/db?sslmode=perhaps", BASE),
        ("progress.view.password=hunter2", BASE),
        ("progress.view.kind=consumer_group", BASE),
        ("kafka.client={\"sasl.password\": \"hunter2\"", BASE),
        ("progress.view.url:hunter2", BASE),
        ("run.name=x", "progress.view.url = [\"hunter2\"]"),
        ("run.name=x", "kafka.client.\"sasl.password\" = [\"hunter2\"]"),
        ("run.name=x", "kafka.client.\"sasl.password\" = \"hunter2"),
        ("run.name=x", "kafka.client.\"sasl.password\" = hunter2"),
    ] {
        let text = refusal(file, &[], &[set]);
        assert!(!text.contains("hunter2"), "{set} {file}: {text}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    /// Whatever the text, the answer is settings or a sentence.
    #[test]
    fn no_text_makes_the_loader_fall_over(
        key in r#"(run|streams|kafka|progress|SOAKD|[a-z"'.=\[\]{}#_\n\u{0}é]){0,4}([.]|__)[a-z"'.={}\[\]_#\n]{0,8}"#,
        value in r#"[\[{"'0-9a-z=,:.\n\u{0}é-]{0,12}"#,
    ) {
        let name = format!("SOAKD__{}", key.to_ascii_uppercase());
        let _ = load(BASE, &[(&name, &value)], &[&format!("{key}={value}"), &value]);
        let _ = load(&format!("{key} = {value}"), &[], &[]).map_err(|errors| errors.to_string());
    }
}

#[test]
fn a_preset_holds_where_no_layer_has_set_anything_and_shows_as_origin() {
    let toml = "[streams.main]\n[progress.view]\nstream = \"main\"\npreset = \"postgres\"\nobject = \"public.events\"\n\
                url = \"postgres://u@h/db\"\ninterval = \"9s\"\n";
    let loaded = load(toml, &[("SOAKD__PROGRESS__VIEW__TIMEOUT", "3s")], &[]).unwrap();
    let SourceSettings::Sql(sql) = &loaded.settings.progress["view"] else { panic!("of another kind") };
    assert!(sql.query.contains(" FROM public.events "), "{}", sql.query);
    assert_eq!((sql.interval, sql.timeout), (Duration::from_secs(9), Duration::from_secs(3)));
    assert_eq!(sql.value, ProgressValue::Sequence);
    assert!(!sql.session.is_empty());
    for (key, origin) in [
        ("query", "preset postgres"),
        ("value", "preset postgres"),
        ("session", "preset postgres"),
        ("timeout", "SOAKD__PROGRESS__VIEW__TIMEOUT"),
        ("interval", "soakd.toml"),
        ("tolerance", "default"),
    ] {
        assert_eq!(file_at(&loaded, &format!("progress.view.{key}")), origin, "{key}");
    }
    assert!(loaded.to_toml().contains("value = \"sequence\"  # preset postgres\n"), "{}", loaded.to_toml());
    // Named by a later layer, and a source that it makes whole.
    let bare = "[streams.main]\n[progress.view]\nstream = \"main\"\nurl = \"postgres://u@h/db\"\n";
    assert!(load(bare, &[], &["progress.view.preset=postgres", "progress.view.object=t"]).is_ok());
    let text = refusal(toml, &[], &["progress.view.preset=postgre"]);
    assert_eq!(
        text,
        "settings are not valid: --set: progress.view.preset: unknown preset \"postgre\"; did you mean \"postgres\"?"
    );
    let text = refusal(bare, &[], &["progress.view.preset=postgres"]);
    assert!(text.contains("progress.view.object: is missing: preset \"postgres\" asks about it"), "{text}");
}
