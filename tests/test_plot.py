# SPDX-License-Identifier: GPL-2.0-only
"""Pictures say what the run says: heights, numbers, rings and labels are read back."""

import io

import pytest
from matplotlib.colors import to_hex
from PIL import Image

from groupcpus import Topology, group_cpus_evenly, load_machine, plot, simulate
from groupcpus.devices import Device
from groupcpus.machines import Machine


def custom(topology: Topology, queues: int, disks: int = 2) -> Machine:
    devices = tuple(Device(f"nvme{at}", "nvme", queues) for at in range(disks))
    return Machine("custom", "custom", "x86_64", "x86", topology, devices)


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


def test_a_comparison_drawn_again_shows_the_new_runs(before, after):
    picture = plot.Comparison(before, before)
    first = plot.to_png(picture.figure)
    artists = sum(len(ax.get_children()) for ax in picture.figure.axes)
    picture.draw(before, after)
    upper, lower = picture.figure.axes
    assert bar_heights(upper) == list(before.counts.values())
    assert bar_heights(lower) == list(after.counts.values())
    assert upper.get_ylim() == lower.get_ylim()
    assert sum(len(ax.get_children()) for ax in picture.figure.axes) == artists
    assert plot.to_png(picture.figure) != first


def test_a_comparison_takes_another_machine(before, after):
    picture = plot.Comparison(before, after)
    small = simulate(custom(Topology.uniform(nodes=1, cpus_per_node=4), 3), revision="cluster")
    picture.draw(small, small)
    assert [len(bar_heights(ax)) for ax in picture.figure.axes] == [4, 4]


def test_bars_follow_interleaved_node_numbering():
    doc = {"nodes": {"0": "0-6:2", "1": "1-7:2"}, "possible": "0-7", "present": "0-7"}
    run = simulate(custom(Topology.from_dict(doc), 3), revision="cluster")
    ax = plot.irqs_per_cpu(run)
    assert bar_heights(ax) == list(run.counts.values())
    colours = [to_hex(bar.get_facecolor()) for bar in ax.containers[0]]
    assert len(set(colours[::2])) == len(set(colours[1::2])) == 1
    assert colours[0] != colours[1]


def test_large_machines_become_a_heatmap_with_every_count():
    run = simulate(custom(Topology.uniform(nodes=3, cpus_per_node=100), 7), revision="cluster")
    ax = plot.irqs_per_cpu(run)
    cells = [text.get_text() for text in ax.texts]
    assert sorted(map(int, cells)) == sorted(run.counts.values())


def test_the_map_writes_each_count_above_its_cpu(before):
    ax = plot.topology_map(before)
    where = {}
    for text in ax.texts:
        x, y = text.get_position()
        where[round(x, 3), round(y, 3)] = text.get_text()
    named = {}
    for (x, y), text in where.items():
        if (above := where.get((x, round(y + 0.62, 3)))) is not None:
            named[int(text)] = int(above)
    assert named == before.counts


def test_the_map_rings_hot_cpus_only(before):
    ax = plot.topology_map(before)
    circles = next(c for c in ax.collections if len(c.get_offsets()) == len(before.counts))
    rings = [to_hex(colour) for colour in circles.get_edgecolors()]
    assert rings.count(plot.HOT.lower()) == sum(count > 0 for count in before.single.values()) == 28


def test_the_map_shows_groups():
    topology = Topology.uniform(nodes=2, cpus_per_node=4)
    masks = group_cpus_evenly(topology, 3, revision="cluster").masks
    ax = plot.topology_map(topology, groups=masks)
    numbers = [text.get_text() for text in ax.texts]
    for group, mask in enumerate(masks):
        assert numbers.count(str(group)) >= len(mask)


@pytest.mark.parametrize(("nodes", "cpus"), [(1, 2), (2, 48), (4, 64), (8, 128)])
def test_every_cpu_is_in_exactly_one_leaf(nodes, cpus):
    topology = Topology.uniform(nodes=nodes, cpus_per_node=cpus, threads=2, cluster=4)
    graph = plot.topology_graph(topology)
    leaves = [data["cpus"] for _, data in graph.nodes(data=True) if data["level"] == "cpu"]
    assert sorted(cpu for leaf in leaves for cpu in leaf) == list(topology.possible)
    assert len(leaves) <= plot.MAX_CIRCLES * 1.5
    layout = plot.nested_layout(graph)
    assert len(set(layout.places.values())) == len(leaves)


def test_the_distribution_counts_online_cpus(before, after):
    ax = plot.distribution([before, after])
    drawn = [sum(bar.get_height() for bar in bars) for bars in ax.containers]
    assert drawn == [96, 96]
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"cluster", "rotate-v2"}


@pytest.mark.parametrize("draw", [plot.irqs_per_cpu, plot.topology_map])
def test_the_same_picture_has_the_same_bytes(draw, before):
    one, two = (plot.to_png(draw(before).figure) for _ in range(2))
    assert one == two
    with Image.open(io.BytesIO(one)) as picture:
        assert len(picture.getcolors(1 << 20)) > 20
    assert plot.to_svg(draw(before).figure) == plot.to_svg(draw(before).figure)


def test_machines_of_the_mails_can_all_be_drawn():
    for name in ("L48s_v2", "D16plds_v6", "D96plds_v6"):
        run = simulate(load_machine(name), revision="rotate-v2")
        assert plot.to_png(plot.topology_map(run).figure).startswith(b"\x89PNG")
