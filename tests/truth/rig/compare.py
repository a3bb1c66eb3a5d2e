"""Groups of figures beside their truth: a run's totals, a source's samples, latencies, freshness, processes."""

import datetime
import math
import statistics
import subprocess

from rig import models
from rig.judge import group_pairs, lags, pairs
from rig.stage import PARTITIONS

FEWEST = 4


def totals(stage, table, partitions, report, rate, seconds, marker_s=None, hold_s=0.0):
    """What every run says about its records."""
    stream = report["streams"]["main"]
    counts, measured = stream["totals"], report["measured"]
    due = round(rate * seconds)
    records = sum(len(have) - sum(have.marker) for have in partitions)
    markers = sum(sum(have.marker) for have in partitions)
    if marker_s:
        # A marker whose time was slept through is not made up for.
        most = due + math.ceil(seconds / marker_s) * PARTITIONS
        scheduled = min(max(counts["scheduled"], due + markers), most)
        table.exact(
            "records scheduled: rate × time, and markers but those that were slept through",
            scheduled,
            counts["scheduled"],
        )
    else:
        table.exact("records scheduled: rate × time", due, counts["scheduled"])
    dropped = counts["scheduled"] - records - markers
    table.exact("records dropped: scheduled and not in the topic", dropped, sum(counts["dropped"].values()))
    table.exact("records acked: those in the topic", records + markers, counts["acked"])
    table.exact(
        "bytes acked: keys and values in the topic", sum(have.bytes for have in partitions), counts["bytes_acked"]
    )
    table.exact(
        "sequences in the topic: all, each once",
        due,
        len({s for have in partitions for s, m in zip(have.sequence, have.marker) if not m}),
    )
    table.exact("reconciliation: records in the broker", records + markers, stream["reconciliation"]["in_broker"])
    figures = measured["streams"]["main"]
    acked_ms = (instant(report["load_ended_at"]) - hold_s) * 1000
    acked = sum(ms <= acked_ms and not m for have in partitions for ms, m in zip(have.appended_ms, have.marker))
    table.add("records/s acked in the measured phase", acked / seconds, figures["achieved_records_per_second"])


def judged(stage, truth, daemon, played, name, door, kind, rate, query_s, begun, ended):
    samples = daemon.samples.get(name, [])
    table = stage.table
    if door == "group":
        found = list(group_pairs(truth, samples, played.answers("group"), begun, ended))
    else:
        found = list(pairs(samples, played.answers(door, kind), begun, ended))
    seen = len(found)
    found = [(sample, answer) for sample, answer in found if truth.quiet(answer, query_s)]
    if len(found) < FEWEST:
        table.put(
            f"`{name}`: samples in quiet moments, of {seen}",
            FEWEST,
            len(found),
            "at least: the machine is too busy to tell",
            None,
        )
        return found
    if kind == "lag_records":
        found = [(sample, answer | {"stated": sum(answer["values"])}) for sample, answer in found]
    records, seconds, bounds = lags(truth, found, rate)
    if kind != "lag_seconds":
        table.samples(f"`{name}`: lag in records", records)
    table.samples(f"`{name}`: lag in seconds", seconds)
    if bounds:
        # What is acked during one poll is the rate on average only: acks come in bursts.
        bound, uncertainty = (statistics.mean(one[at] for one in bounds) for at in (0, 2))
        table.at_most(f"`{name}`: uncertainty in records, mean", bound, uncertainty, "rate × query time / 2 + 1")
        _, bound, uncertainty = max(bounds, key=lambda one: one[2] - one[1])
        table.at_most(f"`{name}`: uncertainty in records, worst", bound, uncertainty, "what the broker took / 2 + 1")
    ends = [pair for pair in found if pair[0]["progress_records"] is not None]
    if len(ends) > 2 and door != "group" and kind in ("next_offset", "last_offset", "sequence", "count"):
        table.samples(
            f"`{name}`: progress in records",
            [(sum(answer["next"]), sample["progress_records"], 0) for sample, answer in ends],
        )
    return found


