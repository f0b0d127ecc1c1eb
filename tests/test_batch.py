# SPDX-License-Identifier: GPL-2.0-only
"""The compiled batch: many machines and calls at once, and what it refuses."""

import sys
import threading

import numpy as np
import pytest

from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError
from groupcpus.studies import batch
from groupcpus.studies.batch import COMPILED, Machines, group_many
from tests import vectors
from tests.documents import cpulist_parse, cpumask_bits

pytest.importorskip("numba", reason="the extra `batch` is not installed")


def test_every_vector_in_one_call():
    """1,200 machines of different sizes: the machine is an axis of the batch too."""
    rows = list(vectors.machines())
    machines = Machines.of([Topology.from_dict(document) for document, _ in rows])
    calls = [(at, case) for at, (_, cases) in enumerate(rows) for case in cases]
    made = group_many(
        machines,
        [case.numgrps for _, case in calls],
        revisions=[case.revision for _, case in calls],
        spread_offsets=[case.spread_offset for _, case in calls],
        machine=[at for at, _ in calls],
    )
    assert len(calls) == 56112
    expected = np.full_like(made.groups, -1)
    for row, (_, case) in zip(expected, calls, strict=True):
        for group, mask in enumerate(case.masks):
            row[cpumask_bits(cpulist_parse(mask))] = group
    assert (made.groups == expected).all()
    assert made.nummasks.tolist() == [case.nummasks for _, case in calls]


def test_arguments_are_broadcast():
    machines = Machines.of([Topology.uniform(1, 4), Topology.uniform(2, 3)])
    made = group_many(
        machines,
        np.arange(1, 4)[:, None],
        revisions=["cluster", "rotate-next"],
        machine=np.array([0, 1])[:, None, None],
    )
    assert made.groups.shape == (2 * 3 * 2, 6)
    one = group_many(machines, 3, revisions="rotate-next", machine=[1])
    assert made.groups[-1].tolist() == one.groups[0].tolist()
    assert made.masks(-1, 3) == one.masks(0, 3)


def test_all_revisions_are_compiled():
    assert {*REVISIONS} == {*COMPILED}


ZEROS = np.zeros((1, 2), int)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node": [0, 0]}, "node: expected a row a machine"),
        ({"node": [[0, 0.5]]}, "node: expected an array of whole numbers"),
        ({"node": [[0, 1024]]}, "node: expected numbers from -1 to 1023"),
        ({"core": [[0, 2]]}, "core: expected numbers from 0 to 1, not from 0 to 2"),
        ({"core": [[0]]}, "core: expected an array of whole numbers of shape .1, 2."),
        ({"cluster": [[0, -2]]}, "cluster: expected numbers from -1"),
        ({"present": [[0, 0]]}, "at least one present CPU"),
        ({"node": [[0, -1]], "present": [[1, 1]]}, "present ones among the possible"),
        ({"present": [[1, 0]], "online": [[1, 1]]}, "online ones among the present"),
        ({"node": [[0, 3]], "node_ids": [3]}, "no node id beyond node_ids"),
    ],
)
def test_arrays_that_are_no_machines_are_refused(change, message):
    with pytest.raises(RequestError, match=message):
        Machines(**{"node": ZEROS, "core": ZEROS, "cluster": ZEROS} | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machines": [Topology.uniform()]}, "machines .*: expected Machines"),
        ({"numgrps": 0}, "numgrps: expected numbers from 1 to 65536"),
        ({"numgrps": "3"}, "numgrps: expected an array of whole numbers"),
        ({"spread_offsets": [-1]}, "spread_offsets: expected numbers from 0 to 4294967295"),
        ({"spread_offsets": 2**32}, "spread_offsets: expected numbers"),
        ({"spread_offsets": 2**70}, "spread_offsets: expected an array of whole numbers"),
        ({"revisions": "rotate-v9"}, "'rotate-v9' is none of numa, numa-single-pop"),
        ({"revisions": [["numa"], 3]}, "revisions"),
        ({"machine": [1]}, "machine: expected numbers from 0 to 0"),
        ({"numgrps": [1, 2], "spread_offsets": [1, 2, 3]}, "cannot be broadcast"),
    ],
)
def test_arguments_that_cannot_be_are_refused(change, message):
    arguments = {"machines": Machines(ZEROS, ZEROS, ZEROS), "numgrps": 1} | change
    with pytest.raises(RequestError, match=message):
        group_many(arguments.pop("machines"), arguments.pop("numgrps"), **arguments)


def test_topologies_are_checked():
    with pytest.raises(RequestError, match=r"topologies\[1\] 'numa'"):
        Machines.of([Topology.uniform(), "numa"])  # type: ignore[list-item]
    with pytest.raises(RequestError, match="at least one"):
        Machines.of([])


def test_without_numba_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(batch, "installed", lambda: False)
    batch._twin.cache_clear()
    with pytest.raises(RequestError, match=r"pip install 'groupcpus\[batch\]'"):
        group_many(Machines(ZEROS, ZEROS, ZEROS), 1)


@pytest.mark.parametrize("terminal", [True, False])
def test_it_says_that_it_compiles_in_a_terminal_alone(terminal, monkeypatch, capsys):
    """In a notebook it would be stored, by the one run in many that compiles."""

    class AtOnce(threading.Thread):
        def __init__(self, _seconds, function, args, kwargs):
            super().__init__(target=function, args=args, kwargs=kwargs)

        def start(self):
            self.run()

        def cancel(self):
            pass

    monkeypatch.setattr(batch, "_COMPILED_HERE", set())
    monkeypatch.setattr(threading, "Timer", AtOnce)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    batch.get_ready()
    said = capsys.readouterr().err
    assert ("compiling" in said) == terminal
    assert said == "" or terminal
