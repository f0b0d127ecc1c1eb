# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of machines and runs.

Every function draws on the Axes it is given, or on a Figure of its own, and returns the Axes; none
uses pyplot.  CPUs are OS CPU numbers everywhere.  Colours are safe for colour-blind readers and
never the only mark: counts are also numbers or heights, hot CPUs also rings or narrow bars.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupcpus.pictures.base import HOT, revision_styles, to_png, to_svg, written
    from groupcpus.pictures.decisions import decision_frame, decision_strip
    from groupcpus.pictures.layout import MAX_CIRCLES, Layout, nested_layout, topology_graph
    from groupcpus.pictures.lives import cpus_over_steps
    from groupcpus.pictures.loads import (
        compare_distributions,
        compare_runs,
        distribution,
        irqs_per_cpu,
    )
    from groupcpus.pictures.maps import MapWords, compare_maps, topology_legend, topology_map
    from groupcpus.pictures.masks import affinity_matrix, compare_masks, compare_sharing, sharing
    from groupcpus.pictures.queue_counts import queue_chart
    from groupcpus.pictures.replays import agreement, effective_grid
    from groupcpus.pictures.stories import headline, story
    from groupcpus.pictures.sweeps import (
        disk_losses,
        over_queues,
        scores_by_family,
        shortfall,
        successive_calls,
    )
    from groupcpus.pictures.words import glossary

__all__ = [
    "HOT",
    "MAX_CIRCLES",
    "Layout",
    "MapWords",
    "affinity_matrix",
    "agreement",
    "compare_distributions",
    "compare_maps",
    "compare_masks",
    "compare_runs",
    "compare_sharing",
    "cpus_over_steps",
    "decision_frame",
    "decision_strip",
    "disk_losses",
    "distribution",
    "effective_grid",
    "glossary",
    "headline",
    "irqs_per_cpu",
    "nested_layout",
    "over_queues",
    "queue_chart",
    "revision_styles",
    "scores_by_family",
    "sharing",
    "shortfall",
    "story",
    "successive_calls",
    "to_png",
    "to_svg",
    "topology_graph",
    "topology_legend",
    "topology_map",
    "written",
]

# Found when they are asked for: a layout is needed where matplotlib is not installed.
_ROOMS = {
    "base": (
        "HOT",
        "revision_styles",
        "to_png",
        "to_svg",
        "written",
    ),
    "decisions": (
        "decision_frame",
        "decision_strip",
    ),
    "layout": (
        "Layout",
        "MAX_CIRCLES",
        "nested_layout",
        "topology_graph",
    ),
    "lives": ("cpus_over_steps",),
    "loads": (
        "compare_runs",
        "compare_distributions",
        "distribution",
        "irqs_per_cpu",
    ),
    "maps": (
        "MapWords",
        "compare_maps",
        "topology_legend",
        "topology_map",
    ),
    "masks": (
        "affinity_matrix",
        "compare_masks",
        "compare_sharing",
        "sharing",
    ),
    "queue_counts": ("queue_chart",),
    "replays": (
        "agreement",
        "effective_grid",
    ),
    "stories": (
        "headline",
        "story",
    ),
    "sweeps": (
        "disk_losses",
        "over_queues",
        "scores_by_family",
        "shortfall",
        "successive_calls",
    ),
    "words": ("glossary",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
