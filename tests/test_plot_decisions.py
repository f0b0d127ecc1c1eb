# SPDX-License-Identifier: GPL-2.0-only
"""The decisions of a call add up to what the call returns."""

import pytest

from groupcpus import Topology, pictures
from groupcpus.engine.group_cpus import explain
from groupcpus.engine.progress import progress_of

ABSENT = {
    "nodes": {"0": "0-3,8-9", "1": "4-7,10-11"},
    "siblings": ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11"],
    "possible": "0-11",
    "present": "0-7",
}
MACHINES = {
    "two nodes": Topology.uniform(nodes=2, cpus_per_node=8, threads=2, cluster=4),
    "absent CPUs": Topology.from_dict(ABSENT),
}


@pytest.mark.parametrize("revision", ["numa", "cluster", "rotate-v2", "rotate-next"])
@pytest.mark.parametrize("numgrps", [1, 2, 3, 5, 8, 11, 14])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_last_state_is_the_grouping(machine, numgrps, revision):
    topology = MACHINES[machine]
    grouping, steps = explain(topology, numgrps, revision=revision, spread_offset=3)
    assert tuple(progress_of(topology, steps).groups) == grouping.masks


def test_states_only_grow_and_each_assignment_is_the_focus():
    topology = MACHINES["absent CPUs"]
    _, steps = explain(topology, 5, revision="rotate-v2", spread_offset=1)
    before = progress_of(topology, steps[:1])
    for upto in range(2, len(steps) + 1):
        state = progress_of(topology, steps[:upto])
        assert all(old <= new for old, new in zip(before.groups, state.groups, strict=True))
        new = {cpu for at, cpus in enumerate(state.groups) for cpu in cpus - before.groups[at]}
        assert new in (set(), set(state.focus))
        before = state


def test_a_frame_numbers_the_cpus_dealt_so_far_and_says_why():
    topology = MACHINES["two nodes"]
    _, steps = explain(topology, 3, revision="cluster")
    ax = pictures.decision_frame(topology, steps, 4)
    assert str(steps[3]) in ax.get_title(loc="left").replace("\n", " ")
    # Group 0 has the 8 CPUs of node 1; the name of CPU 0 is the ninth.
    assert list(pictures.written(ax).values()).count("0") == 8 + 1
    assert pictures.decision_frame(topology, steps, len(steps), ax) is ax
    assert sum(text in {"0", "1", "2"} for text in pictures.written(ax).values()) == 16 + 3


def test_an_absent_cpu_shows_its_group_be_it_the_first_too():
    topology = MACHINES["absent CPUs"]
    _, steps = explain(topology, 5, revision="cluster")
    ax = pictures.decision_frame(topology, steps, len(steps))
    shown = set(pictures.written(ax).values())
    assert {"0", "1", "2", "3", "4"} <= shown
    assert not shown & {"abs", "off"}


def test_a_strip_has_a_frame_a_decision_and_says_which_are_left_out():
    topology = MACHINES["two nodes"]
    _, steps = explain(topology, 3, revision="cluster")
    frames = pictures.decision_strip(topology, steps).axes
    assert len(frames) == len(steps)
    assert all(
        ax.get_title(loc="left").startswith(f"{at} of {len(steps)} - ")
        for at, ax in enumerate(frames, start=1)
    )
    assert list(pictures.written(frames[-1]).values()).count("0") == 8 + 1

    many = Topology.uniform(nodes=2, cpus_per_node=16)
    _, steps = explain(many, 32, revision="cluster")
    titles = [ax.get_title(loc="left") for ax in pictures.decision_strip(many, steps).axes]
    assert [title.split()[0] for title in titles] == [*map(str, range(1, 24)), str(len(steps))]
