# SPDX-License-Identifier: GPL-2.0-only
"""What all pictures share: colours, Axes of their own, PNG and SVG."""

import io
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import TextPath
from matplotlib.transforms import Transform
from PIL import Image

# From the Okabe-Ito palette, which colour-blind readers tell apart.
NODE_COLOURS = ("#0072B2", "#56B4E9")
HOT = "#D55E00"
BOUND = "#000000"
SERIES = ("#999999", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")
# Light is few, dark is many, in print too.
COUNTS = "YlGnBu"
# Of a picture that is redrawn: some kilobytes each.
MAX_WORDS = 400


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
    return buffer.getvalue()


def luminance(colour: Any) -> float:
    """Tell how bright a colour is, 0 to 1."""
    red, green, blue = mpl.colors.to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def span(least: int, most: int) -> str:
    """Print one number or a range."""
    return str(least) if least == most else f"{least}-{most}"


class Picture:
    """A Figure that is redrawn often: what stays is kept as pixels, what moves is drawn on them.

    Attributes
    ----------
    figure : Figure
        What is drawn on.
    moving : list of Artist
        What may change between two calls of `png` without a call of `settle`.
    words : list of Text or Axis
        The same for texts and axes with nothing that moves below them: letters take most of the
        time, so their pixels are kept too.
    """

    def __init__(self, width: float, height: float, dpi: int = 100) -> None:
        self.figure = Figure(figsize=(width, height), dpi=dpi)
        self.canvas = FigureCanvasAgg(self.figure)
        self.moving: list[Artist] = []
        self.words: list[Text | Axis] = []
        self._still: Any = None
        self._spelt: dict[tuple[object, ...], Any] = {}

    def settle(self) -> None:
        """Have everything drawn anew by the next `png`."""
        self._still = None
        self._spelt.clear()

    def png(self) -> bytes:
        """Render as PNG."""
        if self._still is None:
            for artist in (*self.moving, *self.words):
                artist.set_visible(False)
            self.canvas.draw()
            self._still = self.canvas.copy_from_bbox(self.figure.bbox)
            for artist in (*self.moving, *self.words):
                artist.set_visible(True)
        self.canvas.restore_region(self._still)
        renderer = self.canvas.get_renderer()
        for word in self.words:
            self._spell(word, renderer)
        for artist in self.moving:
            artist.draw(renderer)
        return encode(self.canvas)

    def _spell(self, word: Text | Axis, renderer: RendererAgg) -> None:
        """Draw a text or an axis, from the pixels of last time if it is as it was then."""
        if isinstance(word, Text):
            x, y = word.get_transform().transform(word.get_position())
            key: tuple[object, ...] = (id(word), word.get_text(), round(x, 2), round(y, 2))
        else:
            key = (id(word), *map(float, word.get_view_interval()))
        if key in self._spelt:
            self.canvas.restore_region(self._spelt[key])
            return
        word.draw(renderer)
        box = word.get_tightbbox(renderer)
        if box is not None and len(self._spelt) < MAX_WORDS:
            # The box of an axis leaves out the ticks between its numbers and its line.
            self._spelt[key] = self.canvas.copy_from_bbox(
                box.padded(2 if isinstance(word, Text) else 14)
            )

    def svg(self) -> bytes:
        """Render as SVG."""
        return to_svg(self.figure)


@lru_cache(maxsize=1024)
def _glyphs(text: str, points: float) -> tuple[Path, float]:
    """Give a text's outline around the origin, and the marker size that leaves it as it is."""
    path = TextPath((0, 0), text, size=points)
    box = path.get_extents()
    # All digits sit on one line, whatever their own heights.
    height = TextPath((0, 0), "0", size=points).get_extents().height
    vertices = np.asarray(path.vertices) - [(box.x0 + box.x1) / 2, height / 2]
    return Path(vertices, path.codes), 2 * float(np.abs(vertices).max())


class Numbers:
    """Many short texts that change often, as markers: a line of them for each text and ink."""

    def __init__(self, ax: Axes, zorder: float = 4, transform: Transform | None = None) -> None:
        self.ax = ax
        self.zorder = zorder
        self.transform = transform
        self.lines: list[Line2D] = []

    def write(self, texts: Iterable[tuple[float, float, str, str, float]]) -> list[Line2D]:
        """Write texts in place of those before: x, y, text, ink and size in points of each."""
        places: dict[tuple[str, str, float], list[tuple[float, float]]] = {}
        for x, y, text, ink, points in texts:
            if text:
                places.setdefault((text, ink, points), []).append((x, y))
        while len(self.lines) < len(places):
            line = Line2D([], [], linestyle="none", markeredgewidth=0, zorder=self.zorder)
            if self.transform:
                line.set(transform=self.transform, clip_on=False)
            self.ax.add_line(line)
            self.lines.append(line)
        for line in self.lines[len(places) :]:
            line.remove()
        del self.lines[len(places) :]
        for line, ((text, ink, points), where) in zip(self.lines, places.items(), strict=True):
            path, size = _glyphs(text, points)
            line.set_data(*zip(*where, strict=True))
            line.set(marker=path, markersize=size, markerfacecolor=ink, gid=text)
        return self.lines


def written(ax: Axes) -> dict[tuple[float, float], str]:
    """Read back what `Numbers` wrote, by place."""
    return {
        (float(x), float(y)): str(line.get_gid())
        for line in ax.lines
        if line.get_gid() is not None
        for x, y in np.asarray(line.get_xydata())
    }
