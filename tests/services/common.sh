# shellcheck shell=bash
# What every service script shares: the commands, processes, ports, packages. Sourced, never run.
#
# A service script sets SERVICE, defines the functions below and ends with `service_main "$@"`:
#   service_fetch              gets what is not a Debian package into the cache (optional)
#   service_prepare [ARG...]   at the first start of DIR: ports, settings, data; writes $DIR/env by env_put
#   service_launch             starts the process by `launch COMMAND...`; runs at every start
#   service_ready              succeeds when clients can use it; asked again and again until START_TIMEOUT
# and may set STOP_SIGNAL, START_TIMEOUT and STOP_TIMEOUT (seconds), or define service_verb_NAME for a command of its own.

START_TIMEOUT=90
STOP_TIMEOUT=15
STOP_SIGNAL=TERM

KAFKA_VERSION=4.4.0
DEPENDENCY_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

fail() {
	echo "${SERVICE:-services}: $*" >&2
	exit 1
}

# --- the env file: KEY=VALUE lines, values as they are ---

env_put() { printf '%s=%s\n' "$1" "$2" >>"$DIR/env"; }

env_get() { sed -n "s/^$1=//p" "$DIR/env" | tail -n 1; }

# --- ports ---

# Prints free loopback ports, as many as asked for. They lie below the range from which the kernel takes the ports of
# outgoing connections, so that no client sits on a service's port while that service restarts.
free_ports() {
	python3 - "$1" <<'PYTHON'
import random, socket, sys

with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
    low = int(limits.read().split()[0])
first, last = (15000, low - 1) if low > 20000 else (15000, 65000)
found = []
for _ in range(2000):
    port = random.randint(first, last)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
    if port not in found:
        found.append(port)
    if len(found) == int(sys.argv[1]):
        print(*found)
        sys.exit()
sys.exit("no free port on 127.0.0.1 after 2000 tries")
PYTHON
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

http_ok() { curl -fsS -m 5 -o /dev/null "$1" 2>/dev/null; }

# --- jars ---

# Gets the jars of the coordinates and all they need at run time: fetch_jars NAME VERSION UNWANTED COORDINATE...
# UNWANTED is an extended regular expression of file names to leave out (or ""). Sets JARS to the folder.
fetch_jars() {
	local name=$1 version=$2 unwanted=$3
	shift 3
	local cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/soakd-tests
	local hash
	hash=$(printf '%s\n' "$DEPENDENCY_PLUGIN" "$unwanted" "$@" | sha256sum | cut -c 1-12)
	JARS=$cache/$name-$version-$hash
	[[ -d $JARS ]] && return
	mkdir -p "$cache"
	exec 8>"$cache/$name.lock"
	flock -w 600 8 || fail "another process has held $cache/$name.lock for ten minutes"
	if [[ ! -d $JARS ]]; then
		local work coordinate group artifact release
		work=$(mktemp -d "$cache/.$name.XXXXXX")
		{
			echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
			echo "<groupId>soakd.tests</groupId><artifactId>$name</artifactId><version>1</version><packaging>pom</packaging><dependencies>"
			for coordinate in "$@"; do
				IFS=: read -r group artifact release <<<"$coordinate"
				echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$release</version></dependency>"
			done
			echo '</dependencies></project>'
		} >"$work/pom.xml"
		if ! (cd "$work" && mvn -B -q "$DEPENDENCY_PLUGIN:copy-dependencies" \
			-DincludeScope=runtime -DoutputDirectory=jars) </dev/null >"$work/log" 2>&1 8>&-; then
			tail -n 40 "$work/log" >&2
			rm -rf "$work"
			fail "Maven could not get the jars of $name $version"
		fi
		if [[ -n $unwanted ]]; then
			find "$work/jars" -name '*.jar' -printf '%f\n' | grep -E "$unwanted" | (cd "$work/jars" && xargs -r rm --)
		fi
		mv "$work/jars" "$JARS"
		rm -rf "$work"
	fi
	exec 8>&-
}

# Apache Kafka with its tools and the Connect worker. Sets JARS.
fetch_kafka_jars() {
	fetch_jars kafka "$KAFKA_VERSION" "" \
		"org.apache.kafka:kafka_2.13:$KAFKA_VERSION" \
		"org.apache.kafka:kafka-tools:$KAFKA_VERSION" \
		"org.apache.kafka:connect-runtime:$KAFKA_VERSION" \
		"org.apache.kafka:connect-json:$KAFKA_VERSION" \
		"org.apache.kafka:connect-transforms:$KAFKA_VERSION" \
		"org.slf4j:slf4j-simple:1.7.36"
}

# --- Python packages ---

# Gets one package without what it depends on: fetch_python NAME VERSION SHA256..., a hash for each file that will do.
# Sets PYTHON_LIBRARY to the folder.
fetch_python() {
	local name=$1 version=$2 hash
	shift 2
	local cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/soakd-tests
	PYTHON_LIBRARY=$cache/$name-$version
	[[ -d $PYTHON_LIBRARY ]] && return
	mkdir -p "$cache"
	exec 8>"$cache/$name.lock"
	flock -w 600 8 || fail "another process has held $cache/$name.lock for ten minutes"
	if [[ ! -d $PYTHON_LIBRARY ]]; then
		local work
		work=$(mktemp -d "$cache/.$name.XXXXXX")
		{
			printf '%s' "$name==$version"
			for hash in "$@"; do printf ' --hash=sha256:%s' "$hash"; done
			echo
		} >"$work/requirements"
		if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps \
			--no-compile --no-cache-dir --require-hashes -r "$work/requirements" --target "$work/library"; } >"$work/log" 2>&1 8>&-; then
			tail -n 40 "$work/log" >&2
			rm -rf "$work"
			fail "pip could not get $name $version"
		fi
		mv -T "$work/library" "$PYTHON_LIBRARY"
		rm -rf "$work"
	fi
	exec 8>&-
}

