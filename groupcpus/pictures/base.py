# SPDX-License-Identifier: GPL-2.0-only
"""What all pictures share: colours, Axes of their own, PNG and SVG."""

import io
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from itertools import cycle
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Transform
from PIL import Image

# From the Okabe-Ito palette, which colour-blind readers tell apart.
NODE_COLOURS = ("#0072B2", "#56B4E9")
HOT = "#D55E00"
BOUND = "#000000"
SERIES = ("#999999", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
# A revision has its colour and its mark in every picture; none is a node's, or that of masks of one
# CPU.  The two of the mails are of one hue.
_REVISIONS = {
    "numa": ("#A6A6A6", "v"),
    "cluster": ("#666666", "o"),
    "rotate-v2": ("#7B3294", "s"),
    "rotate-next": ("#B883CC", "D"),
    "rotate-tiled": ("#008837", "^"),
    "rotate-kept": ("#A6761D", "P"),
}
_OTHERS = (("#1B9E9E", "X"), ("#B5367A", "*"), ("#5A6B2F", "<"), ("#3B4CC0", ">"))
# A CPU that is outside a mask it should be in.
OUTSIDE = "#C2185B"
# What tells devices apart: neither a count's blue nor the orange of masks of one CPU.
DEVICES = (
    *("#D99000", "#009E73", "#C76D9F", "#8A6A4A", "#55B3E6", "#C9B800", "#8F7FC9", "#9A9A9A"),
)
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")
# Light is few, dark is many, in print too.
COUNTS = "YlGnBu"
# CPUs in one picture as bars; beyond that they get too thin to be read one by one.
MAX_BARS = 128
# The size of two pictures together, in inches.
PAIR = (11, 5.6)

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_P = ParamSpec("_P")
_R = TypeVar("_R")


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
    return encode(canvas)


def encode(canvas: FigureCanvasAgg) -> bytes:
    """Give what a canvas shows as PNG."""
    buffer = io.BytesIO()
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    # Two thirds of the time of the default level, and a fifth more bytes.
    pixels.save(buffer, format="png", compress_level=2)
    return buffer.getvalue()


def to_svg(figure: Figure) -> bytes:
    """Render a Figure as SVG; the same picture gives the same bytes."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "groupcpus", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    # What XML cannot hold would make the whole file unreadable.
    return _NO_XML.sub("\ufffd", buffer.getvalue().decode()).encode()


def luminance(colour: Any) -> float:
    """Tell how bright a colour is, 0 to 1."""
    red, green, blue = mpl.colors.to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def revision_styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return a colour and a mark for each revision, the same in all pictures.

    Examples
    --------
    >>> revision_styles(["cluster", "mine"])
    {'cluster': ('#666666', 'o'), 'mine': ('#1B9E9E', 'X')}
    """
    others = cycle(_OTHERS)
    return {name: _REVISIONS.get(name) or next(others) for name in names}


def span(least: int, most: int) -> str:
    """Print one number or a range."""
    return str(least) if least == most else f"{least}-{most}"


def drawing(draw: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have a function draw names as they are: a dollar sign begins no formula."""

    @wraps(draw)
    def drawn(*args: _P.args, **more: _P.kwargs) -> _R:
        with mpl.rc_context({"text.parse_math": False}):
            return draw(*args, **more)

    return drawn


def plain(text: str) -> str:
    r"""Return a text that can be drawn and written into SVG: short, and printable.

    Examples
    --------
    >>> plain("nvme0\x1b[31m")
    'nvme0\ufffd[31m'
    """
    short = text if len(text) <= 120 else f"{text[:117]}..."
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in short)


@lru_cache(maxsize=1024)
def _glyphs(text: str, points: float) -> tuple[Path, float]:
    """Give a text's outline around the origin, and the marker size that leaves it as it is."""
    path = TextPath((0, 0), text, size=points)
    box = path.get_extents()
    # All digits sit on one line, whatever their own heights.
    height = TextPath((0, 0), "0", size=points).get_extents().height
    vertices = np.asarray(path.vertices) - [(box.x0 + box.x1) / 2, height / 2]
    return Path(vertices, path.codes), 2 * float(np.abs(vertices).max())


def write_numbers(
    ax: Axes,
    texts: Iterable[tuple[float, float, str, str, float]],
    zorder: float = 4,
    transform: Transform | None = None,
) -> None:
    """Write many short texts: x, y, text, ink and size in points of each.

    They are markers, a line of them for each text and ink: as many Texts would take seconds.
    """
    places: dict[tuple[str, str, float], list[tuple[float, float]]] = {}
    for x, y, text, ink, points in texts:
        if text:
            places.setdefault((text, ink, points), []).append((x, y))
    for (text, ink, points), where in places.items():
        path, size = _glyphs(text, points)
        line = Line2D(*zip(*where, strict=True), linestyle="none", zorder=zorder)
        line.set(marker=path, markersize=size, markerfacecolor=ink, markeredgewidth=0, gid=text)
        if transform:
            line.set(transform=transform, clip_on=False)
        ax.add_line(line)


def written(ax: Axes) -> dict[tuple[float, float], str]:
    """Read back what `write_numbers` wrote, by place."""
    return {
        (float(x), float(y)): str(line.get_gid())
        for line in ax.lines
        if line.get_gid() is not None
        for x, y in np.asarray(line.get_xydata())
    }
