"""One simulated replica against closed forms."""

from __future__ import annotations

import heapq
import itertools
import random

import pytest

from agentic_gym.trainers.simulation.cluster import Cluster, step_seconds
from agentic_gym.trainers.simulation.jobs import Job
from agentic_gym.trainers.simulation.replica import Replica
from agentic_gym.trainers.simulation.workload import Plan

STEP = 0.02
NO_PREFILL = 1e18


def cluster(**changes: object) -> Cluster:
    values: dict[str, object] = {
        "step_seconds": STEP,
        "kv_seconds_per_token": 0.0,
        "prefill_tokens_per_s": NO_PREFILL,
        "max_concurrent": 512,
        "roofline_batch": 512,
    }
    return Cluster(**{**values, **changes})


def make(machine: Cluster) -> Replica:
    return Replica(0, machine, [step_seconds(machine, n) for n in range(513)])


def job(tokens: int, prompt: int = 1) -> Job:
    return Job("", Plan(prompt, (tokens,), (0,), (0.0,)), 0, 0.0)


def drain(replica: Replica, arrivals: list[tuple[float, Job]]) -> dict[Job, float]:
    """When each job ends; arrivals are in order."""
    ends: dict[Job, float] = {}
    for at, arriving in [*arrivals, (float("inf"), None)]:
        while (due := replica.due()) < at:
            replica.advance(due)
            ends.update(dict.fromkeys(replica.finish_due(), due))
            replica.make_room()
            replica.admit()
        if arriving is not None:
            replica.advance(at)
            replica.waiting[arriving] = None
            replica.admit()
    return ends


def test_a_lone_request_takes_its_tokens_times_the_step() -> None:
    one = job(1000)
    assert drain(make(cluster()), [(3.0, one)])[one] == pytest.approx(3.0 + 1000 * STEP)


def test_below_the_roofline_requests_do_not_slow_each_other() -> None:
    jobs = [job(tokens) for tokens in (10, 400, 70)]
    ends = drain(make(cluster()), [(0.0, one) for one in jobs])
    assert [ends[one] for one in jobs] == pytest.approx([10 * STEP, 400 * STEP, 70 * STEP])


def test_above_the_roofline_the_machine_is_shared() -> None:
    # Processor sharing of a machine that does one token a step: after the shortest is out, the rest speed up.
    jobs = [job(tokens) for tokens in (100, 200, 300)]
    ends = drain(make(cluster(roofline_batch=1)), [(0.0, one) for one in jobs])
    expected = [3 * 100, 3 * 100 + 2 * 100, 3 * 100 + 2 * 100 + 100]
    assert [ends[one] / STEP for one in jobs] == pytest.approx(expected)


def test_processor_sharing_has_the_mean_sojourn_of_queueing_theory() -> None:
    # M/G/1-PS: E[T] = E[S] / (1 - rho), whatever the distribution of S (here: half 20, half 180 tokens).
    rng = random.Random(7)
    times = itertools.accumulate(rng.expovariate(0.6 / (100 * STEP)) for _ in range(4_000))
    arrivals = [(at, job(rng.choice((20, 180)))) for at in times]
    ends = drain(make(cluster(roofline_batch=1)), arrivals)
    sojourns = [ends[one] - at for at, one in arrivals]
    assert sum(sojourns) / len(sojourns) == pytest.approx(100 * STEP / (1 - 0.6), rel=0.08)


def test_reading_the_cache_costs_a_sum_over_its_growth() -> None:
    read, batch, tokens, prompt = 1e-5, 4, 500, 50
    machine = cluster(kv_seconds_per_token=read)
    jobs = [job(tokens, prompt) for _ in range(batch)]
    ends = drain(make(machine), [(0.0, one) for one in jobs])
    # The integral over the growth of the cache, and close to the sum over whole steps.
    integral = tokens * (STEP + read * batch * prompt) + read * batch * tokens**2 / 2
    steps = sum(STEP + read * batch * (prompt + step) for step in range(tokens))
    assert list(ends.values()) == pytest.approx([integral] * batch)
    assert integral == pytest.approx(steps, rel=1e-3)


def test_looking_in_between_changes_nothing() -> None:
    machine = cluster(kv_seconds_per_token=1e-5, roofline_batch=2)
    often, once = make(machine), make(machine)
    for replica in (often, once):
        for tokens in (300, 400, 500):
            replica.waiting[job(tokens, 100)] = None
        replica.admit()
    for tick in range(1, 900):
        often.advance(tick * 0.01)
    once.advance(8.99)
    assert often.due() == pytest.approx(once.due())
    assert often.kv_tokens == pytest.approx(once.kv_tokens)
    assert often.busy_s == pytest.approx(once.busy_s) == 8.99


def test_prefill_stops_decoding() -> None:
    machine = cluster(prefill_tokens_per_s=1000.0)
    first, second = job(100, 500), job(100, 2000)
    ends = drain(make(machine), [(0.0, first), (1.0, second)])
    # 0.5 s of prefill; 0.5 s of decoding; 2 s in which the second is prefilled; the rest.
    assert ends[first] == pytest.approx(0.5 + 100 * STEP + 2.0)
    assert ends[second] == pytest.approx(1.0 + 2.0 + 100 * STEP)


def test_a_full_cache_makes_requests_wait_in_their_order() -> None:
    # Two fit at a time, a third does not.
    machine = cluster(kv_capacity=1000)
    jobs = [job(100, 350) for _ in range(4)]
    ends = drain(make(machine), [(0.0, one) for one in jobs])
    assert [ends[one] / STEP for one in jobs] == pytest.approx([100, 100, 200, 200])


