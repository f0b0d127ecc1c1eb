# SPDX-License-Identifier: GPL-2.0-only
"""The model of what stacking costs beside exact solutions, and the mail's figures."""

from itertools import product
from statistics import fmean

import numpy as np
import pytest

from groupcpus.errors import RequestError
from groupcpus.machines.probe import simulate
from groupcpus.studies.latency import (
    SERVED,
    disk_rates,
    fitted_service,
    handlers,
    throughput,
    worst_disk_loss,
)


@pytest.fixture(scope="module")
def runs():
    return {name: simulate("L96as_v4", revision=name) for name in ("cluster", "rotate-v2")}


def exact(first, second, service, device):
    """Completions of two disks on one CPU, the first one preferred: the Markov chain, solved.

    A state says how many requests of each wait for the CPU; times are exponential.
    """
    states = list(product(range(first + 1), range(second + 1)))
    at = {state: index for index, state in enumerate(states)}
    flow = np.zeros((len(states), len(states)))
    for (a, b), index in at.items():
        if a < first:
            flow[index, at[a + 1, b]] += (first - a) / device
        if b < second:
            flow[index, at[a, b + 1]] += (second - b) / device
        if a:
            flow[index, at[a - 1, b]] += 1 / service
        elif b:
            flow[index, at[a, b - 1]] += 1 / service
    flow -= np.diag(flow.sum(axis=1))
    share = np.linalg.lstsq(
        np.vstack([flow.T, np.ones(len(states))]), np.append(np.zeros(len(states)), 1), rcond=None
    )[0]
    busy_first = sum(share[at[state]] for state in states if state[0])
    busy_second = sum(share[at[state]] for state in states if state[1] and not state[0])
    return busy_first / service, busy_second / service


