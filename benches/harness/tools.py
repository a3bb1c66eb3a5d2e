"""The peers: how each is called for a cell of the table, and what it says of its own speed."""

import glob
import json
import os
import re
import shutil
import subprocess
from datetime import datetime

from . import build, machine
from .processes import output_of

REFERENCE = "rdkafka_performance"


class Cell:
    """One measurement: where, how many acks, how large; the properties are the same for every client."""

    def __init__(self, where, acks, value_bytes, partitions, properties):
        self.where, self.acks, self.value_bytes, self.partitions = where, acks, value_bytes, partitions
        self.properties = dict(properties)
        self.properties["acks"] = acks
        # What soakd does by default with acks=all, and what a client refuses with fewer.
        self.properties["enable.idempotence"] = "true" if acks == "all" else "false"

    def name(self):
        return f"{self.where}, acks={self.acks}, {self.value_bytes} B"


class Run:
    """One run of one tool: a command, and how to read its own figures."""

    def __init__(self, argv, files=None):
        self.argv, self.files = argv, files or {}


class Tool:
    """A peer. `missing` says why it is not here."""

    name = note = ""
    share = 1.0  # of the records: slow tools get fewer, so that a run takes about as long
    per_second = 1_500_000  # at 100 B, for the estimate
    start_s = 0.4
    steady_from = 0.15  # of the records: before that lie connecting and batches that are filled for the first time
    on_mock = False
    missing = None

    def version(self):
        return ""

    def run(self, cell, bootstrap, topic, records, folder):
        raise NotImplementedError

    def own(self, running, folder):
        """What it says itself: records acked and its records per second, each None when it does not say."""
        return None, None


