"""The rig's own arithmetic, held against what can be worked out by hand."""

import contextlib
import io
import math
import sys
import types
import unittest

# The rig's own arithmetic needs no broker.
sys.modules.setdefault("confluent_kafka", types.ModuleType("confluent_kafka"))

from rig import models
from rig.figures import Table, number
from rig.judge import Truth, outside, pairs
from rig.processes import Acks
from rig.system import Shares


class Have:
    """A partition without a broker: records due every 10 ms, appended 5 ms later."""

    def __init__(self, count):
        self.intended_ms = [1000 + 10 * n for n in range(count)]
        self.appended_ms = [ms + 5 for ms in self.intended_ms]
        self.sequence, self.marker = list(range(count)), bytearray(count)

    def head(self, at_s):
        return sum(ms <= at_s * 1000 for ms in self.appended_ms)


class Models(unittest.TestCase):
    def test_without_a_cap_a_stop_is_seen_as_a_straight_line(self):
        found = models.handed_over(1000, 6000, 0.0, 10**9, 2.0, broker_away=(2.0, 4.0))
        late = [acked - due for due, _, acked in found]
        self.assertEqual(late[:2000], [0.0] * 2000)
        for n in range(2000, 4000):
            self.assertAlmostEqual(late[n], 4.0 - n / 1000)
        self.assertAlmostEqual(models.quantile(sorted(late), 0.9), 2.0 - 0.6, places=2)
        self.assertEqual(models.late_seconds(found), 0.0)

    def test_with_a_cap_the_second_half_is_worked_off_at_twice_the_rate(self):
        found = models.handed_over(1000, 8000, 0.0, 1000, 2.0, broker_away=(2.0, 4.0))
        due, at, acked = found[3500]
        self.assertAlmostEqual(acked - due, 1.0 - 0.5 / 2, delta=0.015)
        self.assertEqual((at, acked), (at, at))
        self.assertAlmostEqual(max(a - d for d, _, a in found), 2.0, delta=0.002)
        self.assertAlmostEqual(models.late_seconds(found), 1.95, delta=0.02)

    def test_a_stopped_load_is_late_by_the_whole_stop(self):
        found = models.handed_over(1000, 9000, 0.0, 1000, 2.0, load_away=(3.0, 5.0))
        delays = [at - due for due, at, _ in found]
        self.assertAlmostEqual(max(delays), 2.0, delta=0.002)
        self.assertAlmostEqual(sum(delay > 1.0 for delay in delays), 2000, delta=25)

    def test_a_bound_belongs_to_its_bucket(self):
        self.assertEqual([models.bucket([1, 2, 4], value) for value in (0.5, 1, 1.1, 4, 5)], [0, 0, 1, 2, 3])
        self.assertEqual(models.quantile([1, 2, 3, 4], 0.5), 2)
        self.assertEqual(models.quantile([1, 2, 3, 4], 1.0), 4)


