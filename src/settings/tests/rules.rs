//! Rules beyond types: within a part and between parts.

use super::{BASE, load, refusal};
use crate::progress::settings::OnReset;

#[test]
fn rules_of_the_parts_name_field_value_and_remedy() {
    for (set, says) in [
        ("run.name=a b", "run.name: \"a b\" is not a name"),
        ("run.duration=0s", "run.duration: 0s measures nothing"),
        ("run.flush_timeout=0s", "run.flush_timeout: must be longer than 0s"),
        ("kafka.brokers=", "kafka.brokers: is empty; name at least one broker"),
        ("kafka.brokers=[\"a:1,b:2\"]", "\"a:1,b:2\" is not a broker"),
        (
            "kafka.client.bootstrap.servers=a:1",
            "kafka.client.\"bootstrap.servers\": cannot be set: the brokers are set by kafka.brokers",
        ),
        ("kafka.client.partitioner=random", "kafka.client.partitioner: cannot be set: soakd computes"),
        ("kafka.client.transactional.id=x", "soakd produces without transactions"),
        ("kafka.client.dr_cb=x", "kafka.client.dr_cb: cannot be set"),
        ("streams.main.topic=a b", "streams.main.topic: \"a b\" is not a topic"),
        ("streams.main.partitions=0", "streams.main.partitions: 0 is no partition"),
        (
            "streams.main.partitions=100001",
            "streams.main.partitions: 100001 are too many; use at most 100000",
        ),
        (
            "streams.main.lanes=257 streams.main.partitions=300",
            "streams.main.lanes: 257 are too many; use at most 256",
        ),
        (
            "streams.main.rate=1e300 streams.main.max_rate=1e301",
            "streams.main.rate: 1e300 is not a rate: it must be 0 or between",
        ),
        ("streams.main.rate=1e-7", "streams.main.rate: 0.0000001 is not a rate"),
        ("streams.main.max_rate=1e10", "streams.main.max_rate: 10000000000 is not a rate"),
        ("streams.main.replication_factor=0", "streams.main.replication_factor: 0 is no copy"),
        (
            "streams.main.max_rate=50",
            "streams.main.rate: 100 is above max_rate = 50; lower it, or raise max_rate",
        ),
        (
            "streams.main.profile=[{\"rate\":5}]",
            "streams.main.rate: 100 stands beside a profile; take one of them out",
        ),
        ("streams.main.profile_repeat=forever", "streams.main.profile_repeat: repeats nothing"),
        ("streams.main.profile=[{\"rat\":5}]", "streams.main.profile[0].rat: unknown key"),
        ("streams.main.profile=[{\"rate\":5,\"for\":\"1s\"},{}]", "streams.main.profile[1]: has 0 of rate"),
        ("streams.main.arrivals=poison", "did you mean \"poisson\"?"),
        ("kafka.client.acks=0", "kafka.client.acks: 0 cannot be set"),
        ("streams.main.records=0", "streams.main.records: 0 sends nothing"),
        ("streams.main.max_in_flight=0", "streams.main.max_in_flight: 0 sends nothing"),
        ("streams.main.lanes=5", "streams.main.lanes: 5 is not between 1 and partitions = 4"),
        ("streams.main.lanes=0", "streams.main.lanes: 0 is not between"),
        ("streams.main.seed_name=a/b", "streams.main.seed_name: \"a/b\" is not a name"),
        ("streams.main.overload.max_catch_up=1", "max_catch_up: 1 catches up nothing; use a number above 1"),
        ("streams.main.overload.max_debt=0s", "max_debt: 0s drops every record"),
        ("streams.main.key.cardinality=0", "streams.main.key.cardinality: 0 leaves no key"),
        ("streams.main.key.size=0", "streams.main.key.size: 0 is not a size of a key"),
        ("streams.main.key.size=2", "2 bytes cannot hold 1000000 distinct keys"),
        (
            "streams.main.key.kind=random64 streams.main.key.size=7",
            "size: 7 bytes cannot hold every number of 64 bits; use 8",
        ),
        (
            "streams.main.key.kind=random64 streams.main.key.format=padded streams.main.key.size=19",
            "size: 19 digits cannot hold every number of 64 bits; use 20",
        ),
        (
            "streams.main.key.kind=unique streams.main.key.size=4",
            "size: 4 bytes cannot hold keys that never repeat; use 8, or kind = \"sequential\"",
        ),
        (
            "streams.main.key.kind=unique streams.main.key.size=1 streams.main.records=257",
            "size: 1 bytes cannot hold keys that never repeat",
        ),
        (
            "streams.main.key.kind=unique streams.main.key.size=1 streams.main.records=256 streams.main.preload=1",
            "size: 1 bytes cannot hold keys that never repeat",
        ),
        (
            "streams.main.key.format=padded streams.main.key.size=5",
            "size: 5 digits cannot hold 1000000 distinct keys; make the keys longer or cardinality smaller",
        ),
        (
            "streams.main.key.kind=zipf streams.main.key.exponent=-1",
            "key.exponent: -1 is not between 0 and 20",
        ),
        (
            "streams.main.key.kind=zipf streams.main.key.cardinality=9007199254740992 streams.main.key.size=8",
            "key.cardinality: 9007199254740992 is too many for zipf",
        ),
        ("streams.main.key.kind=hotspot streams.main.key.hot_keys=2", "key.hot_keys: 2 is not a share"),
        (
            "streams.main.key.kind=hotspot streams.main.key.hot_traffic=-0.1",
            "key.hot_traffic: -0.1 is not a share",
        ),
        (
            "streams.main.key.kind=uniform streams.main.key.shuffled=true",
            "key.shuffled: changes nothing where",
        ),
        ("streams.main.key.kind=value", "\"value\" needs values that have a key of their own"),
        (
            "streams.main.key.kind=none streams.main.value.tombstones=0.1",
            "streams.main.key.kind: none cannot go with tombstones, which delete keys",
        ),
        ("streams.main.value.tombstones=1.5", "value.tombstones: 1.5 is not a share; use 0 to 1"),
        ("streams.main.value.compressibility=50", "value.compressibility: 50 is not a share; use 0 to 1"),
        ("streams.main.value.size={min=9,max=8}", "value.size: min = 9 is above max = 8"),
        (
            "streams.main.value.size={mean=5}",
            "streams.main.value: size: a table needs min and max, or mean and sigma",
        ),
        (
            "streams.main.value.size={mean=-5,sigma=1}",
            "value.size: mean = -5, sigma = 1: use numbers of 0 or more",
        ),
        (
            "streams.main.value.size={mean=5,sigma=1,min=10}",
            "value.size: min = 10 is above the largest size, 9",
        ),
        ("streams.main.value.size={min=1,maxx=2}", "streams.main.value: size: unknown field"),
        (
            "streams.main.value.size=many",
            "streams.main.value.size: found \"many\", expected a number of bytes",
        ),
        (
            "streams.main.value={size=\"many\"}",
            "streams.main.value: size: \"…\" is no size; use a number of bytes, { min, max }",
        ),
        ("streams.main.value={size=1.5}", "streams.main.value: size: 1.5 is no size; use a number of bytes"),
        ("streams.main.value={size=[5]}", "streams.main.value: size: invalid type: integer `5`, expected {"),
        (
            "streams.main.value={kind=\"preset\",name=\"ycsb\",size=20000000}",
            "value.size: 20000000 is too large for each of 10 fields; use at most 10485760 bytes",
        ),
        ("streams.main.value.size=-1", "streams.main.value: size: -1 is negative"),
        ("streams.main.value.size=[]", "value.size: 0 sizes; list 1 to 1000"),
        ("streams.main.value.size=[{size=1,weight=0}]", "value.size: all weights are 0"),
        ("streams.main.value.size=[{size=1,weight=-1}]", "value.size: holds a weight that is negative"),
        ("streams.main.headers.custom.Soakd-x=1", "headers.custom.Soakd-x: begins with \"soakd-\""),
        (
            "streams.main.headers.custom={a=\"\",b=\"\",c=\"\",d=\"\",e=\"\",f=\"\",g=\"\",h=\"\",i=\"\",j=\"\",k=\"\",l=\"\",m=\"\",n=\"\",o=\"\",p=\"\",q=\"\"}",
            "headers.custom: 17 headers are too many; use at most 16",
        ),
        (
            "streams.main.marker.interval=0s",
            "streams.main.marker.interval: 0s leaves no time between markers",
        ),
        ("streams.main.value.size=200000000", "streams.main.value.size: 200000000 is too large"),
        (
            "progress.view.stream=mian",
            "progress.view.stream: there is no stream \"mian\"; did you mean \"main\"?",
        ),
        ("progress.view.query= ", "progress.view.query: is empty"),
        ("progress.view.interval=0s", "progress.view.interval: must be longer"),
        ("progress.view.timeout=0s", "progress.view.timeout: must be longer"),
        ("progress.view.url=mysql://h/db", "progress.view.url:"),
        ("progress.view.tls_ca_file=ca.pem", "is not looked at unless tls = \"verify_full\""),
        ("processes.sut.pid=3", "processes.sut: is found in more than one way"),
        ("processes.sut.name=", "processes.sut: finds no process"),
        (
            "processes.sut.unit=a.service",
            "processes.sut: is found in more than one way; keep one of name, unit",
        ),
        ("processes.sut.command=(", "processes.sut.command: is no regular expression"),
        ("processes.sut.command=x*", "processes.sut.command: matches the empty text"),
        ("processes.sut.unit=postgresql", "processes.sut.unit: \"postgresql\" is no unit's name"),
        ("processes.sut.cgroup=/a/../b", "processes.sut.cgroup: holds \"..\""),
        ("processes.sut.container=a/b", "processes.sut.container: \"a/b\" is no container's name"),
        ("processes.sut.socket=/x", "processes.sut.socket: means nothing without container"),
        ("processes.sut.interval=0s", "processes.sut.interval: must be longer"),
        ("http.listen=0.0.0.0:9640", "http.listen: 0.0.0.0:9640 is beyond loopback; set http.token_file"),
        (
            "http.listen=localhost",
            "http.listen: found the text \"localhost\", expected an address with its port",
        ),
        ("store.dir=", "store.dir: is empty"),
        ("streams.\"a b\".rate=1", "streams.\"a b\": \"a b\" is not a name"),
        ("streams.\"\".rate=1", "a name is missing"),
    ] {
        let sets: Vec<&str> = if set.contains(" streams.") { set.split(' ').collect() } else { vec![set] };
        let text = refusal(BASE, &[], &sets);
        assert!(text.contains(says), "{set}: {says} is not in\n{text}");
    }
    // A size is one value: a later one takes the place of the whole.
    let size = "streams.main.value.size";
    let sizes = [format!("{size}={{min=1,max=2}}"), format!("{size}={{mean=5,sigma=1}}")];
    assert!(load(BASE, &[], &[&sizes[0], &sizes[1]]).is_ok());
    assert!(load(BASE, &[("SOAKD__STREAMS__MAIN__VALUE__SIZE", "{min=1,max=2}")], &[&sizes[1]]).is_ok());
    let text = refusal(BASE, &[], &["streams.main.lanes=4", "streams.main.max_in_flight=3"]);
    assert!(text.contains("max_in_flight: 3 is less than one record for each of lanes = 4"), "{text}");
    for set in [
        "kafka.client.statistics.interval.ms=1000",
        "http.listen=[::1]:0",
        "streams.main.rate=0",
        "streams.main.rate=max",
        "streams.main.arrivals=poisson",
        "streams.main.topic=a.{run}_b",
        "streams.main.key.kind=sequential streams.main.key.shuffled=true",
        "streams.main.key.kind=unique streams.main.key.size=1 streams.main.records=256",
        "streams.main.key.kind=random64 streams.main.key.format=decimal streams.main.key.size=1",
        "streams.main.value.size=1_000",
        "streams.main.value.size={ min = 1, max = 2 }",
        "streams.main.value.size={\"mean\":1.5,\"sigma\":2}",
        "streams.main.value.size=[{size=1,weight=1},{size=2,weight=0.5}]",
        "streams.main.headers.custom.ce_type=x",
    ] {
        let sets: Vec<&str> = if set.contains(" streams.") { set.split(' ').collect() } else { vec![set] };
        assert!(load(BASE, &[], &sets).is_ok(), "{set}");
    }
    assert!(load(BASE, &[], &["http.listen=0.0.0.0:1", "http.token_file=t"]).is_ok());
}

