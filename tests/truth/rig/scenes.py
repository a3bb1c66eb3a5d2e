"""What is played, one function a scene."""

import json
import subprocess
import time

from rig import models
from rig.compare import freshness, instant, judged, latencies, resident_bytes, totals, tree, tree_cpu_s
from rig.judge import pairs
from rig.processes import free_port, python, stopped
from rig.stage import GROUP, POLL_S

ROWS = ("next_offset", "last_offset", "sequence", "count", "event_time", "lag_records", "lag_seconds")


def behind(stage):
    """A system that is always N records behind, asked by SQL in every way; and processes of known use."""
    table, rate, records, query_s = stage.table, 2000, 2000, 0.1
    table.begin(f"a system {records} records behind at {rate}/s, each answer taking {query_s * 1000:.0f} ms")
    burner = python("burner", "0.2", "64", "1", stdout=subprocess.PIPE, text=True)
    burner.stdout.readline()
    process = f'[processes.burner]\nkind = "local"\npid = {burner.pid}\ntree = true\n'
    began, rss = [], []

    def look():
        began.append(began[0] if began else (time.time(), tree_cpu_s(burner.pid)))
        rss.append(sum(resident_bytes(pid) for pid in tree(burner.pid)))

    asked = [("sql", kind) for kind in ROWS]
    report = always_behind(stage, "behind", asked, rate, records, query_s, process, look)
    cores = (tree_cpu_s(burner.pid) - began[0][1]) / (time.time() - began[0][0])
    figures = report["measured"]["processes"]["burner"]
    table.add("CPU in cores, mean of the report (two processes of 0.2)", cores, figures["cpu_cores_mean"])
    table.add(
        "memory in bytes, mean of the report (two of 64 MiB)", sum(rss) / len(rss), figures["memory_rss_bytes"]["mean"]
    )
    burner.end()


def behind_web(stage):
    """The same, asked over HTTP, by its metrics and through its group."""
    rate, records, query_s = 2000, 2000, 0.1
    stage.table.begin(f"the same system over HTTP, by its metrics and its group ({records} records behind at {rate}/s)")
    kinds = ("next_offset", "sequence", "count", "event_time")
    asked = [(door, kind) for door in ("http", "prometheus") for kind in kinds] + [("group", "next_offset")]
    always_behind(stage, "behind-web", asked, rate, records, query_s)


def always_behind(stage, scene, asked, rate, records, query_s, more="", look=lambda: None):
    seconds, table = 12 * stage.scale, stage.table
    played = stage.played(scene, behind=records, query=query_s, group=GROUP, commit=0.1)
    named = [(f"{door}_{kind}" if door != "group" else "group", door, kind) for door, kind in asked]
    sources = "".join(stage.source(name, door, kind, played) for name, door, kind in named) + more
    daemon = stage.daemon(scene, rate, seconds, sources=sources).loaded()
    begun = time.time() + 2.0
    while not daemon.draining():
        look()
        time.sleep(0.2)
    ended = time.time()
    played.do("free")
    report = daemon.report()
    log = stage.log(scene)
    truth = stage.truth(log)
    totals(stage, table, log, report, rate, seconds)
    for name, door, kind in named:
        found = judged(stage, truth, daemon, played, name, door, kind, rate, query_s, begun, ended)
        if kind != "next_offset" or door == "group":
            continue
        polls = [
            (answer["sent"] - answer["came"], sample["took"], 0.005 + truth.noise(answer["came"], sample["at"]))
            for sample, answer in found
            if sample["took"]
        ]
        table.samples(f"`{name}`: time of a poll in seconds", polls, 0.005)
        # From the last look before the load on, as the report does.
        begin, end = instant(report["started_at"]), instant(report["load_ended_at"])
        answers = [one for one in played.answers(door, kind) if one["at"] < end]
        answers = answers[max(0, sum(one["at"] < begin for one in answers) - 1) :]
        ingested = sum(answers[-1]["next"]) - sum(answers[0]["next"])
        truly = ingested / (answers[-1]["at"] - answers[0]["at"])
        figures = report["measured"]["sources"][name]
        table.add(f"`{name}`: ingested records/s in the report", truly, figures["ingest_records_per_second"])
    played.child.end()
    return report


