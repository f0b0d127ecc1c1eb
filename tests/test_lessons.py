# SPDX-License-Identifier: GPL-2.0-only
"""The lesson's allotment is the engine's, and its checks take right answers and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus import REVISIONS, Topology, explain, group_cpus_evenly, heapsort_order
from groupcpus.errors import RequestError
from groupcpus.grouping import Allotted
from groupcpus.lessons import allot, allotments, broken_promises, check, search, small, with_absent

PARTS = st.lists(st.integers(1, 12), min_size=1, max_size=6)


@given(ncpus=PARTS, data=st.data())
def test_it_allots_as_the_engine_does_and_keeps_its_promises(ncpus, data):
    ngroups = data.draw(st.integers(len(ncpus) + 1, sum(ncpus) + 1))
    ends = [sum(ncpus[:at]) for at in range(len(ncpus) + 1)]
    nodes = {str(at): f"{ends[at]}-{ends[at + 1] - 1}" for at in range(len(ncpus))}
    machine = Topology.from_dict(
        {"nodes": nodes, "possible": f"0-{ends[-1] - 1}", "present": f"0-{ends[-1] - 1}"}
        | {"siblings": [], "clusters": []}
    )
    _, steps = explain(machine, ngroups, revision="numa")
    by_engine = next(step for step in steps if isinstance(step, Allotted))
    asked = min(ngroups, ends[-1])
    allotted = allot(ncpus, asked)
    assert [allotted[share.id] for share in by_engine.shares] == [
        share.ngroups for share in by_engine.shares
    ]
    assert broken_promises(ncpus, allotted, asked) == []


@pytest.mark.parametrize("rule", [{"order": "descending"}, {"order": "as they are"}, {"least": 0}])
def test_every_rule_is_needed(rule):
    ncpus, ngroups, allotted, broken = next(search(**rule))
    assert broken_promises(ncpus, allotted, ngroups) == broken != []


def test_rounding_up_would_do_as_well():
    assert list(search(most_cpus=6, round_up=True)) == []


def masks(machine, numgrps, revision):
    return [str(mask) for mask in group_cpus_evenly(machine, numgrps, revision=revision).masks]


def right_answers():
    """Answer every exercise by other means than the check's own, where there are some."""
    single = {n for n in range(1, 9) if any(len(m) == 1 for m in of(small(), n, "cluster"))}
    absent = masks(with_absent(), 7, "cluster")
    present = masks(Topology.from_dict(present_only()), 7, "cluster")
    grown = [at for at, (a, b) in enumerate(zip(absent, present, strict=True)) if a != b]
    return {
        "ex1": masks(small(), 5, "numa"),
        "ex2": set(range(1, 9)) - single,
        "ex3": ([1, 2, 6], 3),
        "ex4": grown[::-1],
        "ex5": heapsort_order([1] * 7),
        "ex6": [counter for counter in range(6) if last_is_alone(counter)],
    }


def of(machine, numgrps, revision):
    return group_cpus_evenly(machine, numgrps, revision=revision).masks


def present_only():
    return with_absent().to_dict() | {"possible": "0-5", "nodes": {"0": "0-3", "1": "4-5"}}


def last_is_alone(counter):
    deal = REVISIONS["rotate-v2"].deal(4, 3, counter)
    return deal.sizes[-1] == 1


@pytest.mark.parametrize("exercise", ["ex1", "ex2", "ex3", "ex4", "ex5", "ex6"])
def test_right_answers_are_right_and_wrong_ones_are_not(exercise):
    answers = right_answers()
    assert check(exercise, answers[exercise])
    wrong = ([2, 2], 2) if exercise == "ex3" else list(answers[exercise])[:-1]
    assert not check(exercise, wrong)
    assert not check(exercise, ...)
    assert not check(exercise, None)


def test_a_wrong_answer_does_not_give_the_right_one_away():
    assert repr(check("ex5", [0, 1, 2, 3, 4, 5, 6])) == "ex5: not yet"
    assert repr(check("ex3", ([1, 1], 9))).startswith("ex3: not yet. ngroups 9: expected")


def test_allotments_are_listed_only_where_there_are_some():
    assert list(allotments(small(), 3, revision="numa")["gets"]) == [1, 2]
    with pytest.raises(RequestError, match="numgrps 3: no groups are allotted to the clusters of"):
        allotments(small(), 3, 0, revision="numa")
    with pytest.raises(RequestError, match="numgrps 2: no groups are allotted to nodes"):
        allotments(small(), 2, revision="numa")


def test_an_unknown_exercise_is_refused():
    with pytest.raises(RequestError, match="exercise 'ex99': expected one of ex1"):
        check("ex99", 1)
