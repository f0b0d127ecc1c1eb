# SPDX-License-Identifier: GPL-2.0-only
"""Pictures say what the run says: heights, numbers, rings and labels are read back."""

import io
from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.collections import EllipseCollection
from matplotlib.colors import to_hex
from PIL import Image

from groupcpus import Topology, group_cpus_evenly, load_machine, pictures, simulate
from groupcpus.engine.cpuset import CpuSet
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine


def custom(topology: Topology, queues: int, disks: int = 2) -> Machine:
    devices = tuple(Device(f"nvme{at}", "nvme", queues) for at in range(disks))
    return Machine("custom", "custom", "x86_64", "x86", topology, devices)


# What matplotlib returns has types too wide to be read back.
plot: Any = pictures
HOT = plot.HOT.lower()
# CPU 10 is offline, 12 to 15 are absent.
ABSENT = Topology.from_dict(
    {
        "nodes": {"0": "0-7", "1": "8-15"},
        "siblings": [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)],
        "clusters": ["0-3", "4-7", "8-11"],
        "possible": "0-15",
        "present": "0-11",
        "online": "0-9,11",
    }
)


@pytest.fixture(scope="module")
def before():
    return simulate("L96as_v4", revision="cluster")


@pytest.fixture(scope="module")
def after():
    return simulate("L96as_v4", revision="rotate-v2")


def bar_heights(ax) -> list[float]:
    return [bar.get_height() for bar in ax.containers[0]]


def test_bars_have_the_height_of_the_counts(before):
    ax = plot.irqs_per_cpu(before)
    assert bar_heights(ax) == list(before.counts.values())
    assert "best 4" in {text.get_text() for text in ax.texts}


def test_a_comparison_has_one_scale_and_titles_that_say_the_news(before, after):
    upper, lower = plot.compare_runs(before, after).axes
    assert bar_heights(upper) == list(before.counts.values())
    assert bar_heights(lower) == list(after.counts.values())
    assert upper.get_ylim() == lower.get_ylim()
    titles = [ax.get_title(loc="left") for ax in (upper, lower)]
    assert titles[0].endswith("28 CPUs do double duty, 6 IRQs each; nobody needs more than 4")
    assert titles[1] == "after, rotate-v2: no CPU has more than 4 IRQs, the best possible"


def test_numbers_stand_where_the_title_points():
    run = simulate("L96as_v4", revision="cluster")
    hot = {cpu for cpu, count in run.counts.items() if count == 6}
    ends = {cpu for cpu in hot if not {cpu - 1, cpu + 1} <= hot and {cpu - 1, cpu + 1} & hot}
    shown = {int(text.get_text()) for text in plot.irqs_per_cpu(run).get_xticklabels()}
    # Of two that stand too close only one has room.
    assert {38, 86, 95} <= ends & shown


@pytest.mark.parametrize("name", [r"$\frac{$", "a$b$c", "\x1b[31m\x00red", "x" * 300])
def test_any_name_is_drawn_as_it_is(name, before):
    odd = replace(before, revision=replace(before.revision, name=name))
    figures = [
        plot.compare_runs(odd, odd),
        plot.compare_maps(odd, odd),
        plot.compare_masks(odd, odd),
        plot.compare_distributions(odd, odd),
        plot.compare_sharing(odd, odd),
    ]
    for figure in figures:
        assert plot.to_png(figure).startswith(b"\x89PNG")
        ElementTree.fromstring(plot.to_svg(figure))


def test_bars_show_submitters_too(before):
    ax = plot.irqs_per_cpu(before, show="submitters")
    assert bar_heights(ax) == list(before.submitters.values())
    assert ax.get_ylabel() == "submitters"


def test_bars_stand_node_by_node_however_cpus_are_numbered():
    doc = {"nodes": {"0": "0-6:2", "1": "1-7:2"}, "possible": "0-7", "present": "0-7"}
    run = simulate(custom(Topology.from_dict(doc), 3), revision="cluster")
    ax = plot.irqs_per_cpu(run)
    cpus = [0, 2, 4, 6, 1, 3, 5, 7]
    assert [int(label.get_text()) for label in ax.get_xticklabels()] == cpus
    assert bar_heights(ax) == [run.counts[cpu] for cpu in cpus]
    colours = [to_hex(bar.get_facecolor()) for bar in ax.containers[0]]
    assert len(set(colours[:4])) == len(set(colours[4:])) == 1
    assert colours[0] != colours[4]