def test_a_cache_that_fills_up_preempts_what_came_last() -> None:
    machine = cluster(kv_capacity=1000, prefill_tokens_per_s=1000.0)
    first, second = job(500, 300), job(500, 300)
    replica = make(machine)
    ends = drain(replica, [(0.0, first), (0.0, second)])
    # 0.6 s of prefill, 200 steps for both, 300 more for the first; then the second is prefilled again.
    assert replica.preemptions == 1
    assert ends[first] == pytest.approx(0.6 + 500 * STEP)
    assert ends[second] == pytest.approx(ends[first] + 0.5 + 300 * STEP)
    assert second.context == pytest.approx(800)


def test_what_was_preempted_comes_before_what_waits() -> None:
    machine = cluster(kv_capacity=1000, prefill_tokens_per_s=1e6)
    first, second, third = job(500, 300), job(500, 300), job(10, 700)
    ends = drain(make(machine), [(0.0, first), (0.0, second), (0.0, third)])
    assert ends[first] < ends[second] < ends[third]


@pytest.mark.parametrize("grows", [True, False])
def test_of_kept_prefixes_the_oldest_goes_first(grows: bool) -> None:
    replica = make(cluster(kv_capacity=1000, prefill_tokens_per_s=1000.0))
    old, young = job(100, 200), job(100, 200)
    drain(replica, [(0.0, old), (10.0, young)])
    replica.keep(old)
    replica.keep(young)  # 300 each
    replica.advance(20.0)
    # One grows from 100 to 500 tokens while it runs; the other needs 500 when it is admitted.
    replica.waiting[newcomer := job(400, 100) if grows else job(1, 500)] = None
    replica.admit()
    while newcomer in replica.running:
        replica.advance(replica.due())
        replica.finish_due()
        replica.make_room()
    for one, missing in ((young, 0.0), (old, 300.0)):
        start = replica.due() if replica.running else 100.0
        one.left = 100.0
        replica.advance(start)
        replica.waiting[one] = None
        replica.admit()
        assert replica.due() - start == pytest.approx(missing / 1000 + 100 * STEP)
        replica.remove(one)


def test_nothing_loses_its_own_prefix_to_make_room_for_itself() -> None:
    replica = make(cluster(kv_capacity=1000, prefill_tokens_per_s=1000.0))
    own, other = job(100, 300), job(100, 200)
    drain(replica, [(0.0, own), (10.0, other)])
    replica.keep(own)  # 400, and the older one
    replica.keep(other)  # 300
    replica.advance(20.0)
    own.left, own.context = 50.0, 750.0  # a long observation came back
    replica.waiting[own] = None
    assert replica.admit() == [own]
    assert replica.due() - 20.0 == pytest.approx(350 / 1000 + 50 * STEP)


def test_steps_below_the_resolution_of_the_clock_end_all_the_same() -> None:
    machine = cluster(step_seconds=1e-9, kv_capacity=2000)
    replica = make(machine)
    replica.advance(1e6)
    jobs = [job(tokens, 500) for tokens in (900, 901, 902)]
    ends = drain(replica, [(1e6 + n / 7, one) for n, one in enumerate(jobs)])
    assert list(ends) == jobs
    assert [one.context for one in jobs] == pytest.approx([1400, 1401, 1402], abs=2)


def test_removing_a_request_keeps_what_it_has() -> None:
    replica = make(cluster(roofline_batch=1))
    going, staying = job(100, 10), job(100, 10)
    for one in (going, staying):
        replica.waiting[one] = None
    replica.admit()
    replica.advance(60 * STEP)
    replica.remove(going)
    assert going.left == pytest.approx(70)
    assert going.context == pytest.approx(40)
    assert replica.due() == pytest.approx(60 * STEP + 70 * STEP)
    assert replica.kv_tokens == pytest.approx(40)


def test_new_weights_prefill_what_runs_unless_its_cache_is_kept() -> None:
    for keep_kv, seconds in ((True, 0.0), (False, 1.5)):
        replica = make(cluster(prefill_tokens_per_s=100.0))
        one = job(100, 100)
        replica.waiting[one] = None
        replica.admit()
        replica.advance(1.0 + 50 * STEP)
        replica.reload(1, keep_kv=keep_kv)
        assert replica.due() == pytest.approx(1.0 + 100 * STEP + seconds)


def test_what_is_measured_adds_up() -> None:
    replica = make(cluster())
    drain(replica, [(5.0, job(100, 50))])  # busy from 5 to 7
    replica.loading = True
    replica.advance(10.0)
    replica.loading = False
    replica.training = True
    replica.advance(11.0)
    replica.training, replica.alive = False, False
    replica.advance(15.0)
    assert (replica.busy_s, replica.publish_s) == pytest.approx((2.0, 3.0))
    assert (replica.lent_s, replica.dead_s) == pytest.approx((1.0, 4.0))
    assert replica.kv_token_s == pytest.approx(2.0 * (50 + 150) / 2)
    assert replica.sampled == pytest.approx(100)


def test_the_next_end_is_found_among_many() -> None:
    rng = random.Random(3)
    replica = make(cluster())
    lengths = [rng.randrange(1, 5000) for _ in range(400)]
    jobs = [job(length) for length in lengths]
    ends = drain(replica, [(0.0, one) for one in jobs])
    assert list(ends.values()) == sorted(ends.values())
    assert heapq.nsmallest(3, ends.values()) == pytest.approx(
        [length * STEP for length in heapq.nsmallest(3, lengths)]
    )