#[test]
fn the_blame_falls_on_the_layer_that_set_the_value() {
    let text = refusal(BASE, &[("SOAKD__STREAMS__MAIN__RATE", "600000")], &["progress.view.stream=other"]);
    assert!(text.starts_with("settings are not valid, 2 problems:"), "{text}");
    assert!(text.contains("\n  SOAKD__STREAMS__MAIN__RATE: streams.main.rate: 600000 is above"), "{text}");
    assert!(
        text.contains("\n  --set: progress.view.stream: there is no stream \"other\"; known are main"),
        "{text}"
    );
    let text = refusal(&BASE.replace("rate = 100", "rate = 1e9"), &[], &[]);
    assert!(text.contains("soakd.toml:3: streams.main.rate: 1000000000 is above"), "{text}");
}

#[test]
fn counting_goes_without_markers_where_a_table_has_keys() {
    let sets = |kind| ["progress.view.value=count", "streams.main.marker.interval=1s", kind];
    let refused = load(BASE, &[], &sets("streams.main.key.kind=unique")).unwrap_err().to_string();
    assert!(refused.contains("whose markers come with the same keys"), "{refused}");
    assert!(refused.contains("take streams.main.marker away"), "{refused}");
    load(BASE, &[], &sets("streams.main.key.kind=none")).unwrap();
}

