# SPDX-License-Identifier: GPL-2.0-only
"""What a notebook keeps of a panel when it is saved: its picture, and how to bring it to life.

A saved reference to a widget is of no use once its kernel is gone: JupyterLab then shows an error
where the panel was.  ``make lab`` has this run before each save (``lab/jupyter_server_config.json``
names it); stored pictures are shown in place of such references.
"""

from typing import Any

__all__ = ["HINT", "PANEL", "leave_pictures"]

PANEL = "application/vnd.groupcpus.panel+json"
"""What marks the outputs of our panels: those of other widgets are left alone."""
HINT = "*To move the controls of this panel, run its cell: Run > Run All Cells.*"
_VIEW = "application/vnd.jupyter.widget-view+json"


def leave_pictures(model: dict[str, Any], **_: Any) -> None:
    """Replace, in a notebook that is about to be saved, panels by their pictures and a hint.

    Parameters
    ----------
    model : dict
        What Jupyter Server saves; a notebook's cells are changed in place.

    Examples
    --------
    >>> data = {"image/png": "", "text/plain": "a picture", PANEL: {}, _VIEW: {"model_id": "1"}}
    >>> cell = {"outputs": [{"output_type": "display_data", "metadata": {}, "data": data}]}
    >>> leave_pictures({"type": "notebook", "content": {"cells": [cell]}})
    >>> [list(output["data"]) for output in cell["outputs"]]
    [['image/png', 'text/plain', 'application/vnd.groupcpus.panel+json'],
     ['text/markdown', 'text/plain']]
    """
    if model.get("type") != "notebook" or not isinstance(model.get("content"), dict):
        return
    for cell in model["content"].get("cells", []):
        kept = []
        for output in cell.get("outputs", []):
            kept.append(output)
            data = output.get("data", {})
            if PANEL in data and "image/png" in data and data.pop(_VIEW, None):
                hint = {"text/markdown": HINT, "text/plain": HINT.strip("*")}
                kept.append({"output_type": "display_data", "metadata": {}, "data": hint})
        if "outputs" in cell:
            cell["outputs"] = kept