def test_crosses_mark_cpus_that_are_offline_or_absent():
    run = simulate(custom(ABSENT, 5), revision="cluster")
    ax = plot.irqs_per_cpu(run)
    crosses = next(line for line in ax.lines if line.get_marker() == "x")
    assert list(crosses.get_xdata()) == [10, 12, 13, 14, 15]


@pytest.mark.parametrize("drawing", [plot.irqs_per_cpu, plot.topology_map])
def test_a_run_on_as_few_as_two_cpus_can_be_drawn(drawing):
    run = simulate(custom(Topology.uniform(nodes=1, cpus_per_node=2), 2), revision="numa")
    assert plot.to_png(drawing(run).figure).startswith(b"\x89PNG")


def test_large_machines_become_a_heatmap_with_every_count():
    run = simulate(custom(Topology.uniform(nodes=3, cpus_per_node=100), 7), revision="cluster")
    cells = plot.written(plot.irqs_per_cpu(run))
    rows = [cpu for node in range(3) for cpu in (node * 100, node * 100 + 64)]
    for (x, y), text in cells.items():
        assert int(text) == run.counts[rows[int(y)] + int(x)]
    assert len(cells) == 300


def test_a_heatmap_frames_hot_cpus():
    run = simulate(custom(Topology.uniform(nodes=2, cpus_per_node=100), 160), revision="cluster")
    ax = plot.irqs_per_cpu(run)
    frames = next(line for line in ax.lines if to_hex(line.get_markeredgecolor()) == HOT)
    assert len(frames.get_xydata()) == sum(count > 0 for count in run.single.values()) > 0


def counts_above_names(ax) -> dict[int, str]:
    """Read a map: what stands in the circle of each CPU."""
    marks = {(round(x, 2), round(y, 2)): text for (x, y), text in plot.written(ax).items()}
    return {
        int(text): marks[x, round(y + 0.63, 2)]
        for (x, y), text in marks.items()
        if (x, round(y + 0.63, 2)) in marks
    }


def circles(ax) -> Any:
    return next(marks for marks in ax.collections if isinstance(marks, EllipseCollection))


def test_the_map_writes_each_count_above_its_cpu(before):
    inside = counts_above_names(plot.topology_map(before))
    assert {cpu: int(text) for cpu, text in inside.items()} == before.counts


def test_the_map_rings_hot_cpus_only(before):
    rings = [to_hex(c) for c in circles(plot.topology_map(before)).get_edgecolor()]
    assert rings.count(HOT) == sum(count > 0 for count in before.single.values()) == 28


def test_the_map_shows_groups():
    topology = Topology.uniform(nodes=2, cpus_per_node=4)
    masks = group_cpus_evenly(topology, 3, revision="cluster").masks
    inside = counts_above_names(plot.topology_map(topology, groups=masks))
    assert inside == {cpu: str(at) for at, mask in enumerate(masks) for cpu in mask}


def test_the_map_dashes_and_names_cpus_that_are_down():
    ax = plot.topology_map(simulate(custom(ABSENT, 5), revision="cluster"))
    inside = counts_above_names(ax)
    assert [cpu for cpu in inside if inside[cpu] == "off"] == [10]
    assert sorted(cpu for cpu in inside if inside[cpu] == "abs") == [12, 13, 14, 15]
    dashed = [on_off is not None for _, on_off in circles(ax).get_linestyle()]
    assert sum(dashed) == 5