#[test]
fn two_streams_have_two_topics() {
    let text = refusal(
        &format!("{BASE}\n[streams.more]\ntopic = \"t\"\n[streams.other]\ntopic = \"t\"\n"),
        &[],
        &[],
    );
    assert!(text.contains("streams.other.topic: \"t\" is the topic of the stream \"more\" too"), "{text}");
    assert!(text.contains("soak-{run}-other"), "{text}");
}

#[test]
fn counting_needs_keys_that_never_come_twice() {
    let count = "progress.view.value=count";
    let refused = |sets: &[&str]| match load(BASE, &[], sets) {
        Ok(_) => false,
        Err(errors) => {
            let text = errors.to_string();
            assert!(
                text.contains("progress.view.value: \"count\" is wrong for the stream \"main\""),
                "{text}"
            );
            assert!(
                text.contains("use \"sequence\" or \"next_offset\", or set streams.main.key.kind = \"none\""),
                "{text}"
            );
            true
        }
    };
    assert!(refused(&[count]));
    assert!(!refused(&[count, "streams.main.key.kind=none"]));
    let sequential = "streams.main.key.kind=sequential";
    assert!(refused(&[count, sequential]));
    assert!(!refused(&[count, sequential, "streams.main.records=1000000"]));
    assert!(refused(&[count, sequential, "streams.main.records=1000001"]));
    assert!(!refused(&[
        count,
        sequential,
        "streams.main.max_rate=1000",
        "run.duration=990s",
        "run.warmup=10s"
    ]));
    assert!(refused(&[
        count,
        sequential,
        "streams.main.max_rate=1000",
        "run.duration=990s",
        "run.warmup=11s"
    ]));
    for kind in ["unique", "random64"] {
        assert!(!refused(&[count, &format!("streams.main.key.kind={kind}")]));
    }
    for kind in ["zipf", "hotspot"] {
        assert!(refused(&[count, &format!("streams.main.key.kind={kind}")]));
    }
    let tombstones =
        refusal(BASE, &[], &[count, "streams.main.key.kind=unique", "streams.main.value.tombstones=0.1"]);
    assert!(tombstones.contains("which has tombstones"), "{tombstones}");
    assert!(tombstones.contains("or set streams.main.value.tombstones = 0"), "{tombstones}");
    assert!(!refused(&["progress.view.value=sequence"]));
}

