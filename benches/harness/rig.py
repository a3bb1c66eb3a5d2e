"""Brokers, and one measured run of one client against one of them."""

import contextlib
import os
import resource
import shutil
import signal
import statistics
import subprocess
import time

from . import machine, wire
from .build import SERVICES
from .processes import Failed

LOOK_S = 0.02
RUN_TIMEOUT_S = 90
TOPIC_CONFIG = {"retention.ms": "3600000", "segment.bytes": "268435456"}
# A run is steady from a share of its records on that the tool says, up to this one: then comes the last linger.
STEADY_UNTIL = 0.97


class Broker:
    """A broker that clients are measured against."""

    def __init__(self, where, bootstrap, pid=None, mock=None):
        self.where, self.bootstrap, self.pid, self.mock = where, bootstrap, pid, mock
        self.cluster = wire.Cluster(bootstrap)

    def cpu_s(self):
        return (machine.process_cpu_s(self.pid) or 0.0) if self.pid else 0.0


def start_kafka(processes, folder, properties=()):
    """Apache Kafka by tests/services."""
    script = os.path.join(SERVICES, "kafka")
    found = processes.service(script, folder, ["log.segment.delete.delay.ms=1000", *properties])
    with open(os.path.join(folder, "pid"), encoding="utf-8") as file:
        return Broker("kafka", found["BOOTSTRAP"], int(file.read()))


@contextlib.contextmanager
def mock(processes, helper, folder):
    """librdkafka's mock cluster in a process of its own; a fresh one for each run, because it keeps what it got."""
    process = processes.start(
        [helper, "mock"], os.path.join(folder, "mock.log"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        bootstrap = process.process.stdout.readline().decode().strip()
        if not bootstrap:
            raise Failed(f"the mock broker did not start:\n{process.tail()}")
        broker = Broker("mock", bootstrap, process.pid, process)
        yield broker
        broker.cluster.close()
    finally:
        processes.stop(process)


def measure(processes, broker, tool, cell, records, topic, folder):
    """Runs a tool once and returns what was seen of it, by the broker's end offsets and the kernel."""
    os.makedirs(folder)
    cluster = broker.cluster
    if broker.mock:
        cluster.await_leaders(topic, cell.partitions, create=True)
    else:
        cluster.create_topic(topic, cell.partitions, TOPIC_CONFIG)
    before = sum(cluster.end_offsets(topic))
    run = tool.run(cell, broker.bootstrap, topic, records, folder)
    busy, broker_cpu, own_cpu = machine.busy_s(), broker.cpu_s(), harness_cpu_s()
    process = processes.start(run.argv, os.path.join(folder, "log"))
    samples, timed_out = [], False
    while process.alive:
        asked_s = time.monotonic()
        try:
            ends = sum(cluster.end_offsets(topic)) - before
            samples.append(((asked_s + time.monotonic()) / 2, ends))
        except wire.KafkaError:
            # A busy broker may let one look wait too long; the count at the end decides, and that has to succeed.
            cluster.close()
        if time.monotonic() - process.began_s > RUN_TIMEOUT_S:
            timed_out = True
            process.stop()
        process.wait(LOOK_S)
    processes.stop(process)
    stored = sum(cluster.end_offsets(topic)) - before
    busy, broker_cpu, own_cpu = machine.busy_s() - busy, broker.cpu_s() - broker_cpu, harness_cpu_s() - own_cpu
    acked, own_rate = tool.own(process, folder)
    result = {
        "tool": tool.name,
        "cell": cell.name(),
        "command": process.argv,
        "files": run.files,
        "records": records,
        "stored": stored,
        "acked_own": acked,
        "records_per_second": steady_rate(samples, records, tool.steady_from),
        "records_per_second_own": own_rate,
        "cpu_s": process.cpu_s(),
        "wall_s": process.wall_s(),
        "broker_cpu_s": broker_cpu if broker.pid else None,
        # What is left is what others did to the measurement.
        "others_cores": max(0.0, busy - broker_cpu - own_cpu - process.cpu_s()) / process.wall_s(),
        "exit_code": process.code,
        "fault": fault(process, records, stored, acked, timed_out, tool),
    }
    if result["fault"]:
        result["log"] = process.tail()
    if not broker.mock:
        cluster.delete_topic(topic)
    shutil.rmtree(folder)
    return result


def harness_cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def steady_rate(samples, records, steady_from):
    """Records per second on the broker while the run was steady; None when it was too short to see."""
    first = next((sample for sample in samples if sample[1] >= steady_from * records), None)
    last = next((sample for sample in reversed(samples) if sample[1] <= STEADY_UNTIL * records), None)
    if not first or not last or last[0] - first[0] < 2 * LOOK_S:
        return None
    return (last[1] - first[1]) / (last[0] - first[0])


def fault(process, records, stored, acked, timed_out, tool):
    """What is wrong with a run, or None."""
    if timed_out:
        return f"not done after {RUN_TIMEOUT_S} s"
    # 4: soakd says of itself that it was the limit, which is what is asked of it here.
    if process.code not in ((0, 1, 4) if tool.name.startswith("soakd") else (0,)):
        return f"exit code {process.code}" if process.code >= 0 else f"ended by {signal.Signals(-process.code).name}"
    if stored < records:
        return f"lost {records - stored}"
    if stored > records:
        return f"{stored - records} too many"
    if acked is not None and acked != stored:
        return f"says {acked} acked"
    return None


def spread(numbers):
    """Median, least and greatest of what is there."""
    numbers = [number for number in numbers if number is not None]
    if not numbers:
        return None
    return {"median": statistics.median(numbers), "min": min(numbers), "max": max(numbers), "runs": len(numbers)}