def pauses(stage):
    """A consumer with a known delay that pauses, loses its last commits, and works off what it missed."""
    rate, delay_s, pause_s, seconds = 1000, 1.0, 5.0, 20 * stage.scale
    # More often than once a second, so that a report that looks only then would miss the highest lag.
    poll_s = 0.25
    table = stage.table
    table.begin(
        f"a consumer {delay_s:.0f} s late at {rate}/s that pauses for {pause_s:.0f} s, "
        "comes back 2000 records further back and works at 4000/s"
    )
    played = stage.played("pauses", delay=delay_s, query=0.02)
    asked = [("sql", "next_offset"), ("sql", "marker")]
    named = [(f"{door}_{kind}", door, kind) for door, kind in asked]
    more = 'standstill_after = "2s"'
    sources = "".join(stage.source(name, door, kind, played, more, interval_s=poll_s) for name, door, kind in named)
    daemon = stage.daemon("pauses", rate, seconds, stream='marker = { interval = "250ms" }', sources=sources).loaded()
    begun = time.time() + delay_s + 1.5
    time.sleep(5)
    paused = played.do("pause")
    time.sleep(pause_s)
    works = played.do("work", rate=4000, lost=2000)
    daemon.until("the end of the load", lambda _: daemon.draining(), seconds + 30)
    ended = time.time()
    report = daemon.report()
    log = stage.log("pauses")
    truth = stage.truth(log)
    totals(stage, table, log, report, rate, seconds, marker_s=0.25)
    judged(stage, truth, daemon, played, "sql_next_offset", "sql", "next_offset", rate * 1.02, 0.02, begun, ended)
    found = list(pairs(daemon.samples["sql_next_offset"], played.answers("sql", "next_offset"), begun, ended))
    figures = report["measured"]["sources"]["sql_next_offset"]
    table.exact("resets", 1, figures["resets"])
    table.exact("standstills", 1, figures["standstills"], quiet=True)
    resolution_s = poll_s + 0.03
    table.add(
        "time at a standstill in seconds",
        works["at"] - paused["at"],
        figures["standstill_seconds"],
        resolution_s,
        "its resolution",
    )
    highest = max(truth.lag(answer["next"], answer["at"]) for _, answer in found)
    table.add("highest lag in records in the report", highest, figures["lag_records"]["max"])
    oldest = max(truth.age(answer["next"], answer["at"]) for _, answer in found)
    table.add(
        "highest lag in seconds in the report",
        oldest,
        figures["lag_seconds"]["max"],
        max(0.02 * oldest, 0.03),
        "its uncertainty",
    )
    estimates = []
    for sample, answer in found:
        if sample["catch_up_seconds"] is not None and works["at"] + 0.8 < answer["at"]:
            left = truth.lag(answer["next"], answer["at"])
            if left > 1500:
                estimates.append((left / 4000, sample["catch_up_seconds"], 0.1))
    if estimates:
        table.samples("estimate of the time to catch up in seconds", estimates)
    freshness(stage, table, truth, daemon, played, begun, ended)
    played.child.end()


def restart(stage):
    """A consumer that goes away, comes back with less than it had, and works off what it missed."""
    rate, delay_s, away_s, lost, poll_s, seconds = 1000, 1.0, 3.0, 2000, 0.25, 14 * stage.scale
    table, name = stage.table, "sql_next_offset"
    table.begin(
        f"a consumer {delay_s:.0f} s late at {rate}/s that answers nobody for {away_s:.0f} s "
        f"and comes back {lost} records further back, at 4000/s"
    )
    played = stage.played("restart", delay=delay_s, query=0.02)
    sources = stage.source(name, "sql", "next_offset", played, interval_s=poll_s)
    daemon = stage.daemon("restart", rate, seconds, sources=sources).loaded()
    begun = time.time() + delay_s + 1.5
    time.sleep(5)
    left = played.do("leave")
    time.sleep(away_s)
    works = played.do("work", rate=4000, lost=lost)
    daemon.until("the end of the load", lambda _: daemon.draining(), seconds + 30)
    ended = time.time()
    report = daemon.report()
    log = stage.log("restart")
    truth = stage.truth(log)
    totals(stage, table, log, report, rate, seconds)
    judged(stage, truth, daemon, played, name, "sql", "next_offset", rate, 0.02, begun, ended)
    found = pairs(daemon.samples[name], played.answers("sql", "next_offset"), begun, ended)
    figures = report["measured"]["sources"][name]
    table.exact("resets", 1, figures["resets"])
    away = [seen for at, seen in daemon.scrapes if left["at"] + 2 * poll_s < at < works["at"] - 0.05]
    labels = f'{{source="{name}",stream="main"}}'
    table.exact("up while it answers nobody, highest", 0, max(seen[f"soakd_progress_up{labels}"] for seen in away), quiet=True)
    polls = (works["at"] - left["at"]) / poll_s
    table.add("failed polls", polls, figures["errors"], 1.5, "a poll at each end")
    back = works["at"] - left["at"]
    published = daemon.last_of(f"soakd_recovery_back_seconds{labels}")
    table.add("time until it answers again in seconds", back, published, poll_s + 0.05, "a poll")
    # No further behind than at its worst before, within a poll.
    ages = [(answer["at"], truth.age(answer["next"], answer["at"])) for answer in played.answers("sql", "next_offset")]
    usual = max(age for at, age in ages if begun < at < left["at"]) + poll_s
    caught_up = next((at for at, age in ages if at > works["at"] and age <= usual), None)
    table.add(
        "time until it had caught up in seconds",
        caught_up and caught_up - left["at"],
        daemon.last_of(f"soakd_recovery_caught_up_seconds{labels}"),
        poll_s + 0.05,
        "a poll",
    )
    highest = max(truth.lag(answer["next"], answer["at"]) for _, answer in found)
    table.add("highest lag in records in the report", highest, figures["lag_records"]["max"])
    played.child.end()