@pytest.mark.parametrize(
    ("doc", "words"),
    [
        ({"nodes": {"0": "0-3", "1": "4-7"}, "clusters": ["0-7"]}, "one cluster spans nodes"),
        ({"nodes": {"0": "0-3", "1": "4-7"}}, "each CPU is its own cluster"),
        ({"nodes": {"0": "0-3", "1": "4-7"}, "no_cluster": "0-7"}, "no cluster known"),
        ({"nodes": {"0": "0-7"}, "clusters": ["0-7"]}, "each node is one cluster"),
        ({"nodes": {"0": "", "2": "0-7"}}, "node 0: no CPUs"),
    ],
)
def test_the_map_says_what_its_boxes_cannot(doc, words):
    topology = Topology.from_dict(doc | {"possible": "0-7", "present": "0-7"})
    ax = plot.topology_map(simulate(custom(topology, 3), revision="cluster"))
    assert any(words in text.get_text().replace("\n", " ") for text in ax.texts)


@pytest.mark.parametrize("strided", [False, True])
def test_large_maps_fold_and_name_every_cpu(strided):
    document: dict[str, Any] = {"nodes": {}, "possible": "0-1023", "present": "0-1023"}
    for node in range(8):
        first = node * 64 if strided else node * 128
        ranges = f"{first}-{first + 63},{first + 512}-{first + 575}"
        document["nodes"][str(node)] = ranges if strided else f"{first}-{first + 127}"
    topology = Topology.from_dict(document)
    ax = plot.topology_map(simulate(custom(topology, 62), revision="cluster"))
    named = ",".join(text for text in plot.written(ax).values() if len(text) > 3)
    assert CpuSet(named) == topology.possible
    wide = [line.get_markersize() / len(line.get_gid()) for line in ax.lines]
    assert min(wide) > 2.5, "points a character"


@pytest.mark.parametrize(("nodes", "cpus"), [(1, 2), (2, 48), (4, 64), (8, 128)])
def test_every_cpu_is_in_exactly_one_leaf(nodes, cpus):
    topology = Topology.uniform(nodes=nodes, cpus_per_node=cpus, threads=2, cluster=4)
    graph = plot.topology_graph(topology)
    leaves = [data["cpus"] for _, data in graph.nodes(data=True) if data["level"] == "cpu"]
    assert sorted(cpu for leaf in leaves for cpu in leaf) == list(topology.possible)
    assert len(leaves) <= plot.MAX_CIRCLES * 1.5
    layout = plot.nested_layout(graph)
    assert len(set(layout.places.values())) == len(leaves)


def drawn_counts(bars) -> dict[int, int]:
    """Read the bars of a run: how many CPUs at each count of interrupts."""
    return {
        round(bar.get_x() + bar.get_width() / 2): int(bar.get_height())
        for bar in bars
        if bar.get_height()
    }


def test_the_distribution_counts_online_cpus(before, after):
    ax = plot.distribution([before, after])
    for bars, run in zip(reversed(ax.containers), (before, after), strict=True):
        assert drawn_counts(bars) == Counter(run.counts.values())


def test_bars_of_one_run_stand_at_their_ticks_and_the_bound_behind_them(after):
    ax = plot.distribution([after])
    middles = [bar.get_x() + bar.get_width() / 2 for bar in ax.containers[0] if bar.get_height()]
    assert middles == pytest.approx(sorted(set(after.counts.values())))
    assert list(ax.lines[0].get_xdata()) == [after.best + 0.5] * 2


def test_the_distribution_names_its_runs(before, after):
    ax = plot.distribution([before, after])
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"cluster", "rotate-v2"}


@pytest.mark.parametrize("draw", [plot.irqs_per_cpu, plot.topology_map])
def test_the_same_picture_has_the_same_bytes(draw, before):
    one, two = (plot.to_png(draw(before).figure) for _ in range(2))
    assert one == two
    with Image.open(io.BytesIO(one)) as picture:
        assert len(picture.getcolors(1 << 20) or []) > 20
    assert plot.to_svg(draw(before).figure) == plot.to_svg(draw(before).figure)


def test_machines_of_the_mails_can_all_be_drawn():
    for name in ("L48s_v2", "D16plds_v6", "D96plds_v6"):
        run = simulate(load_machine(name), revision="rotate-v2")
        assert plot.to_png(plot.topology_map(run).figure).startswith(b"\x89PNG")
