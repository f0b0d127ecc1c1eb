# SPDX-License-Identifier: GPL-2.0-only
"""Both implementations against what the kernel's own C code answered (tests/data)."""

from collections import Counter
from itertools import islice

import pytest

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.sort import heapsort_order
from groupcpus.engine.topology import Topology
from groupcpus.studies.batch import Machines, group_many
from tests import vectors
from tests.documents import cpulist_parse
from tests.test_heapsort import twin_order

MACHINES = 1200
CASES = {
    "numa": 4676,
    "numa-single-pop": 4676,
    "cluster": 4676,
    "rotate-v2": 14028,
    "rotate-v2-fixed": 14028,
    "rotate-next": 14028,
}
SORTS = 300


class Twin:
    def __init__(self, document):
        self.machines = Machines.of([Topology.from_dict(document)])

    def __call__(self, revision, numgrps, spread_offset):
        made = group_many(
            self.machines, [numgrps], revisions=revision, spread_offsets=spread_offset
        )
        return made.masks(0, numgrps), made.nummasks[0]


class Engine:
    def __init__(self, document):
        self.topology = Topology.from_dict(document)

    def __call__(self, revision, numgrps, spread_offset):
        made = group_cpus_evenly(
            self.topology, numgrps, revision=revision, spread_offset=spread_offset
        )
        return [cpus.mask for cpus in made.masks], made.nummasks


@pytest.mark.slow
@pytest.mark.parametrize("implementation", [Twin, Engine])
def test_every_vector(implementation):
    machines = 0
    checked: Counter[str] = Counter()
    for document, cases in vectors.machines():
        machines += 1
        answer = implementation(document)
        expected = {}
        for case in cases:
            if case.masks not in expected:
                expected[case.masks] = [cpulist_parse(text) for text in case.masks]
            masks, nummasks = answer(case.revision, case.numgrps, case.spread_offset)
            where = f"{case.revision}, {case.numgrps} groups, offset {case.spread_offset}"
            assert masks == expected[case.masks], f"{where} on {document}"
            assert nummasks == case.nummasks, f"{where} on {document}"
            checked[case.revision] += 1
    assert machines == MACHINES
    assert checked == CASES
    assert checked.total() == 56112


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["rotate-v1", "rotate-v2-skip1"])
def test_revisions_without_vectors_agree(revision):
    """No compiled code stands behind these two: here the implementations check each other."""
    checked = 0
    for document, cases in islice(vectors.machines(), 0, None, 3):
        ours, other = Engine(document), Twin(document)
        for case in cases:
            if case.revision == "rotate-v2":
                asked = (revision, case.numgrps, case.spread_offset)
                assert ours(*asked) == other(*asked), f"{asked} on {document}"
                checked += 1
    assert checked > CASES["rotate-v2"] // 4


@pytest.mark.parametrize("variant", ["double-pop", "single-pop"])
def test_every_sort(variant):
    rows = vectors.sorts()
    assert len(rows) == SORTS
    for row in rows:
        # As the int that the C comparison returns sees it, UINT_MAX is -1.
        signed = [-1 if key is None else key for key in row["ncpus"]]
        assert twin_order(signed, variant) == row[variant]
        assert heapsort_order(signed, variant) == row[variant]
