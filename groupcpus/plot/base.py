# SPDX-License-Identifier: GPL-2.0-only
"""What all pictures share: colours, Axes of their own, PNG and SVG."""

import io
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

# From the Okabe-Ito palette, which colour-blind readers tell apart.
NODE_COLOURS = ("#0072B2", "#56B4E9")
HOT = "#D55E00"
BOUND = "#000000"
SERIES = ("#999999", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")
# Light is few, dark is many, in print too.
COUNTS = "YlGnBu"


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """Give the Axes to draw on: the caller's, or those of a Figure of our own."""
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").subplots()


def to_png(figure: Figure, dpi: int = 100) -> bytes:
    """Render a Figure as PNG; the same picture gives the same bytes."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    # Not savefig(): it draws everything twice when the figure ever had a layout engine.
    canvas.draw()
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").save(buffer, format="png")
    return buffer.getvalue()


def to_svg(figure: Figure) -> bytes:
    """Render a Figure as SVG; the same picture gives the same bytes."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "groupcpus", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def luminance(colour: Any) -> float:
    """Tell how bright a colour is, 0 to 1."""
    red, green, blue = mpl.colors.to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def span(least: int, most: int) -> str:
    """Print one number or a range."""
    return str(least) if least == most else f"{least}-{most}"