#[test]
fn rows_are_counted_over_http_too_and_a_counter_counts_what_passes() {
    let source = |kind: &str| {
        let fields = match kind {
            "http" => "json_pointer = \"/count\"",
            _ => "series = \"records_total\"",
        };
        format!(
            "[streams.main]\n[progress.view]\nkind = {kind:?}\nstream = \"main\"\nurl = \"http://h\"\nvalue = \"count\"\n{fields}\n"
        )
    };
    let text = refusal(&source("http"), &[], &[]);
    assert!(text.contains("progress.view.value: \"count\" is wrong for the stream \"main\""), "{text}");
    assert!(load(&source("http"), &[], &["streams.main.key.kind=unique"]).is_ok());
    assert!(load(&source("prometheus"), &[], &[]).is_ok());
}

/// A source of each kind with nothing that is optional.
fn source(kind: &str, more: &str) -> String {
    let fields = match kind {
        "http" => "url = \"http://h\"\njson_pointer = \"/n\"\nvalue = \"sequence\"",
        "prometheus" => "url = \"http://h/metrics\"\nseries = \"s\"\nvalue = \"sequence\"",
        "topic" => "topic = \"out\"\nvalue = \"count\"",
        _ => "group = \"g\"",
    };
    format!("[streams.main]\n[progress.view]\nkind = {kind:?}\nstream = \"main\"\n{fields}\n{more}\n")
}

