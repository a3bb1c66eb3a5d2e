"""Tests of the harness: cd benches && python3 -B -m unittest harness.test_harness."""

import os
import socket
import struct
import tempfile
import threading
import time
import unittest

from . import callgrind, machine, rig, table, watch, wire
from .processes import Processes


class Ended:
    def __init__(self, code):
        self.code = code


class Peer:
    def __init__(self, name):
        self.name = name


class Judging(unittest.TestCase):
    def test_a_run_that_lost_or_doubled_records_is_marked_whatever_it_says(self):
        peer, good = Peer("kcat"), Ended(0)
        self.assertIsNone(rig.fault(good, 1000, 1000, None, False, peer))
        self.assertIsNone(rig.fault(good, 1000, 1000, 1000, False, peer))
        self.assertEqual(rig.fault(good, 1000, 990, 1000, False, peer), "lost 10")
        self.assertEqual(rig.fault(good, 1000, 1001, 1000, False, peer), "1 too many")
        self.assertEqual(rig.fault(good, 1000, 1000, 999, False, peer), "says 999 acked")

    def test_an_exit_code_or_a_signal_is_a_fault_but_soakds_own_verdict_is_not(self):
        self.assertEqual(rig.fault(Ended(4), 10, 10, 10, False, Peer("kcat")), "exit code 4")
        self.assertEqual(rig.fault(Ended(-9), 10, 10, 10, False, Peer("kcat")), "ended by SIGKILL")
        self.assertIsNone(rig.fault(Ended(4), 10, 10, 10, False, Peer("soakd unkeyed")))
        self.assertEqual(rig.fault(Ended(3), 10, 0, None, False, Peer("soakd")), "exit code 3")

    def test_the_rate_is_taken_where_the_run_is_steady(self):
        # A slow start of a second, then 1,000 a second, then a second of waiting for the last record.
        samples = [(0.0, 0), (1.0, 50)] + [(1.0 + n / 10, 50 + n * 100) for n in range(1, 10)] + [(2.9, 999)]
        self.assertAlmostEqual(rig.steady_rate(samples, 1000, 0.15), 1000, delta=1)
        self.assertIsNone(rig.steady_rate([(0.0, 0), (0.1, 1000)], 1000, 0.15), "too short to see")

    def test_a_spread_passes_over_what_is_not_there(self):
        self.assertEqual(rig.spread([3, None, 1, 2]), {"median": 2, "min": 1, "max": 3, "runs": 3})
        self.assertIsNone(rig.spread([None]))


class Watching(unittest.TestCase):
    def test_counters_are_summed_over_their_series(self):
        text = (
            'soakd_records_sent_total{stream="a"} 10\nsoakd_records_sent_total{stream="b"} 5\n'
            'soakd_records_sent_total_of_another{stream="a"} 7\nsoakd_run_state{state="measuring"} 1\n'
        )
        self.assertEqual(watch.counters(text)["sent"], 15)
        self.assertTrue(watch.measuring(text))

    def test_a_rate_is_by_the_looks_own_times(self):
        looks = [{"at_s": 10.0, "sent": 100}, {"at_s": 12.5, "sent": 350}]
        self.assertAlmostEqual(watch.rate_between(*looks), 100)

    def test_quantiles_are_of_the_numbers_themselves(self):
        self.assertEqual(watch.quantile(range(100), 0.99), 99)
        self.assertIsNone(watch.quantile([], 0.5))


class Tables(unittest.TestCase):
    def test_columns_are_as_wide_as_they_must_be(self):
        text = table.markdown(["a", "long head"], [["wide cell", 1]])
        self.assertEqual(text.splitlines()[0], "| a         | long head |")
        self.assertEqual(len({len(line) for line in text.splitlines()}), 1)


class Callgrind(unittest.TestCase):
    TEXT = """version: 1
events: Ir
fn=(1) soakd::lane::run::h0123456789abcdef
10 5
+3 2
cfn=(2) rd_kafka_produceva
calls=3 20
* 90
fn=(2)
20 60
cfn=(3) rd_kafka_msg_new0
calls=3 1
+1 30
fn=(3)
1 30
totals: 97
"""

    def test_own_and_called_instructions_are_told_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out-01")
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.TEXT)
            profile = callgrind.Profile(path)
            self.assertEqual(callgrind.files(os.path.join(folder, "out")), [path])
        self.assertEqual(profile.total, 97)
        self.assertEqual(profile.own["rd_kafka_produceva"], 60)
        self.assertEqual(profile.calls_into_client(), {"rd_kafka_produceva": 90}, "not what librdkafka calls itself")
        self.assertEqual(profile.kind(), "lane")
        self.assertEqual(callgrind.short("soakd::lane::run::h0123456789abcdef"), "soakd::lane::run")


class OwnProcesses(unittest.TestCase):
    def test_everything_is_stopped_by_pid_when_a_bench_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(ZeroDivisionError), Processes() as processes:
                stubborn = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
                process = processes.start(stubborn, os.path.join(folder, "log"))
                while "ready" not in process.output():
                    time.sleep(0.01)
                stop, process.stop = process.stop, lambda: stop(grace_s=0.2)
                _ = 1 / 0
            self.assertFalse(process.alive)
            self.assertEqual(process.code, -9)
            self.assertFalse(os.path.exists(f"/proc/{process.pid}"))

    def test_the_kernel_says_what_a_process_used(self):
        with tempfile.TemporaryDirectory() as folder, Processes() as processes:
            process = processes.start(["python3", "-c", "sum(range(10**6))"], os.path.join(folder, "log"))
            self.assertTrue(process.wait(30))
            self.assertGreater(process.cpu_s(), 0.005)
            self.assertGreaterEqual(process.wall_s() * len(os.sched_getaffinity(0)), process.cpu_s() * 0.9)

    def test_the_machine_is_read(self):
        self.assertGreater(machine.busy_s(), 0)
        self.assertIsNotNone(machine.process_cpu_s(os.getpid()))
        self.assertIsNone(machine.process_cpu_s(2**22 + 1))


class Wire(unittest.TestCase):
    """A broker that answers one connection from a list of prepared bodies."""

    def cluster(self, *bodies):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def serve():
            connection, _ = server.accept()
            with connection:
                for body in bodies:
                    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                    request = connection.recv(size, socket.MSG_WAITALL)
                    answer = request[4:8] + body
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

        threading.Thread(target=serve, daemon=True).start()
        cluster = wire.Cluster(f"127.0.0.1:{server.getsockname()[1]}")
        self.addCleanup(cluster.close)
        return cluster

    @staticmethod
    def offsets(*partitions):
        entries = wire.array(struct.pack(">ihqq", number, error, -1, offset) for number, error, offset in partitions)
        return wire.array([wire.text("t") + entries])

    def test_end_offsets_come_in_the_order_of_partitions(self):
        cluster = self.cluster(self.offsets((1, 0, 20), (0, 0, 10)))
        cluster.leaders["t"] = {0: cluster.bootstrap, 1: cluster.bootstrap}
        self.assertEqual(cluster.end_offsets("t"), [10, 20])

    def test_an_error_is_never_an_offset(self):
        cluster = self.cluster(self.offsets((0, 29, 10)))
        cluster.leaders["t"] = {0: cluster.bootstrap}
        with self.assertRaisesRegex(wire.KafkaError, "29"):
            cluster.end_offsets("t")

    def test_a_closed_connection_is_an_error(self):
        cluster = self.cluster()
        with self.assertRaises(wire.KafkaError):
            cluster.metadata(["t"])


if __name__ == "__main__":
    unittest.main()
