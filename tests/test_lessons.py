# SPDX-License-Identifier: GPL-2.0-only
"""The lesson's allotment is the engine's, and its checks take right answers and no others."""

import ast
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus import (
    REVISIONS,
    Deal,
    Revision,
    Topology,
    explain,
    group_cpus_evenly,
    heapsort_order,
)
from groupcpus.engine import group_cpus
from groupcpus.engine.rotations import rotate_classes, rotate_over_smallest
from groupcpus.engine.steps import Allotted
from groupcpus.errors import RequestError
from groupcpus.machines.machine import machine_names
from groupcpus.studies.exercises import check
from groupcpus.studies.invariants import (
    INVARIANTS,
    check_revision,
    judge,
    rank,
    unusual_machines,
)
from groupcpus.studies.lessons import (
    allot,
    allotments,
    broken_promises,
    search,
    small,
    source_of,
    with_absent,
)
from groupcpus.studies.sweeps import sweep

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


KERNEL_FUNCTIONS = (
    "grp_spread_init_one",
    "alloc_groups_to_nodes",
    "alloc_cluster_groups",
    "assign_cpus_to_groups",
    "__group_cpus_evenly",
)


@pytest.mark.parametrize("name", KERNEL_FUNCTIONS)
def test_the_lesson_shows_the_code_that_runs(name):
    """What is shown is the function without its docstring, and short enough to be read."""
    shown = ast.parse(source_of(name))
    running = ast.parse(inspect.getsource(vars(group_cpus)[name]))
    function = running.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert isinstance(function.body.pop(0), ast.Expr)
    assert ast.dump(shown) == ast.dump(running)
    assert len(source_of(name).splitlines()) <= 35
    assert f"def {name}(" in source_of(name)._repr_markdown_()


@pytest.mark.parametrize("name", ["sort", "Part", "MAX_GROUPS", "", None, 5])
def test_what_is_no_function_of_the_engine_is_refused(name):
    with pytest.raises(RequestError, match="expected a function of groupcpus"):
        source_of(name)


def test_an_unknown_exercise_is_refused():
    with pytest.raises(RequestError, match="exercise 'ex99': expected one of ex1"):
        check("ex99", 1)


# ---- revisions of one's own ------------------------------------------------------------------

FOUR = {"four": Topology.uniform(1, 4, 1, 4)}
VERDICT = "first counter-example"


def own(**functions):
    return Revision("mine", "nowhere", "for a test", **functions)


@pytest.mark.parametrize("revision", ["cluster", "rotate-next", "rotate-tiled"])
def test_good_revisions_keep_all_invariants(revision):
    frame = check_revision(revision)
    assert list(frame.index) == list(INVARIANTS)
    assert set(frame[VERDICT]) == {"holds"}
    assert frame.loc["covered", "machines"] == len(machine_names()) + len(unusual_machines())
    assert (frame["calls"] > 0).all()


def test_what_a_revision_is_known_to_break_is_found():
    broken = {
        name: {at for at, verdict in check_revision(name)[VERDICT].items() if verdict != "holds"}
        for name in ("numa", "rotate-v2", "rotate-v2-fixed")
    }
    assert broken == {
        "numa": {"clusters"},
        "rotate-v2": {"filled", "nodes", "clusters", "sizes"},
        "rotate-v2-fixed": {"clusters"},
    }


def test_the_smallest_wrap_is_found_only_where_the_sum_wraps():
    frame = check_revision("rotate-v2", FOUR)
    assert frame.loc["filled", VERDICT] == "four, 3 groups, counter 4294967295: 0-1 2-3 -"
    assert set(check_revision("rotate-v2-fixed", FOUR)[VERDICT]) == {"holds"}


def test_uneven_sizes_are_found_and_nothing_else():
    frame = check_revision(own(deal=lambda n, g, o: Deal([1] * (g - 1) + [n - g + 1])), FOUR)
    broken = frame[frame[VERDICT] != "holds"]
    assert broken[VERDICT].to_dict() == {"sizes": "four, 2 groups, counter 0: 0 1-3"}


def test_what_the_engine_refuses_is_told_in_its_words():
    frame = check_revision(own(deal=lambda n, g, o: Deal([1] * g)), FOUR)
    assert str(frame.loc["accepted", VERDICT]).startswith(
        "four, 2 groups, counter 0: revision 'mine': deal gave Deal(sizes=[1, 1], first=0); "
        "expected sizes that are 4 in all"
    )
    # One group is a whole node, and 4 or 5 have one CPU each; the others have no masks to judge.
    assert list(frame["calls"]) == [5, 3, 3, 3, 2, 2]
    nothing = check_revision(own(counts=lambda numgrps: -1), FOUR)
    assert "counts gave [-1]" in str(nothing.loc["accepted", VERDICT])
    assert set(nothing[VERDICT][1:]) == {"-"}


JUDGED = {
    "right": ([0b0011, 0b1100], set()),
    "a CPU left out": ([0b0011, 0b0100], {"covered"}),
    "a CPU twice": ([0b0111, 0b1100], {"covered"}),
    "uneven": ([0b0111, 0b1000], {"sizes"}),
    "an empty group": ([0b1111, 0], {"filled", "nodes"}),
    "nothing at all": ([0, 0], {"covered", "filled", "nodes"}),
}


