# SPDX-License-Identifier: GPL-2.0-only
"""Revisions of a reader's own: good ones work, and bad ones are refused in a sentence."""

import re

import numpy as np
import pytest

from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.revisions import Deal, Revision, deal_rotating_fixed
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, RequestError
from groupcpus.machines.machine import read_machine
from groupcpus.machines.probe import simulate

MACHINE = Topology.uniform(nodes=2, cpus_per_node=8, threads=2, cluster=4)


def own(**functions) -> Revision:
    return Revision("mine", "nowhere", "for a test", **functions)


BAD_DEALS = {
    "too few sizes": lambda n, g, o: Deal([n] * (g - 1)),
    "too many sizes": lambda n, g, o: Deal([n] * (g + 3)),
    "no CPUs": lambda n, g, o: Deal([0] * g),
    "CPUs left out": lambda n, g, o: Deal([1] * g),
    "a negative size": lambda n, g, o: Deal([-1, *[n] * (g - 1)]),
    "fractions": lambda n, g, o: Deal([n / g] * g),
    "a text": lambda n, g, o: Deal("12"),  # type: ignore[arg-type]
    "nothing": lambda n, g, o: None,
    "a bare list": lambda n, g, o: [n] * g,
    "a start beyond": lambda n, g, o: Deal([n] * g, n),
    "a start before": lambda n, g, o: Deal([n] * g, -1),
    "a start that is none": lambda n, g, o: Deal([n] * g, "0"),  # type: ignore[arg-type]
}
BAD_RESPREADS = {
    "a negative count": lambda n, g, o: [-1, sum(g) + 1],
    "too many": lambda n, g, o: [count + 1 for count in g],
    "none for one": lambda n, g, o: [0, sum(g)],
    "a wrong length": lambda n, g, o: [sum(g)],
    "millions": lambda n, g, o: [10**7 for _ in g],
    "nothing": lambda n, g, o: None,
}


def refused(revision: Revision, numgrps: int = 5) -> str:
    with pytest.raises(RequestError) as error:
        group_cpus_evenly(MACHINE, numgrps, revision=revision)
    with pytest.raises(RequestError, match=re.escape(str(error.value))):
        explain(MACHINE, numgrps, revision=revision)
    assert len(str(error.value)) < 300
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", BAD_DEALS)
def test_a_bad_deal_is_refused(name):
    assert refused(own(deal=BAD_DEALS[name])).startswith("revision 'mine': deal gave ")


@pytest.mark.parametrize("name", BAD_RESPREADS)
@pytest.mark.parametrize("level", ["nodes", "clusters"])
def test_a_bad_respread_is_refused(name, level):
    message = refused(own(**{f"respread_{level}": BAD_RESPREADS[name]}))
    assert message.startswith(f"revision 'mine': respread_{level} gave ")


def test_bad_parts_and_shares_are_refused():
    assert "deal_parts gave" in refused(own(deal_parts=lambda c, p, g, t: Deal([sum(p)] * g)))
    assert "deal_parts gave" in refused(own(deal_parts=lambda c, p, g, t: False))
    assert "continue_shares gave" in refused(
        own(continue_shares=lambda n, g, t, c: ([1] * len(g), [0] * len(g)))
    )
    assert "continue_shares gave" in refused(own(continue_shares=lambda n, g, t, c: (g, None)))


@pytest.mark.parametrize("first", [99, -1, None, 0.5])
def test_a_bad_first_node_is_refused(first):
    assert "first_node gave" in refused(own(first_node=lambda n, o: first), numgrps=1)


@pytest.mark.parametrize("ticks", [None, "1", -1])
def test_a_bad_tick_is_refused(ticks):
    revision = own(ticks=lambda numgrps: ticks)
    with pytest.raises(RequestError, match="ticks gave"):
        simulate(read_machine("D16plds_v6"), revision=revision)


def test_a_bad_sort_is_refused_at_once():
    with pytest.raises(GroupCpusError, match="sort 'quick': expected 'double-pop'"):
        own(sort="quick")


def test_sizes_may_come_from_numpy():
    def deal(ncpus: int, ngroups: int, spread_offset: int) -> Deal:
        sizes = deal_rotating_fixed(ncpus, ngroups, spread_offset).sizes
        return Deal(np.array(sizes))  # type: ignore[arg-type]

    large = Topology.uniform(nodes=1, cpus_per_node=64, threads=1, cluster=None)
    with_numpy = group_cpus_evenly(large, 3, revision=own(deal=deal))
    plain = group_cpus_evenly(large, 3, revision=own(deal=deal_rotating_fixed))
    assert with_numpy == plain
    assert all(type(mask) is int for mask in with_numpy.bits)
