//! `soakd config`: what is printed loads again as the same settings.

use proptest::prelude::*;

use super::{BASE, Files, load, pairs};
use crate::config::{Duration, PaceSetting, Properties, RateSetting, RepeatSetting, SecretUrl};
use crate::kafka::settings::KafkaSettings;
use crate::process::settings::{LocalProcessSettings, ProcessSettings};
use crate::produce::profile::{BurstSetting, ProfileEntry, SineSetting, StepsSetting};
use crate::produce::settings::{ArrivalSetting, OverloadPolicy, OverloadSettings, StreamSettings};
use crate::progress::settings::{
    ConsumerGroupSettings, OnReset, ProgressValue, SourceSettings, SqlSettings, TlsMode,
};
use crate::record::settings::{
    HeaderSettings, JsonValueSettings, KeyFormat, KeyKind, KeySettings, MarkerSettings, RandomValueSettings,
    SizeSetting, ValueSettings, WeightedSize,
};
use crate::run::settings::{AfterRun, RunSettings};
use crate::settings::Settings;

#[test]
fn every_value_is_printed_with_its_origin() {
    let text = load(BASE, &[("SOAKD__RUN__SEED", "7")], &["kafka.client.linger.ms=5"]).unwrap().to_toml();
    for line in [
        "[run]\nafter_run = \"exit\"  # default\n",
        "\nduration = \"\"  # default (not set)\n",
        "\nseed = 7  # SOAKD__RUN__SEED\n",
        "\n[run.tags]\n",
        "\n[kafka.client]\n\"linger.ms\" = \"5\"  # --set\n",
        "\nurl = \"postgres://soakd:[redacted]@sut:6875/db\"  # /",
        "/soakd.toml\n",
        "\nbrokers = [\"localhost:9092\"]  # default\n",
        "\nmax_rate = 500000  # default\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z\"'\\\\#\n\r\t\u{0}-\u{1f}\u{7f}=,.é€😀 ]{1,12}",
        Just("00123".to_owned()),
        Just("true".to_owned())
    ]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..1u64 << 40).prop_map(Duration::from_millis),
        (0..1u64 << 60).prop_map(|nanos| std::time::Duration::from_nanos(nanos).into())
    ]
}

fn rate() -> impl Strategy<Value = RateSetting> {
    prop_oneof![(0u32..).prop_map(|rate| RateSetting(rate.into())), (0.0..1e18).prop_map(RateSetting)]
}

fn number() -> impl Strategy<Value = u64> {
    0..=i64::MAX as u64
}

fn maybe<T: Clone + std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(value)
}

fn properties() -> impl Strategy<Value = Properties> {
    proptest::collection::btree_map("[a-z.]{1,9}x", text(), 0..3).prop_map(Properties::from_iter)
}

fn tags() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    proptest::collection::btree_map(text(), text(), 0..3)
}

prop_compose! {
    fn run_settings()(
        name in text(), duration in maybe(duration()), warmup in duration(), drain_timeout in duration(),
        flush_timeout in duration(), seed in number(), idle in any::<bool>(), tags in tags(),
    ) -> RunSettings {
        let after_run = if idle { AfterRun::Idle } else { AfterRun::Exit };
        RunSettings { name, duration, warmup, drain_timeout, flush_timeout, seed, after_run, tags }
    }
}

fn size() -> impl Strategy<Value = SizeSetting> {
    let bytes = || any::<u32>();
    prop_oneof![
        bytes().prop_map(SizeSetting::Fixed),
        (bytes(), bytes()).prop_map(|(min, max)| SizeSetting::Uniform { min, max }),
        (0.0..1e9, 0.0..1e9, maybe(bytes()), maybe(bytes()))
            .prop_map(|(mean, sigma, min, max)| SizeSetting::Normal { mean, sigma, min, max }),
        proptest::collection::vec((bytes(), 0.0..1e9), 0..3).prop_map(|sizes| {
            SizeSetting::Weighted(
                sizes.into_iter().map(|(size, weight)| WeightedSize { size, weight }).collect(),
            )
        }),
    ]
}

fn repeat() -> impl Strategy<Value = RepeatSetting> {
    prop_oneof![Just(RepeatSetting::Forever), (1..=i64::MAX as u64).prop_map(RepeatSetting::Times)]
}

