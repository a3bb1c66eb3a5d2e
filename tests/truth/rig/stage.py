"""What all scenes share: the settings of a run, and a played system to ask."""

import json

from rig import topic
from rig.daemon import Daemon
from rig.judge import Truth
from rig.processes import Acks, Noise, Played

PARTITIONS = 4
VALUE_BYTES = 100
POLL_S = 0.5
GROUP = "truth-group"
# Kinds that the played system gives one value of.
TOTALS = ("count", "lag_seconds")


class Stage:
    """What all scenes share."""

    def __init__(self, binary, home, broker, table, scale):
        self.binary, self.home, self.broker, self.table = binary, home, broker, table
        self.scale, self.noise = scale, Noise()
        # Of a scene that is played again.
        self.suffix = ""
        self.acks = None

    def settings(self, name, rate, seconds, stream="", sources="", drain_s=20):
        return f"""
[run]
name = "{name}"
duration = "{seconds:.3f}s"
after_run = "idle"
drain_timeout = "{drain_s}s"
[kafka]
brokers = ["{self.broker.bootstrap}"]
client = {{ "linger.ms" = 1, "compression.type" = "none" }}
[streams.main]
topic = "{name}"
partitions = {PARTITIONS}
rate = {rate}
key = {{ kind = "unique" }}
value = {{ kind = "random", size = {VALUE_BYTES} }}
topic_config = {{ "message.timestamp.type" = "LogAppendTime" }}
{stream}
{sources}"""

    def daemon(self, name, *arguments, **more):
        name += self.suffix
        return Daemon(self.binary, self.home / name, self.settings(name, *arguments, **more))

    def played(self, name, **told):
        name += self.suffix
        if self.acks:
            self.acks.end()
        self.acks = Acks(self.broker.bootstrap, self.home, f"{name}-acks")
        told = {"bootstrap": self.broker.bootstrap, "topic": name, "partitions": PARTITIONS} | told
        (self.home / f"{name}-system").mkdir()
        return Played(self.home / f"{name}-system", **told)

    def truth(self, log, far_s=0.0):
        """What was true of the system that was last played."""
        return Truth(log, self.noise.worst, self.acks.end().worst, far_s)

    def log(self, name):
        return topic.read(self.broker.bootstrap, name + self.suffix, PARTITIONS)

    def source(self, name, door, kind, played, more="", interval_s=POLL_S):
        """The settings of a progress source that asks at a door of the played system."""
        asked = {"stream": "main", "interval": f"{interval_s}s", "value": kind}
        web = f"http://127.0.0.1:{played.doors['http']}"
        if door == "sql":
            asked |= {"kind": "sql", "url": f"postgres://truth@127.0.0.1:{played.doors['sql']}/truth", "tls": "disable"}
            asked["query"] = f"SELECT partition, {kind} FROM progress"
        elif door == "http":
            asked |= {"kind": "http", "url": f"{web}/progress?kind={kind}", "json_pointer": "/value"}
            if kind not in TOTALS:
                asked |= {"rows": "/rows", "partition": "/partition"}
        elif door == "prometheus":
            asked |= {"kind": "prometheus", "url": f"{web}/metrics?kind={kind}"}
            asked |= {"series": "sut_progress"}
            if kind not in TOTALS:
                asked |= {"partition_label": "partition"}
        else:
            del asked["value"]
            asked |= {"kind": "consumer_group", "group": GROUP}
        lines = [f"{key} = {json.dumps(value)}" for key, value in asked.items()]
        return "\n".join([f"[progress.{name}]", *lines, more, ""])