class Soakd(Tool):
    """soakd at its highest rate: one lane, so one client, as everybody here."""

    on_mock = True
    start_s = 0.7

    def __init__(self, path, name="soakd", note="8-byte keys, uniform over a million", key=None, extra=""):
        self.path, self.name, self.note = path, name, note
        self.key = key or '{ kind = "uniform", cardinality = 1_000_000, size = 8 }'
        self.extra = extra
        self.max_rate = accepted(self.path, 'rate = "max"')
        if extra and not accepted(self.path, extra):
            self.missing = f"this soakd does not take {extra!r}"

    def version(self):
        return (output_of([self.path, "--version"]) or "").strip() + ", release"

    def load(self):
        if self.max_rate:
            return 'rate = "max"'
        # Without "max": everything is due at once and nothing is given up.
        return 'rate = 1e9\nmax_rate = 1e9\noverload = { policy = "wait" }'

    def run(self, cell, bootstrap, topic, records, folder):
        port = machine.free_port()
        settings = f"""\
[run]
name = "peers"
drain_timeout = "1s"
[kafka]
brokers = ["{bootstrap}"]
[kafka.client]
{toml(cell.properties)}
[streams.main]
topic = "{topic}"
create = false
partitions = {cell.partitions}
records = {records}
{self.load()}
key = {self.key}
value = {{ kind = "random", size = {cell.value_bytes} }}
{self.extra}
[http]
listen = "127.0.0.1:{port}"
[store]
dir = "{folder}/store"
"""
        path = os.path.join(folder, "soakd.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(settings)
        return Run([self.path, "run", "-c", path], {"soakd.toml": settings})

    def own(self, running, folder):
        reports = glob.glob(os.path.join(folder, "store", "runs", "*", "report.json"))
        if not reports:
            return None, None
        with open(reports[0], encoding="utf-8") as file:
            report = json.load(file)
        acked = report["streams"]["main"]["totals"]["acked"]
        # The whole run and its last acks: the measured phase ends when nothing more is due.
        times = (datetime.fromisoformat(report[name].replace("Z", "+00:00")) for name in ("finished_at", "started_at"))
        seconds = (next(times) - next(times)).total_seconds()
        return acked, acked / seconds if seconds > 0 else None


class RdkafkaPerformance(Tool):
    """librdkafka's own tool. It has one key for all records, so the keyed forms scatter by a random partitioner; and one
    value for all, which it does not even copy, so the form with values copies one for each record and writes a number into it."""

    on_mock = True

    def __init__(self, path, command, form):
        self.path, self.command, self.form = path, command, form
        self.name = REFERENCE + (" " + form if form else "")
        self.note = {
            "": "no keys: librdkafka fills one partition for 10 ms, then another; the same value again and again",
            "keyed": "an 8-byte key, a random partition for each record; the same value again and again",
            "with values": "an 8-byte key, a random partition for each record, a value of its own with a number in it",
        }[form]

    def version(self):
        found = re.search(r"librdkafka version (\S+)", usage_of(self.path))
        return f"librdkafka {found.group(1) if found else '?'}; {self.command}"

    def run(self, cell, bootstrap, topic, records, folder):
        argv = [self.path, "-P", "-b", bootstrap, "-t", topic, "-c", records, "-s", cell.value_bytes, "-i", 5000]
        if self.form:
            argv += ["-k", "8bytekey", "-X", "partitioner=random"]
        if self.form == "with values":
            argv += ["-S", "0"]
        return Run(argv + flags("-X", cell.properties))

    def own(self, running, folder):
        found = re.search(r"(\d+) delivered \(.*?in (\d+)ms: (\d+) msgs/s", running.output())
        return (int(found.group(1)), float(found.group(3))) if found else (None, None)


class KafkaPerf(Tool):
    """Kafka's own producer perf test. The first 40 % of its records warm the JVM up and are in no rate."""

    share, per_second, start_s, steady_from = 0.75, 600_000, 1.6, 0.4

    def __init__(self, keyed):
        self.keyed = keyed
        self.name = "ProducerPerformance" + (" keyed" if keyed else "")
        self.note = "Java; " + (
            "keys: numbers below a million" if keyed else "no keys: a batch to one partition, then another"
        )
        self.jars, self.missing = build.kafka_jars()

    def version(self):
        found = re.search(r"kafka-tools-([\d.]+)\.jar", " ".join(glob.glob(self.jars or "")))
        java = (output_of(["java", "-version"]) or "?").splitlines()[0]
        return f"Kafka {found.group(1) if found else '?'}, {java}"

    def run(self, cell, bootstrap, topic, records, folder):
        same = cell.properties
        properties = {name: same[name] for name in ("acks", "enable.idempotence", "linger.ms", "batch.size")}
        properties["compression.type"] = same["compression.type"]
        properties["max.in.flight.requests.per.connection"] = same["max.in.flight.requests.per.connection"]
        # Its queue has a limit by bytes only: as many as the others' queue by records holds.
        room = int(same["queue.buffering.max.messages"]) * (cell.value_bytes + 80)
        properties["buffer.memory"] = str(max(room, 32 * 1024 * 1024))
        argv = ["java", "-Xms768m", "-Xmx768m", "-cp", self.jars, "org.apache.kafka.tools.ProducerPerformance"]
        argv += ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", records]
        argv += [
            "--record-size",
            cell.value_bytes,
            "--throughput",
            -1,
            "--warmup-records",
            int(records * self.steady_from),
        ]
        if self.keyed:
            argv += ["--record-key-range", 1_000_000, "--key-distribution", "random"]
        return Run([*argv, "--command-property"] + [f"{name}={value}" for name, value in properties.items()])

    def own(self, running, folder):
        # The two summaries have percentiles up to 99.9, the lines in between do not.
        found = re.findall(
            r"^(\d+) (?:steady state )?records sent, ([\d.]+) records/sec.* 99\.9th\.$", running.output(), re.M
        )
        return (int(found[0][0]), float(found[-1][1])) if found else (None, None)


class Kcat(Tool):
    """kcat reading lines of a file."""

    name, note = "kcat", "lines of a file: 8-byte key, value"
    per_second = 1_000_000
    on_mock = True

    def __init__(self, files):
        self.files = files
        self.path, self.missing = build.kcat()

    def version(self):
        found = re.search(r"Version (\S+) .*?librdkafka ([\d.]+)", usage_of(self.path, "-V"))
        return f"kcat {found.group(1)}, librdkafka {found.group(2)}" if found else "?"

    def run(self, cell, bootstrap, topic, records, folder):
        lines = self.lines(cell.value_bytes, records)
        argv = [self.path, "-P", "-q", "-b", bootstrap, "-t", topic, "-p", -1, "-K", ":", "-l", lines]
        # Keys choose the partition, as with the Java client.
        return Run(argv + ["-X", "topic.partitioner=murmur2_random"] + flags("-X", cell.properties))

    def lines(self, size, records):
        """A file of so many records; the first 65,536 over and over."""
        path = os.path.join(self.files, f"kcat-{size}-{records}")
        if os.path.exists(path):
            return path
        if shutil.disk_usage(self.files).free < 2 * records * (size + 10):
            raise OSError(f"{self.files} has no room for the {records * (size + 10) >> 20} MiB that kcat reads")
        line = b"%08x:" + (b"abcdefghijklmnopqrstuvwxyz234567" * (size // 32 + 1))[:size] + b"\n"
        block = [line % (number * 0x9E3779B1 & 0xFFFFFFFF) for number in range(min(records, 65536))]
        with open(path, "wb") as file:
            for at in range(0, records, len(block)):
                file.write(b"".join(block[: records - at]))
        return path


class Confluent(Tool):
    """python's confluent-kafka."""

    name, note = "confluent-kafka (python)", "8-byte keys, 65,536 of them"
    share, per_second, start_s = 0.25, 300_000, 0.5

    def __init__(self):
        self.python, self.missing = build.confluent_python()

    def version(self):
        asked = "import confluent_kafka as c, sys; print(c.version()[0], c.libversion()[0], sys.version.split()[0])"
        found = (output_of([self.python, "-c", asked]) or "? ? ?").split()
        return f"confluent-kafka {found[0]}, librdkafka {found[1]}, Python {found[2]}"

    def run(self, cell, bootstrap, topic, records, folder):
        script = os.path.join(os.path.dirname(__file__), "confluent_peer.py")
        properties = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", **cell.properties}
        what = {"topic": topic, "records": records, "size": cell.value_bytes, "properties": properties}
        return Run([self.python, script, json.dumps(what)])

    def own(self, running, folder):
        for line in reversed(running.output().splitlines()):
            if line.startswith("{"):
                said = json.loads(line)
                return said["acked"], said["acked"] / said["seconds"]
        return None, None


def accepted(soakd, line):
    """Whether this soakd knows a setting of a stream."""
    path = os.path.join(build.CACHE, f"asked-{os.getpid()}.toml")
    os.makedirs(build.CACHE, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"[streams.main]\n{line}\n")
    done = subprocess.run([soakd, "config", "-c", path], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    os.unlink(path)
    return done.returncode == 0


def usage_of(path, argument="-h"):
    done = subprocess.run([path, argument], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout + done.stderr


def toml(properties):
    return "\n".join(f'"{name}" = "{value}"' for name, value in properties.items())


def flags(flag, properties):
    return [part for name, value in properties.items() for part in (flag, f"{name}={value}")]