def stall(stage):
    """The broker is stopped for 2 s at 1000/s: latency from intended time is what arithmetic says."""
    rate, seconds, away_s = 1000, 9 * stage.scale, 2.0
    table = stage.table
    runs = (("default", 1000, ""), ("free", 1_000_000, "max_in_flight = 1000000"))
    daemons = [stage.daemon(f"stall-{name}", rate, seconds, stream=more).loaded() for name, _, more in runs]
    time.sleep(3)
    away = stopped(stage.broker.pid, away_s)
    reports = [daemon.report() for daemon in daemons]
    for (name, cap, _), daemon, report in zip(runs, daemons, reports):
        what = "at most 1000 in flight" if name == "default" else "any number in flight"
        table.begin(f"the broker stopped for {away_s:.0f} s at {rate}/s, {what}")
        log = stage.log(f"stall-{name}")
        totals(stage, table, log, report, rate, seconds)
        begin_s = min(min(have.intended_ms) for have in log) / 1000 + 0.0005
        model = models.handed_over(rate, round(rate * seconds), begin_s, cap, 2.0, broker_away=away)
        latencies(table, daemon, report, model, log)
        counts = report["streams"]["main"]["totals"]
        table.exact("stalls", int(name == "default"), counts["stalls"], quiet=True)
        limited = models.late_seconds(model)
        table.add("load limited by the broker, in seconds", limited, counts["limited_seconds"].get("broker", 0.0))


def frozen_daemon(stage):
    """soakd itself is stopped."""
    rate, seconds, away_s, records = 1000, 10 * stage.scale, 2.0, 1000
    table = stage.table
    played = stage.played("frozen", behind=records, query=0.05)
    sources = stage.source("sql_next_offset", "sql", "next_offset", played)
    daemon = stage.daemon("frozen", rate, seconds, sources=sources).loaded()
    begun = time.time() + 1.5
    time.sleep(3)
    away = stopped(daemon.pid, away_s)
    daemon.until("the end of the load", lambda _: daemon.draining(), seconds + 30)
    ended = time.time()
    played.do("free")
    report = daemon.report()
    table.begin(f"soakd itself stopped for {away_s:.0f} s at {rate}/s, the system {records} records behind")
    log = stage.log("frozen")
    totals(stage, table, log, report, rate, seconds)
    begin_s = min(min(have.intended_ms) for have in log) / 1000 + 0.0005
    model = models.handed_over(rate, round(rate * seconds), begin_s, 1000, 2.0, load_away=away)
    latencies(table, daemon, report, model, log)
    limited = models.late_seconds(model)
    counts = report["streams"]["main"]["totals"]
    table.add("load limited by the generator, in seconds", limited, counts["limited_seconds"].get("generator", 0.0))
    table.exact("exit code: soakd was the limit", 4, daemon.child.returncode)
    truth = stage.truth(log)
    judged(stage, truth, daemon, played, "sql_next_offset", "sql", "next_offset", rate, 0.05, begun, ended)
    played.child.end()


