# SPDX-License-Identifier: GPL-2.0-only
"""Revisions of a reader's own: good ones work, and bad ones are refused in a sentence."""

import re
from typing import ClassVar

import numpy as np
import pytest

from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.revisions import Revision
from groupcpus.engine.rotations import Deal, deal_rotating_fixed
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, RequestError
from groupcpus.machines.machine import read_machine
from groupcpus.machines.probe import simulate

ALONE: dict[int, tuple[int, ...]] = dict.fromkeys(range(16), ())
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
BAD_ROTATIONS = {
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


@pytest.mark.parametrize("name", BAD_ROTATIONS)
@pytest.mark.parametrize("level", ["node", "cluster"])
def test_a_bad_rotation_is_refused(name, level):
    message = refused(own(rotate=BAD_ROTATIONS[name], levels=(level,)))
    assert message.startswith("revision 'mine': rotate gave ")


class Answering(Revision):
    """A subclass with answers of its own."""

    answers: ClassVar[dict[str, object]] = {}

    def first_node(self, ncpus, turn):
        return self.answers.get("first_node", 0)

    def share(self, level, ncpus, ngroups, turn):
        return self.answers.get("share", (ngroups, [turn] * len(ngroups)))

    def order(self, topology, cpus, ngroups):
        return self.answers.get("order", super().order(topology, cpus, ngroups))

    def divide(self, shape, ngroups, turn):
        return self.answers.get("divide", super().divide(shape, ngroups, turn))


def answering(**answers) -> Revision:
    revision = Answering("mine", "nowhere", "for a test")
    object.__setattr__(revision, "answers", answers)
    return revision


@pytest.mark.parametrize("first", [99, -1, None, 0.5])
def test_a_bad_first_node_is_refused(first):
    assert "first_node gave" in refused(answering(first_node=first), numgrps=1)


@pytest.mark.parametrize("share", [None, 5, (), ([1, 4], None), ([1, 4], [0]), (None, [0, 0])])
def test_a_bad_share_of_a_subclass_is_refused(share):
    assert re.search("(share|rotate) gave", refused(answering(share=share)))


@pytest.mark.parametrize(
    "order", [None, 5, (), ([1], {}), ([0] * 8, ALONE, 8), (range(1, 9), ALONE, 8)]
)
def test_a_bad_order_of_a_subclass_is_refused(order):
    assert re.search("order gave|CPUs assigned", refused(answering(order=order)))


def test_a_bad_division_of_a_subclass_is_refused():
    assert "deal gave" in refused(answering(divide=Deal([1])))
    assert "deal gave" in refused(answering(divide=[5, 5]))


@pytest.mark.parametrize("counts", [None, "1", -1])
def test_a_bad_count_is_refused(counts):
    revision = own(counts=lambda numgrps: counts)
    with pytest.raises(RequestError, match="counts gave"):
        simulate(read_machine("D16plds_v6"), revision=revision)


@pytest.mark.parametrize(
    "fields",
    [
        {"sort": "quick"},
        {"sort": None},
        {"levels": "node"},
        {"levels": ("nodes",)},
        {"levels": (["node"],)},
        {"rotate": 3},
        {"deal": None},
        {"counts": 1},
    ],
    ids=str,
)
def test_a_bad_field_is_refused_at_once(fields):
    (field,) = fields
    with pytest.raises(GroupCpusError, match=f"revision 'mine': {field} .*: expected"):
        own(**fields)
    with pytest.raises(GroupCpusError, match="revision 5: expected a name"):
        Revision(5, "nowhere", "for a test")  # type: ignore[arg-type]


def test_sizes_may_come_from_numpy():
    def deal(ncpus: int, ngroups: int, spread_offset: int) -> Deal:
        sizes = deal_rotating_fixed(ncpus, ngroups, spread_offset).sizes
        return Deal(np.array(sizes))  # type: ignore[arg-type]

    large = Topology.uniform(nodes=1, cpus_per_node=64, threads=1, cluster=None)
    with_numpy = group_cpus_evenly(large, 3, revision=own(deal=deal))
    plain = group_cpus_evenly(large, 3, revision=own(deal=deal_rotating_fixed))
    assert with_numpy == plain
    assert all(type(mask) is int for mask in with_numpy.bits)
