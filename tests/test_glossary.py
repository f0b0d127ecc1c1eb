# SPDX-License-Identifier: GPL-2.0-only
"""Each word of the glossary has a picture, and no label runs out of its box or into another."""

from itertools import combinations

from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from groupcpus.pictures import glossary


def test_each_term_has_a_picture_and_a_sentence():
    axes = [ax for ax in glossary().axes if ax.get_title(loc="left")]
    assert len({ax.get_title(loc="left") for ax in axes}) == len(axes) > 9
    for ax in axes:
        assert len(ax.patches) > 2, ax.get_title(loc="left")
        assert ax.texts[-1].get_text().rstrip().endswith((".", ",", ")"))


def test_labels_fit_into_their_boxes_and_sentences_into_their_places():
    figure = glossary()
    figure.draw_without_rendering()
    for ax in figure.axes:
        boxes = [
            patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)
        ]
        for text in ax.texts:
            if text.get_text().startswith("node "):
                at = text.get_window_extent()
                assert any(box.x0 <= at.x0 and at.x1 <= box.x1 for box in boxes), text.get_text()
    sentences = [ax.texts[-1].get_window_extent() for ax in figure.axes if ax.texts]
    titles = [
        text.get_window_extent()
        for ax in figure.axes
        for text in ax.findobj(Text)
        if text.get_text() and text.get_text() == ax.get_title(loc="left")
    ]
    assert len(titles) == len(sentences)
    assert not any(one.overlaps(other) for one, other in combinations(sentences + titles, 2))
