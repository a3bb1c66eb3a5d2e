"""Processes of the benches: started in sessions of their own, measured, and stopped by their pids whatever happens."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A bench cannot go on; the text says why and what to do."""


def end_on_signals():
    """SIGTERM and SIGHUP end a bench as Ctrl-C does, so that everything it started is stopped."""

    def leave(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def die_with_parent():
    """In the child: even a kill -9 of the bench leaves nothing running."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Running:
    """A process of ours. `usage` and `ended_s` are there once it has ended."""

    def __init__(self, argv, log, stdin=subprocess.DEVNULL, stdout=None, env=None):
        self.argv, self.log_path = [str(part) for part in argv], log
        self.code = self.usage = self.ended_s = None
        with open(log, "ab") as output:
            self.began_s = time.monotonic()
            self.process = subprocess.Popen(
                self.argv,
                stdin=stdin,
                stdout=stdout or output,
                stderr=output,
                env=env,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.pid = self.process.pid
        # A thread that only waits knows the instant of the end and what the process used.
        self.waiter = threading.Thread(target=self.reap, daemon=True)
        self.waiter.start()

    def reap(self):
        _, status, self.usage = os.wait4(self.pid, 0)
        self.ended_s = time.monotonic()
        self.code = os.waitstatus_to_exitcode(status)
        self.process.returncode = self.code

    def wait(self, timeout_s):
        """True when it has ended within the time."""
        self.waiter.join(timeout_s)
        return not self.waiter.is_alive()

    @property
    def alive(self):
        return self.waiter.is_alive()

    def cpu_s(self):
        """User and system seconds of an ended process and the children it waited for."""
        return self.usage.ru_utime + self.usage.ru_stime

    def wall_s(self):
        return self.ended_s - self.began_s

    def output(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def tail(self, lines=12):
        return "\n".join(self.output().splitlines()[-lines:])

    def stop(self, grace_s=5.0):
        """Asks it to end, then kills it."""
        for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
            if not self.alive:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            self.wait(patience_s)


class Processes:
    """Everything a bench started, to be stopped at its end: use it with `with`."""

    def __init__(self):
        self.running = []
        self.at_end = []

    def start(self, argv, log, **how):
        process = Running(argv, log, **how)
        self.running.append(process)
        return process

    def stop(self, process, grace_s=5.0):
        process.stop(grace_s)
        if process in self.running:
            self.running.remove(process)

    def service(self, script, folder, arguments=()):
        """Starts one of tests/services and returns what it says of itself; it is stopped at the end."""
        env = dict(os.environ, SOAKD_OWNER=str(os.getpid()))
        self.at_end.append([str(script), "stop", str(folder)])
        done = subprocess.run(
            [str(script), "start", str(folder), *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Failed(f"{script} start failed:\n{done.stderr.strip()}")
        lines = (line.partition("=") for line in done.stdout.splitlines())
        return {key: value for key, _, value in lines}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # A second Ctrl-C must not leave the rest running.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for process in reversed(self.running):
            process.stop()
        for command in reversed(self.at_end):
            subprocess.run(command, stdin=subprocess.DEVNULL, check=False)


def output_of(argv, timeout_s=60, **how):
    """The output of a short command, both streams; None when it is not there or fails."""
    try:
        done = subprocess.run(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
            **how,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
