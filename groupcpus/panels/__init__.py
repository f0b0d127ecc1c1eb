# SPDX-License-Identifier: GPL-2.0-only
"""Widgets: the explorer, the stepper and the timeline."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupcpus.panels.controls import Panel
    from groupcpus.panels.explore import Explorer, explorer
    from groupcpus.panels.living import Timeline, timeline
    from groupcpus.panels.stepping import Stepper, stepper

__all__ = ["Explorer", "Panel", "Stepper", "Timeline", "explorer", "stepper", "timeline"]

# Found when they are asked for: a server that saves notebooks needs no widgets.
_HOMES = {
    "Explorer": "explore",
    "Panel": "controls",
    "Stepper": "stepping",
    "Timeline": "living",
    "explorer": "explore",
    "stepper": "stepping",
    "timeline": "living",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
