# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of machines and runs.

Every function draws on the Axes it is given, or on a Figure of its own, and returns the Axes; none
uses pyplot.  CPUs are OS CPU numbers everywhere.  Colours are safe for colour-blind readers and
never the only mark: counts are also numbers or heights, hot CPUs also hatched or ringed.
"""

from groupcpus.pictures.base import HOT, Picture, to_png, to_svg, written
from groupcpus.pictures.deals import DealPicture, DealState, deal_frame, deal_state, deal_strip
from groupcpus.pictures.loads import (
    Comparison,
    DistributionComparison,
    compare,
    distribution,
    irqs_per_cpu,
)
from groupcpus.pictures.maps import (
    MAX_CIRCLES,
    Layout,
    Map,
    nested_layout,
    topology_graph,
    topology_legend,
    topology_map,
)
from groupcpus.pictures.masks import (
    MapComparison,
    MatrixComparison,
    SharingComparison,
    affinity_matrix,
    sharing,
)
from groupcpus.pictures.replays import agreement, effective_grid
from groupcpus.pictures.sweeps import disk_losses, scores_by_family, shortfall, successive_calls
from groupcpus.pictures.words import glossary

__all__ = [
    "HOT",
    "MAX_CIRCLES",
    "Comparison",
    "DealPicture",
    "DealState",
    "DistributionComparison",
    "Layout",
    "Map",
    "MapComparison",
    "MatrixComparison",
    "Picture",
    "SharingComparison",
    "affinity_matrix",
    "agreement",
    "compare",
    "deal_frame",
    "deal_state",
    "deal_strip",
    "disk_losses",
    "distribution",
    "effective_grid",
    "glossary",
    "irqs_per_cpu",
    "nested_layout",
    "scores_by_family",
    "sharing",
    "shortfall",
    "successive_calls",
    "to_png",
    "to_svg",
    "topology_graph",
    "topology_legend",
    "topology_map",
    "written",
]