def latencies(table, daemon, report, model, log, tail=(0.9, 0.99, 0.999, 1.0), hold_s=0.0):
    """Percentiles by arithmetic in the tail, and by the broker's clock below it, where a record's way is all."""
    figures = report["measured"]["streams"]["main"]
    bounds = daemon.bounds("soakd_ack_latency_seconds")
    from_intended = sorted(acked - due for due, _, acked in model)
    measured = sorted((a - i + 0.5) / 1000 + hold_s for have in log for a, i in zip(have.appended_ms, have.intended_ms))
    names = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p999", 1.0: "max"}
    buckets = daemon.buckets("soakd_ack_latency_seconds", "intended")
    table.exact("ack latency from intended time: records", len(from_intended), int(buckets[-1]))
    table.in_bucket(
        "ack latency p50 (truth by the broker's clock)",
        bounds,
        models.quantile(measured, 0.5),
        figures["ack_from_intended"]["p50_seconds"],
    )
    for q in tail:
        truth = models.quantile(from_intended, q)
        published = figures["ack_from_intended"][f"{names[q]}_seconds"]
        table.in_bucket(f"ack latency {names[q]} from intended time", bounds, truth, published)
        rank = max(1, -(-int(q * 1e6) * len(from_intended) // 1_000_000))
        at = next(at for at, below in enumerate(buckets) if below >= rank)
        table.in_bucket(
            f"ack latency {names[q]} by the buckets of /metrics (upper bound)",
            bounds,
            truth,
            bounds[min(at, len(bounds) - 1)],
        )
    for limit in (0.1, 1.0):
        slower = sum(one > limit for one in measured)
        if slower:
            table.add(
                f"records slower than {limit:g} s (truth by the broker's clock)",
                slower,
                buckets[-1] - buckets[bounds.index(limit)],
            )
    from_sent = sorted(acked - at for _, at, acked in model)
    if from_sent[-1] > 0.1:
        for name, q in (("p99", 0.99), ("max", 1.0)):
            table.in_bucket(
                f"ack latency {name} from sending",
                bounds,
                models.quantile(from_sent, q),
                figures["ack_from_sent"][f"{name}_seconds"],
            )
    delays = sorted(at - due for due, at, _ in model)
    if delays[-1] > 0.1:
        for q in (0.9, 0.99, 1.0):
            table.in_bucket(
                f"schedule delay {names[q]}",
                bounds,
                models.quantile(delays, q),
                figures["schedule_delay"][f"{names[q]}_seconds"],
            )


def freshness(stage, table, truth, daemon, played, begun, ended):
    """Markers: when each was first shown, by the system's own notes."""
    answers = played.answers("sql", "marker")
    status = daemon.samples.get("sql_marker", [])
    unseen = [
        (truth.unseen(answer["values"], answer["at"]), sample["marker_oldest_unseen_seconds"], 0.03)
        for sample, answer in pairs(status, answers, begun, ended)
        if sample["marker_oldest_unseen_seconds"] is not None
    ]
    table.samples("age of the oldest marker that is not seen, in seconds", unseen)
    fresh, shown = [], [None] * PARTITIONS
    for answer in answers:
        for number, value in enumerate(answer["values"]):
            if value is None or (shown[number] is not None and value <= shown[number]):
                continue
            have = truth.partitions[number]
            for at in range(len(have)):
                if (
                    have.marker[at]
                    and (shown[number] is None or have.sequence[at] > shown[number])
                    and have.sequence[at] <= value
                ):
                    fresh.append(answer["left"] - have.intended_ms[at] / 1000)
            shown[number] = value
    labels = '{source="sql_marker",stream="main"}'
    count, total = (daemon.last_of(f"soakd_freshness_seconds_{part}{labels}") for part in ("count", "sum"))
    table.add("markers seen", len(fresh), count, max(PARTITIONS, 0.02 * len(fresh)), "a poll")
    if count:
        table.add("freshness in seconds, mean", sum(fresh) / len(fresh), total / count)


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def tree(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [pid, *(int(child) for child in found)]


def tree_cpu_s(pid):
    """Time on a CPU of a process and its children by the scheduler's own account, in seconds."""
    total = 0
    for one in tree(pid):
        with open(f"/proc/{one}/schedstat") as account:
            total += int(account.read().split()[0])
    return total / 1e9


def resident_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup") as account:
        return next(int(line.split()[1]) * 1024 for line in account if line.startswith("Rss:"))