# --- processes ---

# "STATE STARTED" of a process from /proc; fails when there is none.
process_stat() {
	local line
	read -r line <"/proc/$1/stat" || return 1
	line=${line##*) }
	# shellcheck disable=SC2086
	set -- $line
	echo "$1 ${20}"
} 2>/dev/null

# Sets PID and STATE and succeeds while the instance's process lives; a number that another process got is not it.
running() {
	PID="" STATE=""
	local started now
	[[ -s $DIR/pid && -s $DIR/pid.started ]] || return 1
	PID=$(<"$DIR/pid")
	started=$(<"$DIR/pid.started")
	now=$(process_stat "$PID") || return 1
	STATE=${now% *}
	[[ $STATE != [ZX] && ${now#* } == "$started" ]]
}

# The process and all that descend from it.
tree() {
	local child
	echo "$1"
	for child in $(pgrep -P "$1" || true); do
		tree "$child"
	done
}

signal_tree() {
	local pids
	mapfile -t pids < <(tree "$2")
	kill "-$1" "${pids[@]}" 2>/dev/null || true
}

# Starts the service's process in a session of its own, off the caller's terminal, pipes and lock.
launch() {
	touch "$DIR/log"
	LOG_OFFSET=$(stat -c %s "$DIR/log")
	echo "--- start $(date -u +%FT%TZ): ${1##*/}" >>"$DIR/log"
	SOAKD_SERVICE_DIR=$DIR setsid "$@" </dev/null >>"$DIR/log" 2>&1 9>&- &
	echo $! >"$DIR/pid"
	process_stat $! | cut -d ' ' -f 2 >"$DIR/pid.started"
}

# Starts a Java program with a log that shows the time: launch_java OPTION... -cp JARS CLASS ARG...
launch_java() {
	launch java -Dorg.slf4j.simpleLogger.showDateTime=true "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS" "$@"
}

# Does the log since this start hold a line that matches?
logged() { tail -c "+$((LOG_OFFSET + 1))" "$DIR/log" | grep -qE "$1"; }

give_up() {
	echo "--- last lines of $DIR/log" >&2
	tail -n 40 "$DIR/log" >&2 || true
	fail "$1"
}

# Waits for `COMMAND...` to succeed: wait_until SECONDS COMMAND...
wait_until() {
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < deadline)) || return 1
		sleep 0.1
	done
}

not_running() { ! running; }

# --- the commands ---

verb_start() {
	if running; then
		[[ $STATE == T ]] && fail "the process $PID of $DIR is frozen; thaw it first"
		cat "$DIR/env"
		return
	fi
	if declare -F service_fetch >/dev/null; then service_fetch; fi
	if [[ ! -e $DIR/prepared ]]; then
		: >"$DIR/env"
		service_prepare "$@"
		touch "$DIR/prepared"
	fi
	service_launch
	local deadline=$((SECONDS + START_TIMEOUT))
	until service_ready; do
		running || give_up "the process ended before it was ready"
		if ((SECONDS >= deadline)); then
			signal_tree KILL "$PID"
			give_up "not ready after $START_TIMEOUT s"
		fi
		sleep 0.1
	done
	if [[ -n ${SOAKD_OWNER:-} ]]; then watch_owner "$SOAKD_OWNER"; fi
	cat "$DIR/env"
}

# Stops the instance when the process that asked for it has ended, however it ended.
watch_owner() {
	local owner
	owner=$(process_stat "$1") || fail "SOAKD_OWNER is $1, and there is no such process"
	env -u SOAKD_TEST_ROOT setsid "$(realpath "$0")" watch "$DIR" "$1" "${owner#* }" </dev/null >/dev/null 2>&1 9>&- &
}

verb_watch() {
	local now watcher=$DIR/watcher-$1
	exec 7>"$watcher"
	flock -n 7 || return 0
	while now=$(process_stat "$1") && [[ ${now#* } == "$2" && ${now% *} != [ZX] ]]; do sleep 1; done
	if [[ -d $DIR ]]; then exec "$0" stop "$DIR" 7>&-; fi
}

verb_stop() {
	if running; then
		signal_tree CONT "$PID"
		kill "-$STOP_SIGNAL" "$PID" 2>/dev/null || true
		if ! wait_until "$STOP_TIMEOUT" not_running; then
			echo "$SERVICE: process $PID did not end within $STOP_TIMEOUT s of SIG$STOP_SIGNAL; killed" >&2
			verb_kill
		fi
	fi
	rm -f "$DIR/pid" "$DIR/pid.started"
}

verb_kill() {
	if running; then
		local pids pid
		mapfile -t pids < <(tree "$PID")
		kill -KILL "${pids[@]}" 2>/dev/null || true
		for pid in "${pids[@]}"; do
			wait_until 10 gone "$pid" || fail "process $pid is still there 10 s after SIGKILL"
		done
	fi
	rm -f "$DIR/pid" "$DIR/pid.started"
}

gone() {
	local now
	now=$(process_stat "$1") || return 0
	[[ $now == [ZX]* ]]
}

verb_restart() {
	[[ -e $DIR/prepared ]] || fail "nothing was ever started in $DIR"
	verb_stop
	verb_start "$@"
}

verb_freeze() {
	running || fail "not running in $DIR"
	signal_tree STOP "$PID"
}

verb_thaw() {
	running || fail "not running in $DIR"
	signal_tree CONT "$PID"
}

verb_status() {
	if ! running; then
		echo stopped
		exit 3
	elif [[ $STATE == T ]]; then
		echo "frozen $PID"
	else
		echo "running $PID"
	fi
}

service_main() {
	local usage="usage: ${0##*/} start DIR [ARG...] | stop|restart|kill|freeze|thaw|status DIR | fetch"
	local verb=${1:-}
	[[ -n $verb ]] || fail "$usage"
	shift
	if [[ $verb == fetch ]]; then
		if declare -F service_fetch >/dev/null; then service_fetch; fi
		return
	fi
	[[ -n ${1:-} ]] || fail "$usage"
	DIR=$1
	shift
	case $verb in
	start)
		mkdir -p "$DIR"
		DIR=$(realpath "$DIR")
		echo "$SERVICE" >"$DIR/service"
		;;
	*)
		[[ -d $DIR ]] || fail "there is no folder $DIR"
		DIR=$(realpath "$DIR")
		;;
	esac
	case $verb in
	start | stop | restart | kill)
		exec 9>"$DIR/lock"
		flock -w 240 9 || fail "another command has held $DIR/lock for four minutes"
		"verb_$verb" "$@"
		;;
	freeze | thaw | status | watch) "verb_$verb" "$@" ;;
	*)
		declare -F "service_verb_$verb" >/dev/null || fail "$usage"
		"service_verb_$verb" "$@"
		;;
	esac
}
