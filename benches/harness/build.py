"""What is measured, built: soakd, its helper, and librdkafka's own performance tool from the same C sources."""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

from .processes import Failed, output_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVICES = os.path.join(ROOT, "tests", "services")
CACHE = os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "soakd-benches"
)
FEATURES = ["--no-default-features", "--features", "system-tls"]
CONFLUENT_KAFKA = "2.12.1"  # carries the librdkafka that soakd is built with


def cargo(arguments, env=None):
    """Runs cargo and returns its messages."""
    command = ["cargo", *arguments, *FEATURES, "--locked", "--message-format=json-render-diagnostics"]
    print("building: " + " ".join(command), flush=True)
    if shutil.which("cargo") is None:
        raise Failed("cargo is missing; install Rust first (rust-toolchain.toml says which)")
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise Failed("cargo failed, see above")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Built:
    """Paths of what was built."""

    def __init__(self, messages):
        self.programs, self.out = {}, {}
        for message in messages:
            if message["reason"] == "compiler-artifact" and message.get("executable"):
                self.programs[message["target"]["name"]] = message["executable"]
            if message["reason"] == "build-script-executed":
                for crate in ("rdkafka-sys", "zstd-sys"):
                    if crate in message["package_id"]:
                        self.out[crate] = message["out_dir"]

    @property
    def soakd(self):
        return self.programs["soakd"]

    @property
    def helper(self):
        return self.programs["helper"]


def build(env=None):
    """soakd and the helper, for release."""
    return Built(cargo(["build", "--release", "--bin", "soakd", "--bench", "helper"], env))


def rdkafka_performance(built):
    """Compiles librdkafka's own tool against the library that soakd is linked with; returns path and command."""
    source = built.out.get("rdkafka-sys")
    if not source:
        raise Failed("cargo did not say where rdkafka-sys was built")
    archives = [os.path.join(source, "src", "librdkafka.a")]
    if "zstd-sys" in built.out:
        archives += sorted(glob.glob(os.path.join(built.out["zstd-sys"], "**", "libzstd.a"), recursive=True))
    libraries = ["-lssl", "-lcrypto", "-lz", "-lm", "-lpthread", "-ldl", "-lrt"]
    tool = os.path.join(source, "examples", "rdkafka_performance.c")
    command = ["cc", "-O2", "-I" + os.path.join(source, "src"), tool, *archives, *libraries]
    name = hashlib.sha256(" ".join(command).encode()).hexdigest()[:12]
    path = os.path.join(CACHE, f"rdkafka_performance-{name}")
    # librdkafka may have been built again in the same place.
    fresh = os.path.exists(path) and os.path.getmtime(path) > os.path.getmtime(archives[0])
    if not fresh:
        os.makedirs(CACHE, exist_ok=True)
        done = subprocess.run(
            [*command, "-o", path + ".new"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Failed(f"rdkafka_performance cannot be compiled:\n{done.stderr[-2000:]}")
        os.replace(path + ".new", path)
    return path, " ".join(command)


def kafka_jars():
    """The class path of Kafka's tools, by tests/services/kafka."""
    script = os.path.join(SERVICES, "kafka")
    if shutil.which("java") is None:
        return None, "java is missing: apt-get install default-jre-headless"
    done = subprocess.run(
        [
            "bash",
            "-c",
            '. "$1"; JARS=; fetch_kafka_jars >&2; echo "$JARS"',
            "jars",
            os.path.join(SERVICES, "common.sh"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return None, f"{script} fetch failed: {done.stderr.strip()[-200:]}"
    return done.stdout.strip() + "/*", None


def kcat():
    """The path of kcat, installed when that is possible."""
    if shutil.which("kcat") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing kcat", flush=True)
        env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        output_of(["apt-get", "-y", "update"], 300, env=env)
        output_of(["apt-get", "-y", "install", "--no-install-recommends", "kcat"], 300, env=env)
    found = shutil.which("kcat") or shutil.which("kafkacat")
    return (found, None) if found else (None, "kcat is missing: apt-get install kcat")


def confluent_python():
    """A Python that has confluent-kafka, in a virtual environment that is kept."""
    home = os.path.join(CACHE, f"confluent-kafka-{CONFLUENT_KAFKA}")
    python = os.path.join(home, "bin", "python")
    asked = [python, "-c", "import confluent_kafka"]
    if output_of(asked) is not None:
        return python, None
    print(f"installing confluent-kafka {CONFLUENT_KAFKA} into {home}", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    if output_of([sys.executable, "-m", "venv", home], 120) is None:
        return None, "python3 cannot make a virtual environment: apt-get install python3-venv"
    pip = [python, "-m", "pip", "install", "-q", "--only-binary=:all:", f"confluent-kafka=={CONFLUENT_KAFKA}"]
    if output_of(pip, 300) is None or output_of(asked) is None:
        shutil.rmtree(home, ignore_errors=True)
        return None, f"pip cannot install confluent-kafka {CONFLUENT_KAFKA}"
    return python, None