@pytest.mark.parametrize("name", JUDGED)
def test_masks_are_judged(name):
    masks, broken = JUDGED[name]
    # Without clusters, since those of one node are judged as the node.
    found = judge(Topology.uniform(1, 4, 1, 0), masks)
    assert {invariant for invariant, holds in found.items() if not holds} == broken


def test_clusters_are_judged():
    machine = Topology.uniform(1, 8, 1, 4)
    assert all(judge(machine, [0x03, 0x0C, 0xF0]).values())
    assert judge(machine, [0x07, 0x18, 0xE0]) == {
        "covered": True,
        "filled": True,
        "nodes": True,
        "clusters": False,
        "sizes": True,
    }


def test_a_node_cut_by_few_groups_is_found():
    two = Topology.uniform(2, 2, 1, 0)
    assert judge(two, [0b0011, 0b1100])["nodes"]
    assert not judge(two, [0b0101, 0b1010])["nodes"]


def test_with_absent_cpus_only_groups_are_judged():
    assert set(judge(with_absent(), [0xFF])) == {"covered", "filled"}


def test_ranks_are_what_a_sweep_gives():
    plain = Revision("plain", "nowhere", "cluster by another name")
    table = rank(["cluster", "rotate-v2", plain], ["overflow_4cpu"])
    assert list(table.index) == ["rotate-v2", "cluster", "plain"]
    frame = sweep(
        ["overflow_4cpu"],
        devices=range(2, 9),
        queues=[2, 3],
        revisions=["cluster", "rotate-v2"],
        irqchips=["x86", "gicv3"],
        requests=["device-by-device", "random-0", "random-1", "random-2"],
        workers=0,
        progress=False,
    )
    for revision, both in frame.groupby("revision"):
        rows = both[both["requests"] == "device-by-device"]
        mixed = both[(both["requests"] != "device-by-device") & (both["irqchip"] == "x86")]
        parallel = mixed["greatest"] - mixed["fair_bound"]
        x86, gicv3 = rows[rows["irqchip"] == "x86"], rows[rows["irqchip"] == "gicv3"]
        above = x86["greatest"] - x86["fair_bound"]
        assert table.loc[revision].to_dict() == pytest.approx(
            {
                "runs": len(rows),
                "bound reached": (above <= 0).mean(),
                "above bound": above.mean(),
                "bound in parallel": (parallel <= 0).mean(),
                "above in parallel": parallel.mean(),
                "CPUs used": (gicv3["used"] / gicv3["usable"]).mean(),
            }
        )
    assert table.loc["plain"].to_dict() == table.loc["cluster"].to_dict()


def test_all_revisions_are_ranked_on_all_machines_with_groups():
    table = rank()
    assert set(table.index) == set(REVISIONS)
    assert table["runs"].nunique() == 1
    assert table.index[0] == "rotate-tiled"
    assert table["bound reached"].is_monotonic_decreasing


def test_the_exercises_on_own_revisions_take_right_answers_only():
    fixed = REVISIONS["rotate-v2-fixed"].deal
    assert check("own2", fixed)
    assert check("own2", REVISIONS["rotate-next"].deal)
    for name in ("cluster", "rotate-v2"):
        assert repr(check("own2", REVISIONS[name].deal)) == "own2: not yet"
    assert "Expected a function" in repr(check("own2", 3))
    assert "gives a Deal" in repr(check("own2", lambda ncpus, ngroups, offset: [1]))
    wrapped = [
        g for g in range(1, 9) if sum(REVISIONS["rotate-v2"].deal(8, g, 2**32 - 1).sizes) > 8
    ]
    short = [g for g in wrapped if first_sum_reached(g)]
    assert check("own1", short)
    assert not check("own1", [])
    assert not check("own1", [*short, 4])


def first_sum_reached(ngroups):
    """Whether the groups before the last take all 8 CPUs at the last counter."""
    return sum(REVISIONS["rotate-v2"].deal(8, ngroups, 2**32 - 1).sizes[:-1]) >= 8


def turn(ncpus, ngroups, offset, by=1):
    at = -offset * by % len(ngroups)
    return list(ngroups) if len(set(ncpus)) > 1 else [*ngroups[at:], *ngroups[:at]]


def turn_by_extras(ncpus, ngroups, offset):
    return turn(ncpus, ngroups, offset, sum(ngroups) % len(ngroups))


def test_a_rotation_is_right_if_it_is_even_and_fair():
    assert check("own3", turn_by_extras)
    assert check("own3", rotate_classes)
    # Even on that machine, but unequal clusters lose their proportions elsewhere.
    assert repr(check("own3", rotate_over_smallest)) == "own3: not yet"
    assert repr(check("own3", turn)) == "own3: not yet"
    assert "rotate gave" in repr(check("own3", lambda ncpus, ngroups, offset: None))
    assert "Expected a function" in repr(check("own3", [1, 2]))
