"""Processes of the rig: each ends with the rig, however that ends."""

import bisect
import ctypes
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SERVICES = HERE.parent / "services"
PR_SET_PDEATHSIG = 1
# Longer waits for a processor than this are no quiet machine.
BUSY_S = 0.010
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Child(subprocess.Popen):
    def __init__(self, argv, **more):
        super().__init__([str(part) for part in argv], preexec_fn=die_with_parent, cwd=HERE, **more)

    def end(self):
        if self.poll() is None:
            self.kill()
        self.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, holds, patience_s=30):
    deadline = time.monotonic() + patience_s
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {patience_s} s for: {what}")
        time.sleep(0.02)
    return found


def python(module, *arguments, **more):
    return Child([sys.executable, "-B", "-m", f"rig.{module}", *arguments], **more)


class Played:
    """The system under test, played."""

    def __init__(self, home, **told):
        self.log = Path(home) / "system.jsonl"
        self.child = python(
            "system",
            json.dumps(told | {"log": str(self.log)}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.doors = json.loads(self.child.stdout.readline())

    @property
    def pid(self):
        return self.child.pid

    def do(self, verb, **more):
        """Tells it what to do; when it did so, and how far it was."""
        self.child.stdin.write(json.dumps({"do": verb} | more) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def answers(self, door, kind=None):
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [one for one in found if one.get("door") == door and kind in (None, one["kind"])]


class Broker:
    """Apache Kafka by tests/services."""

    def __init__(self, home):
        self.home = Path(home) / "kafka"
        env = self.order("start")
        self.bootstrap = dict(line.split("=", 1) for line in env.splitlines())["BOOTSTRAP"]

    def order(self, verb):
        environment = os.environ | {"SOAKD_OWNER": str(os.getpid())}
        done = subprocess.run([SERVICES / "kafka", verb, self.home], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"kafka {verb}: {done.stderr}")
        return done.stdout

    @property
    def pid(self):
        return int((self.home / "pid").read_text())


def stopped(pid, seconds):
    """Stops a process for a time; when it stood still."""
    os.kill(pid, signal.SIGSTOP)
    begun = time.time()
    time.sleep(seconds)
    ended = time.time()
    os.kill(pid, signal.SIGCONT)
    return begun, ended


class Acks:
    """How long acks of another producer than soakd are on their way: see `rig/acks.py`."""

    EVERY_S = 0.004
    # Around an instant within which another producer's acks tell of soakd's.
    NEAR_S = 0.005

    def __init__(self, bootstrap, home, name):
        self.log = Path(home) / f"{name}.jsonl"
        self.child = python(
            "acks",
            bootstrap,
            name,
            self.EVERY_S,
            self.log,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.child.stdout.readline()
        self.had, self.ways = [], []

    def end(self):
        """Ends it and takes in what it has seen."""
        if self.child.poll() is None:
            self.child.stdin.close()
            self.child.wait(20)
        seen = sorted((one["had"], one["heard"]) for one in map(json.loads, self.log.read_text().splitlines()))
        self.had, self.ways = [had for had, _ in seen], [heard - had for had, heard in seen]
        return self

    def worst(self, at_s):
        """The longest way of an ack that was on it around an instant; endless where nothing was heard of."""
        begun, ended = at_s - self.NEAR_S, at_s + self.NEAR_S
        last = bisect.bisect_right(self.had, ended)
        first = bisect.bisect_left(self.had, begun - max(self.ways, default=0.0))
        found = [way for had, way in zip(self.had[first:last], self.ways[first:last]) if had + way >= begun]
        return max(found, default=math.inf)


class Noise:
    """How long a thread waits for a processor on this machine: no truth that programs read is free of it."""

    EVERY_S = 0.002

    def __init__(self):
        self.late = []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            before = time.monotonic()
            time.sleep(self.EVERY_S)
            late_s = time.monotonic() - before - self.EVERY_S
            if late_s > 0.001:
                self.late.append((time.time(), late_s))

    def share(self, begun, ended):
        """The share of a time in which a thread waited for more than BUSY_S."""
        waited_s = sum(late_s for at, late_s in self.late if begun <= at <= ended and late_s > BUSY_S)
        return waited_s / (ended - begun)

    def worst(self, begun, ended):
        return max((late_s for at, late_s in self.late if begun <= at <= ended + late_s), default=0.0)
