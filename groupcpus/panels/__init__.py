# SPDX-License-Identifier: GPL-2.0-only
"""Widgets: the explorer and the stepper."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupcpus.panels.explore import Explorer, Panel, Stepper, explorer, stepper

__all__ = ["Explorer", "Panel", "Stepper", "explorer", "stepper"]


def __getattr__(name: str) -> Any:
    # Late, so that the panel that draws SVG runs where matplotlib is not installed.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from groupcpus.panels import explore

    return getattr(explore, name)