class Judgement(unittest.TestCase):
    def test_lag_and_age_by_the_log(self):
        truth = Truth([Have(100), Have(100)], lambda *_: 0.0, lambda _: 0.001)
        self.assertEqual(truth.heads(1.505), [51, 51])
        self.assertEqual(truth.lag([41, 60], 1.505), 10)
        self.assertAlmostEqual(truth.age([41, 60], 1.505), 1.505 - 1.41)
        self.assertEqual(truth.age([51, 51], 1.505), 0.0)

    def test_an_unseen_marker_grows_older_and_a_lost_one_before_it_does_not_count(self):
        have = Have(100)
        have.marker[10] = have.marker[40] = 1
        truth = Truth([have], lambda *_: 0.0, lambda _: 0.001)
        self.assertAlmostEqual(truth.unseen([None], 1.9), 1.9 - 1.1)
        self.assertAlmostEqual(truth.unseen([10], 1.9), 1.9 - 1.4)
        self.assertEqual(truth.unseen([40], 1.9), 0.0)

    def test_a_sample_belongs_to_the_last_answer_before_it(self):
        answers = [{"left": 1.0}, {"left": 1.5}, {"left": 2.0}]
        found = list(pairs([{"at": 1.52}, {"at": 3.0}], answers))
        self.assertEqual([answer["left"] for _, answer in found], [1.5])

    def test_no_sample_is_judged_while_acks_are_slow(self):
        answer = {"came": 1.3, "left": 1.4, "sent": 1.4}
        for way_s, quiet in ((0.001, True), (0.02, False), (math.inf, False)):
            truth = Truth([Have(100)], lambda *_: 0.002, lambda _, way_s=way_s: way_s)
            self.assertEqual(truth.quiet(answer, 0.1), quiet)
        # Of a broker that is far away it is what comes on top.
        self.assertTrue(Truth([Have(100)], lambda *_: 0.002, lambda _: 0.103, 0.1).quiet(answer, 0.1))

    def test_the_longest_way_of_an_ack_around_an_instant(self):
        acks = Acks.__new__(Acks)
        acks.had, acks.ways = [1.0, 1.01, 1.02, 1.03], [0.001, 0.2, 0.001, 0.002]
        self.assertEqual([acks.worst(at_s) for at_s in (1.0, 1.03, 1.15, 1.3)], [0.001, 0.2, 0.2, math.inf])

    def test_answers_hold_for_evenly_spread_instants(self):
        shares = Shares(1)
        found = sorted(shares.next("sql") for _ in range(13))
        self.assertAlmostEqual(sum(found) / 13, 0.5, delta=0.05)
        self.assertLess(max(after - at for at, after in zip(found, found[1:])), 0.13)

    def test_a_truth_that_is_known_within_bounds(self):
        self.assertEqual([outside(value, 2, 4) for value in (1, 3, 5)], [2, 3, 4])


class Tables(unittest.TestCase):
    def setUp(self):
        self.table = Table()
        with contextlib.redirect_stdout(io.StringIO()):
            self.table.begin("scene")

    def add(self, verb, *arguments):
        with contextlib.redirect_stdout(io.StringIO()):
            getattr(self.table, verb)(*arguments)
        return [row[-1] for row in self.table.rows]

    def test_two_per_cent_and_not_more(self):
        self.add("add", "a", 100, 102)
        self.assertEqual(self.add("add", "b", 100, 102.1), [True, False])
        self.assertEqual([row[1] for row in self.table.off], ["b"])

    def test_nothing_published_is_off(self):
        self.assertEqual(self.add("add", "a", 0, None), [False])
        self.assertEqual(self.add("samples", "b", []), [False, False])

    def test_the_worst_sample_is_judged_by_its_own_uncertainty(self):
        self.assertEqual(self.add("samples", "a", [(100, 100, 0), (100, 109, 10), (100, 92, 7)]), [True, False])

    def test_a_neighbouring_bucket_is_good_enough(self):
        self.add("in_bucket", "a", [1, 2, 4, 8], 1.5, 3)
        self.assertEqual(self.add("in_bucket", "b", [1, 2, 4, 8], 1.5, 5), [True, False])

    def test_what_a_busy_machine_may_have_moved_is_not_told_and_a_wrong_count_is_off(self):
        self.add("add", "a", 100, 150)
        self.add("exact", "b", 7, 7)
        self.add("exact", "c", 7, 8, True)
        self.table.doubt()
        self.assertEqual([row[-1] for row in self.table.rows], [None, True, None])
        self.add("exact", "d", 7, 8)
        self.table.doubt()
        self.assertEqual([row[1] for row in self.table.off], ["d"])
        self.assertIn("**not told**", self.table.markdown())

    def test_markdown(self):
        self.add("add", "a", 1000, 990)
        self.assertIn("| a | 1,000 | 990 | -10 | 20 (2 %) |", self.table.markdown())
        self.assertEqual(number(None), "none")


if __name__ == "__main__":
    unittest.main()