def frozen_system(stage):
    """The system under test is stopped: unknown is not zero."""
    rate, seconds, away_s = 1000, 12 * stage.scale, 5.0
    table = stage.table
    played = stage.played("dark", behind=1000, query=0.02)
    sources = stage.source("sql_next_offset", "sql", "next_offset", played, more='timeout = "700ms"')
    daemon = stage.daemon("dark", rate, seconds, sources=sources).loaded()
    begun = time.time() + 1.5
    time.sleep(3)
    away = stopped(played.pid, away_s)
    daemon.until("the end of the load", lambda _: daemon.draining(), seconds + 30)
    ended = time.time()
    played.do("free")
    report = daemon.report()
    table.begin(f"the system stopped for {away_s:.0f} s at {rate}/s, otherwise 1000 records behind")
    log = stage.log("dark")
    totals(stage, table, log, report, rate, seconds)
    labels = '{source="sql_next_offset",stream="main"}'
    dark = [found for at, found in daemon.scrapes if away[0] + 2 * POLL_S + 0.8 < at < away[1] - 0.05]
    table.exact("up while it is stopped, highest", 0, max(found[f"soakd_progress_up{labels}"] for found in dark), quiet=True)
    late = [found for at, found in daemon.scrapes if away[0] + 4 * 0.75 + POLL_S < at < away[1] - 0.05]
    shown = sum(f"soakd_lag_records{labels}" in found for found in late)
    table.exact("scrapes with a lag after three missed polls", 0, shown, quiet=True)
    figures = report["measured"]["sources"]["sql_next_offset"]
    table.exact("resets", 0, figures["resets"])
    truth = stage.truth(log)
    judged(stage, truth, daemon, played, "sql_next_offset", "sql", "next_offset", rate, 0.02, begun, ended)
    played.child.end()


def round_trip(stage):
    """A broker that is a known time away."""
    each_s, rate, seconds = 0.1, 500, max(12, 8 * stage.scale)
    table = stage.table
    table.begin(f"a broker with a round trip of {each_s * 2000:.0f} ms at {rate}/s")
    broker, port, log_path = stage.broker, free_port(), stage.home / f"delay{stage.suffix}.jsonl"
    real = broker.bootstrap
    with open(broker.home / "server.properties", "a") as properties:
        properties.write(f"\nadvertised.listeners=PLAINTEXT://127.0.0.1:{port}\n")
    proxy = python("delay", port, real.split(":")[1], each_s, log_path, stdout=subprocess.PIPE, text=True)
    proxy.stdout.readline()
    broker.order("restart")
    played = stage.played("distance", behind=1000, query=0.05)
    sources = stage.source("sql_next_offset", "sql", "next_offset", played)
    daemon = stage.daemon("distance", rate, seconds, stream="max_in_flight = 100000", sources=sources).loaded()
    begun = time.time() + 3.0
    daemon.until("the end of the load", lambda _: daemon.draining(), seconds + 30)
    ended = time.time()
    played.do("free")
    report = daemon.report()
    notes = [json.loads(line) for line in log_path.read_text().splitlines()]
    # The client's figure is of its last five seconds.
    late = [note["away"] for note in notes if note["at"] > notes[-1]["at"] - 6]
    away_s = sum(late) / len(late)
    log = stage.log("distance")
    totals(stage, table, log, report, rate, seconds, hold_s=each_s)
    table.add(
        "round trip to the broker in seconds, a mean (truth by the proxy)",
        away_s,
        daemon.last_of_name("soakd_broker_rtt_seconds"),
    )
    figures = report["measured"]["streams"]["main"]["ack_from_intended"]
    measured = sorted((a - i + 0.5) / 1000 + each_s for have in log for a, i in zip(have.appended_ms, have.intended_ms))
    bounds = daemon.bounds("soakd_ack_latency_seconds")
    table.add("ack latency from intended time in seconds, mean", sum(measured) / len(measured), figures["mean_seconds"])
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
        table.in_bucket(
            f"ack latency {name} from intended time", bounds, models.quantile(measured, q), figures[f"{name}_seconds"]
        )
    # What the broker has and its ack on the way does not count as acked: nobody on this side can know of it.
    truth = stage.truth(log, far_s=each_s)
    judged(stage, truth, daemon, played, "sql_next_offset", "sql", "next_offset", rate, 0.05, begun, ended)
    played.child.end()
    proxy.end()


ALL = (behind, behind_web, pauses, restart, stall, frozen_daemon, frozen_system, round_trip)
