"""The machine that is measured on: what it is, and who else uses it."""

import os
import platform
import shutil
import socket
import time

TICKS = os.sysconf("SC_CLK_TCK")


def read(path, otherwise=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return otherwise


def field(path, name):
    for line in read(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def busy_s():
    """CPU seconds that all processes have used since the machine's start, stolen time included."""
    columns = [int(number) for number in read("/proc/stat", "cpu 0").splitlines()[0].split()[1:]]
    idle = sum(columns[3:5])
    # Guests are in user already.
    return (sum(columns[:8]) - idle) / TICKS


def process_cpu_s(pid):
    """User and system seconds of a running process, in hundredths; None when there is none."""
    stat = read(f"/proc/{pid}/stat")
    if not stat:
        return None
    columns = stat.rsplit(") ", 1)[1].split()
    return (int(columns[11]) + int(columns[12])) / TICKS


def memory_bytes(pid):
    """Resident memory of a process."""
    pages = read(f"/proc/{pid}/statm", "0 0").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def facts():
    """What a reader has to know of the machine; `others_cores` is what ran before the bench."""
    began, before = time.monotonic(), busy_s()
    time.sleep(1.0)
    others = (busy_s() - before) / (time.monotonic() - began)
    memory_kib = int(field("/proc/meminfo", "MemTotal").split()[0] or 0)
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "system": field_of_release("PRETTY_NAME"),
        "load_before": [float(number) for number in read("/proc/loadavg", "0 0 0").split()[:3]],
        "others_cores": round(others, 2),
        "python": platform.python_version(),
    }


def field_of_release(name):
    for line in read("/etc/os-release").splitlines():
        key, _, value = line.partition("=")
        if key == name:
            return value.strip('"')
    return platform.system()


def free_port():
    """A free loopback port, below those that the kernel gives to outgoing connections."""
    low = int(read("/proc/sys/net/ipv4/ip_local_port_range", "32768 60999").split()[0])
    for port in range(15000 + os.getpid() % 5000, low if low > 20000 else 65000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port on 127.0.0.1")


def scratch_parent(needed_bytes):
    """Where a broker's data go: memory when there is plenty, so that no disk is measured; else None."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK):
        return None
    available = int(field("/proc/meminfo", "MemAvailable").split()[0] or 0) * 1024
    room = min(shutil.disk_usage(memory).free, available // 2)
    return memory if room > needed_bytes else None
