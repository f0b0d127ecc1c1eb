# SPDX-License-Identifier: GPL-2.0-only
"""The live view as a widget: ``live.js`` draws what its traits and the kernel's answers say.

It listens to the sliders itself, in the page, and asks for their whole range before they are moved
far: a move is then painted without waiting for the kernel.  The kernel's own answer follows.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

__all__ = ["SCRIPT", "LiveView"]

SCRIPT = Path(__file__).with_name("live.js")
_MAX_VALUES = 32


class LiveView(anywidget.AnyWidget):
    """What the page draws.

    Parameters
    ----------
    inputs : mapping of str to Widget
        The controls that the page listens to.
    keys : sequence of str
        Those of them that make a state: its key is the machine's epoch and their values.
    answers : mapping of str to callable
        What the page may ask, by kind: a function of the message's fields that returns what JSON
        can hold.
    """

    _esm = SCRIPT
    inputs = traitlets.Dict().tag(sync=True)
    keyed: traitlets.List[str] = traitlets.List().tag(sync=True)
    machine = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    deal = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        inputs: Mapping[str, widgets.Widget],
        keys: Sequence[str],
        answers: Mapping[str, Callable[[Mapping[str, Any]], Any]],
        **traits: Any,
    ) -> None:
        self._answers = dict(answers)
        ids = {name: widget.model_id for name, widget in inputs.items()}
        super().__init__(inputs=ids, keyed=list(keys), **traits)
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: Any, buffers: Any) -> None:
        """Answer what the page asks; a question that is none gets null."""
        if not isinstance(message, dict):
            return
        answer = self._answers.get(str(message.get("kind")))
        found = None if answer is None else answer(message)
        self.send({"token": message.get("token"), "answer": found})

    def close(self) -> None:
        """Close the widget and let go of its questions."""
        self._answers.clear()
        super().close()


def whole_numbers(values: Any) -> list[int]:
    """Return the whole numbers among what a page sent, at most 32.

    Examples
    --------
    >>> whole_numbers([1, "2", True, 3.5, -4]), whole_numbers("many")
    ([1, -4], [])
    """
    if not isinstance(values, list):
        return []
    return [value for value in values[:_MAX_VALUES] if type(value) is int]