#[test]
fn rules_of_every_kind_of_source_name_field_and_remedy() {
    for (kind, set, says) in [
        ("http", "body=x", "progress.view.body: is not sent with method = \"get\"; use \"post\""),
        ("http", "json_pointer=", "progress.view.json_pointer: is missing, and regex too"),
        ("http", "regex=x", "progress.view.regex: stands beside json_pointer"),
        ("http", "json_pointer=n", "progress.view.json_pointer: is no JSON pointer"),
        ("http", "partition=/p", "progress.view.partition: is a place within a row, and rows is not set"),
        ("http", "url=h:8123", "progress.view.url: does not begin with http:// or https://"),
        ("http", "method=put", "progress.view.method: found the text \"put\""),
        ("prometheus", "series=", "progress.view.series: is missing, and query too"),
        ("prometheus", "query=up", "progress.view.query: stands beside series"),
        ("prometheus", "series=sum(s)", "progress.view.series: cannot be read"),
        ("prometheus", "url=http://u:hunter2@h", "progress.view.url: holds a user name or password"),
        ("topic", "value=next_offset", "progress.view.value: is nothing that a topic's records tell"),
        ("topic", "value=marker", "progress.view.sequence: is missing"),
        ("topic", "value=event_time", "progress.view.intended: is missing"),
        ("topic", "interval=0s", "progress.view.interval: must be longer than 0s"),
        ("consumer_group", "group=", "progress.view.group: is empty"),
    ] {
        let text = refusal(&source(kind, ""), &[], &[&format!("progress.view.{set}")]);
        assert!(text.contains(says), "{kind} {set}: {text}");
    }
    let both = ["progress.view.password=hunter2", "progress.view.password_file=f"];
    for kind in ["http", "prometheus"] {
        let text = refusal(&source(kind, ""), &[], &both);
        assert!(text.contains("password_file: stands beside") && !text.contains("hunter2"), "{text}");
    }
    for value in ["event_time", "marker", "lag_records", "lag_seconds"] {
        let marker = "streams.main.marker.interval=1s";
        let sets = [&format!("progress.view.value={value}"), "progress.view.on_reset=rebase", marker];
        let text = refusal(BASE, &[], &sets);
        assert!(
            text.contains(&format!("on_reset: \"rebase\" means nothing for value = {value:?}")),
            "{text}"
        );
    }
}

#[test]
fn markers_that_are_looked_for_must_be_sent() {
    let looks = "progress.view.value=marker";
    let text = refusal(BASE, &[], &[looks]);
    assert!(text.contains("no markers; set streams.main.marker.interval = \"1s\""), "{text}");
    assert!(load(BASE, &[], &[looks, "streams.main.marker.interval=1s"]).is_ok());
}

#[test]
fn what_a_fall_means_depends_on_who_counts() {
    let on_reset = |toml: &str, sets: &[&str]| {
        load(toml, &[], sets).unwrap().settings.progress["view"].common().on_reset
    };
    let (count, unique) = ("progress.view.value=count", "streams.main.key.kind=unique");
    for kind in ["http", "prometheus"] {
        assert_eq!(on_reset(&source(kind, ""), &[]), OnReset::True, "a sequence over {kind}");
        assert_eq!(on_reset(&source(kind, ""), &[count, unique]), OnReset::Rebase, "a counter over {kind}");
        let set = "progress.view.on_reset=true";
        assert_eq!(on_reset(&source(kind, ""), &[count, unique, set]), OnReset::True, "{kind}, as set");
    }
    assert_eq!(on_reset(BASE, &[count, unique]), OnReset::True);
    assert_eq!(on_reset(&source("topic", ""), &[]), OnReset::True);
    assert_eq!(on_reset(&source("consumer_group", ""), &[]), OnReset::True);
}

#[test]
fn a_stream_that_is_only_watched_has_no_load_and_no_sequences() {
    let watched = BASE.replace("rate = 100", "produce = false");
    assert!(load(&watched, &[], &[]).is_ok());
    for set in
        ["rate=5", "preload=1", "records=5", "marker.interval=1s", "profile=[{\"rate\":5,\"for\":\"1s\"}]"]
    {
        let text = refusal(&watched, &[], &[&format!("streams.main.{set}")]);
        let name = set.split('=').next().unwrap();
        assert!(text.contains(&format!("streams.main.{name}: does nothing with produce = false")), "{text}");
    }
    for value in ["sequence", "count", "event_time", "marker"] {
        let text = refusal(&watched, &[], &[&format!("progress.view.value={value}")]);
        assert!(text.contains(&format!("{value:?} needs records that soakd produces")), "{text}");
    }
    for value in ["next_offset", "last_offset", "lag_records", "lag_seconds"] {
        assert!(load(&watched, &[], &[&format!("progress.view.value={value}")]).is_ok(), "{value}");
    }
}