@pytest.mark.parametrize("service", [0.01, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("requests", [1, 2, 5, 12])
def test_throughput_is_that_of_the_markov_chain(requests, service):
    assert throughput(requests, service) == pytest.approx(exact(requests, 0, service, 1)[0])
    assert throughput(requests, service) <= min(requests, 1 / service)


@pytest.mark.parametrize("service", [0.01, 0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_short_cut_of_in_order_is_close(depth, service):
    rates = disk_rates({"a": [0], "b": [0]}, depth=depth, service=service, served="in order")
    first, second = exact(depth, depth, service, 1)
    assert rates["a"] == pytest.approx(first)
    assert rates["b"] == pytest.approx(second, rel=0.12)


def test_disks_taken_in_turn_get_the_same():
    rates = disk_rates({"a": [0, 1], "b": [1, 0]}, depth=3, service=0.4, served="in turn")
    assert rates["a"] == rates["b"] == pytest.approx(throughput(6, 0.4))


def test_the_order_of_probing_is_what_counts():
    rates = disk_rates({"late": [0], "early": [0]}, depth=4, service=0.3)
    assert rates["late"] > rates["early"]
    assert list(rates) == ["late", "early"]


@pytest.mark.parametrize("served", SERVED)
def test_a_cpu_never_completes_more_than_it_can(runs, served):
    for run in runs.values():
        rates = disk_rates(handlers(run), depth=8, service=0.1, served=served)
        assert sum(rates.values()) <= 96 / 0.1 + 1e-6
        assert sum(rates.values()) <= 372 * 8


def test_all_disks_lose_alike_when_taken_in_turn(runs):
    """Every disk has its 28 queues on hot CPUs: stacking alone makes no disk the worst."""
    for service in (0.01, 0.1, 1.0):
        loss = worst_disk_loss(runs["cluster"], depth=4, service=service, served="in turn")
        assert loss == pytest.approx(0, abs=1e-9)
    assert fitted_service(runs["cluster"], 0.11, depth=4, served="in turn") is None


@pytest.mark.parametrize("depth", [2, 3])
def test_the_mail_s_loss_comes_out_when_taken_in_order(runs, depth):
    """11 % before and about 5 % after: with one service time, of a fifth of the disk's by depth."""
    service = fitted_service(runs["cluster"], 0.11, depth=depth)
    assert service is not None
    assert 0.18 < service * depth < 0.19
    assert worst_disk_loss(runs["cluster"], depth=depth, service=service) == pytest.approx(0.11)
    after = worst_disk_loss(runs["rotate-v2"], depth=depth, service=service)
    assert 0.044 < after < 0.056
    # The disk that was the worst gains about what the mail measured, 12 %, a little less.
    rates = {
        name: disk_rates(handlers(run), depth=depth, service=service) for name, run in runs.items()
    }
    worst = min(rates["cluster"], key=rates["cluster"].__getitem__)
    gain = rates["rotate-v2"][worst] / rates["cluster"][worst] - 1
    assert 0.08 < gain < 0.12


def test_deep_queues_don_t_give_the_mail_s_second_figure(runs):
    """What is left after the patch shrinks with depth: 5 % needs few requests in flight."""
    left = []
    for depth in (1, 2, 4, 8, 32):
        service = fitted_service(runs["cluster"], 0.11, depth=depth)
        assert service is not None
        left.append(worst_disk_loss(runs["rotate-v2"], depth=depth, service=service))
    assert left == sorted(left, reverse=True)
    assert left[0] > 0.06
    assert left[-1] < 0.01


def test_chance_alone_makes_a_worst_disk_but_no_difference(runs):
    """A few busy queues, drawn at random: some disk is worst, before and after alike."""
    losses = [
        worst_disk_loss(run, depth=8, service=0.5, served="in turn", drawn=(24, 60))
        for run in runs.values()
    ]
    assert min(losses) > 0.08
    assert abs(losses[0] - losses[1]) < 0.01


def test_busy_queues_are_drawn_from_the_disks_own(runs):
    every = handlers(runs["cluster"])
    assert [len(cpus) for cpus in every.values()] == [62] * 6
    some = handlers(runs["cluster"], 5, seed=3)
    assert all(set(some[disk]) <= set(every[disk]) for disk in every)
    assert some != handlers(runs["cluster"], 5, seed=4)
    assert some == handlers(runs["cluster"], 5, seed=3)


def test_loss_is_that_of_the_slowest_disk(runs):
    rates = disk_rates(handlers(runs["cluster"]), depth=2, service=0.1).values()
    expected = 1 - min(rates) / fmean(rates)
    assert worst_disk_loss(runs["cluster"], depth=2, service=0.1) == expected


def test_what_cannot_be_is_refused(runs):
    run = runs["cluster"]
    with pytest.raises(RequestError, match="expected none below 0"):
        throughput(1, -1)
    with pytest.raises(RequestError, match="some time to pass"):
        throughput(1, 0, 0)
    with pytest.raises(RequestError, match="queues 63: expected 1 to 62"):
        handlers(run, 63)
    with pytest.raises(RequestError, match="in order, in turn"):
        disk_rates({"a": [0]}, depth=1, service=1, served="at random")
    with pytest.raises(RequestError, match="no interrupts"):
        handlers(simulate(run.machine.with_devices(count=0), revision="cluster"))


def test_with_equal_load_of_each_submitter_the_patch_makes_it_worse(runs):
    """One request of each CPU to each disk: 12.1 % behind before, 14.1 % after."""
    service = fitted_service(runs["cluster"], 0.121, depth=1, load="submitter")
    assert service is not None
    after = worst_disk_loss(runs["rotate-v2"], depth=1, service=service, load="submitter")
    assert after == pytest.approx(0.141, abs=0.001)
    for depth in (1, 2, 4, 8):
        service = fitted_service(runs["cluster"], 0.11, depth=depth, load="submitter")
        assert service is not None
        after = worst_disk_loss(runs["rotate-v2"], depth=depth, service=service, load="submitter")
        assert after > 0.12


@pytest.mark.parametrize("seed", range(4))
def test_the_sign_depends_on_the_load_in_parallel_too(runs, seed):
    mixed = [run.requested(f"random-{seed}") for run in runs.values()]
    for load, depth, service in (("queue", 2, 0.093), ("submitter", 1, 0.16)):
        before, after = (
            worst_disk_loss(run, depth=depth, service=service, load=load) for run in mixed
        )
        assert (after < before) == (load == "queue")


def test_submitters_are_listed_each(runs):
    for run in runs.values():
        listed = handlers(run, load="submitter")
        assert [len(cpus) for cpus in listed.values()] == [96] * 6
        for cpu, count in run.submitters.items():
            assert sum(cpus.count(cpu) for cpus in listed.values()) == count
    with pytest.raises(RequestError, match="load 'job': expected one of queue, submitter"):
        handlers(runs["cluster"], load="job")