fn profile() -> impl Strategy<Value = Vec<ProfileEntry>> {
    let entry = (rate(), duration(), 0..5, 0.0..1.0).prop_map(|(rate, span, kind, phase)| {
        let (lasts, rate) = (Some(span), rate);
        let fresh = ProfileEntry::default();
        match kind {
            0 => ProfileEntry { rate: Some(PaceSetting::Rate(rate)), lasts, ..fresh },
            1 => ProfileEntry { ramp_to: Some(rate), over: Some(span), ..fresh },
            2 => {
                let sine = SineSetting { mean: rate, amplitude: rate, period: span, phase };
                ProfileEntry { sine: Some(sine), lasts, ..fresh }
            }
            3 => {
                let burst = BurstSetting { rate, lasts: span, idle_rate: rate, every: span };
                ProfileEntry { burst: Some(burst), ..fresh }
            }
            _ => {
                let steps = StepsSetting { from: rate, to: rate, by: rate, each: span };
                ProfileEntry { steps: Some(steps), ..fresh }
            }
        }
    });
    proptest::collection::vec(entry, 0..4)
}

prop_compose! {
    fn stream()(
        topic in text(), topic_config in properties(), (rate, max_rate) in (rate(), rate()), records in maybe(number()),
        overload in (any::<f64>().prop_filter("finite", |number| number.is_finite()), duration()), max_in_flight in maybe(number()),
        partitions in any::<u32>(), seed_name in maybe(text()), cardinality in number(), size in any::<u32>(),
        json in any::<bool>(), create in any::<bool>(), of_value in size(), share in 0.0..1.0, shuffled in maybe(any::<bool>()),
        interval in maybe(duration()), custom in tags(), (profile, profile_repeat) in (profile(), repeat()),
    ) -> StreamSettings {
        let value = if json {
            ValueSettings::Json(JsonValueSettings { size, connect_schema: create, tombstones: share })
        } else {
            ValueSettings::Random(RandomValueSettings { size: of_value, compressibility: share, tombstones: share })
        };
        let policy = if json { OverloadPolicy::Wait } else { OverloadPolicy::Skip };
        StreamSettings {
            topic, create, produce: !create, partitions, replication_factor: 3, topic_config, max_rate, records, max_in_flight, lanes: size,
            seed_name, value, overload: OverloadSettings { policy, max_catch_up: overload.0, max_debt: overload.1 },
            key: KeySettings {
                kind: KeyKind::Hotspot, cardinality, size, format: KeyFormat::Padded, exponent: share, hot_keys: share,
                hot_traffic: share, shuffled,
            },
            rate: if create { Some(PaceSetting::Max) } else { json.then_some(PaceSetting::Rate(rate)) }, profile, profile_repeat,
            arrivals: if json { ArrivalSetting::Poisson } else { ArrivalSetting::Even }, preload: cardinality,
            headers: HeaderSettings { run: json, sequence: create, custom }, marker: MarkerSettings { interval },
        }
    }
}

prop_compose! {
    fn source()(
        sql in any::<bool>(), stream in text(), query in text(), interval in duration(), timeout in duration(),
        tolerance in number(), session in proptest::collection::vec(text(), 0..3), file in maybe(text()),
    ) -> SourceSettings {
        if sql {
            let file = file.map(Into::into);
            SourceSettings::Sql(SqlSettings {
                stream, url: SecretUrl::new("postgres://u@h/db"), password_file: file.clone(), query, value: ProgressValue::Sequence,
                interval, timeout, tolerance, session, on_reset: OnReset::Rebase, tls: TlsMode::VerifyFull, tls_ca_file: file,
                preset: None, object: None,
            })
        } else {
            SourceSettings::ConsumerGroup(ConsumerGroupSettings {
                stream, group: query, interval, timeout, tolerance, on_reset: OnReset::True,
            })
        }
    }
}

prop_compose! {
    fn settings()(
        run in run_settings(), brokers in proptest::collection::vec(text(), 0..3), client in properties(),
        streams in proptest::collection::btree_map(text(), stream(), 0..3),
        progress in proptest::collection::btree_map(text(), source(), 0..3),
        process in (maybe(any::<u32>()), maybe(text()), any::<bool>(), duration()), name in text(),
    ) -> Settings {
        let (pid, process_name, tree, interval) = process;
        let process = LocalProcessSettings {
            pid, pid_file: process_name.clone().map(Into::into), name: process_name, tree, interval,
            ..LocalProcessSettings::default()
        };
        Settings {
            run, kafka: KafkaSettings { brokers, client }, streams, progress,
            processes: [(name, ProcessSettings::Local(process))].into(), ..Settings::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn printed_settings_load_again_as_the_same(settings in settings()) {
        let files = Files::new();
        let toml = files.write("a.toml", toml::to_string(&settings).unwrap());
        let first = Settings::layers(&[toml], pairs(&[]), &[]).unwrap();
        prop_assert_eq!(&first.settings, &settings);
        let toml = files.write("b.toml", first.to_toml());
        let again = Settings::layers(&[toml], pairs(&[]), &[]).unwrap();
        prop_assert_eq!(&again.settings, &settings);
    }
}
