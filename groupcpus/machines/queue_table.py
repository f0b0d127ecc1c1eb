# SPDX-License-Identifier: GPL-2.0-only
"""Two runs queue by queue: the mask of each, and the CPU that handles its interrupt."""

from collections.abc import Iterator, Sequence

from groupcpus.errors import RequestError, brief
from groupcpus.machines.run import Interrupt, Run

__all__ = ["queue_table"]

# A longer table is folded: its first and its last rows are shown.
MOST_ROWS = 24
FIRST_ROWS, LAST_ROWS = 12, 4
MOST_MASK = 24
_DIFFERENCES = {
    (True, False): "the same masks before, others after",
    (False, True): "other masks before, the same after",
    (False, False): "other masks",
}


def queue_table(before: Run, after: Run, device: str | None = None) -> str:
    """Return the table of a device's queues: mask and effective CPU under two revisions.

    Parameters
    ----------
    before, after : Run
        The same machine under two revisions.
    device : str, optional
        Whose queues, all of them; the first device's when left out, and then a long table is
        folded.  Devices with the same masks are shown together, an effective CPU each.

    Raises
    ------
    RequestError
        If there is no such device.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> runs = [simulate("L48s_v2", revision=name) for name in ("cluster", "rotate-v2")]
    >>> print(queue_table(*runs))  # doctest: +ELLIPSIS
    queue of nvme0, nvme4  cluster  CPU  rotate-v2    CPU
                        1  10-11     11  10-11      11 10
                        2  14-15     15  14-15      15 14
                        3  12-13     13  12            12
    ...
    """
    olds, news = _by_device(before), _by_device(after)
    if not olds:
        return "No device has a queue with an interrupt."
    names = list(olds)
    if device is not None and device not in olds:
        raise RequestError(f"device {brief(device)}: expected one of {brief(' '.join(names))}")
    shown = device or names[0]
    masks = {name: (_masks(olds[name]), _masks(news.get(name, []))) for name in names}
    same = [name for name in names if masks[name] == masks[shown]]
    lines = _rows(
        (before.revision.name, [olds[name] for name in same]),
        (after.revision.name, [news.get(name, []) for name in same]),
        same,
    )
    if device is None and len(lines) > MOST_ROWS:
        left_out = len(lines) - 1 - FIRST_ROWS - LAST_ROWS
        more = f"... {left_out} more queues: --device {shown}"
        lines = [*lines[: FIRST_ROWS + 1], more, *lines[-LAST_ROWS:]]
    return "\n".join([*lines, *_others(masks, shown)])


def _by_device(run: Run) -> dict[str, list[Interrupt]]:
    found: dict[str, list[Interrupt]] = {}
    for irq in run.interrupts:
        found.setdefault(irq.device, []).append(irq)
    return found


def _masks(interrupts: Sequence[Interrupt]) -> tuple[str, ...]:
    return tuple(f"{irq.kind} {irq.affinity}" for irq in interrupts)


def _rows(
    old: tuple[str, list[list[Interrupt]]], new: tuple[str, list[list[Interrupt]]], names: list[str]
) -> list[str]:
    count = max(len(old[1][0]), len(new[1][0]))
    cells = [(f"queue of {_several(names)}", old[0], "CPU", new[0], "CPU")]
    for at in range(count):
        queue = next(irqs[at] for irqs in (old[1][0], new[1][0]) if at < len(irqs))
        kind = "" if queue.kind == "default" else f" ({queue.kind})"
        cells.append((f"{queue.queue}{kind}", *_cell(old[1], at), *_cell(new[1], at)))
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    return [
        f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  "
        f"{row[3]:<{widths[3]}}  {row[4]:>{widths[4]}}"
        for row in cells
    ]


def _several(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _cell(devices: list[list[Interrupt]], at: int) -> tuple[str, str]:
    """Return a queue's mask, and its effective CPU on each of the devices, or on all."""
    if at >= len(devices[0]):
        return "", ""
    mask = str(devices[0][at].affinity)
    if len(mask) > MOST_MASK:
        mask = f"{mask[: MOST_MASK - 3]}..."
    cpus = [irqs[at].effective for irqs in devices]
    said = ["-" if cpu is None else str(cpu) for cpu in cpus]
    if len(set(said)) == 1:
        return mask, said[0]
    return mask, " ".join(said) if len(said) <= 4 else f"{' '.join(said[:3])} ..."


def _others(masks: dict[str, tuple[tuple[str, ...], tuple[str, ...]]], shown: str) -> Iterator[str]:
    """Say of the devices that are not in the table whether their masks are the same."""
    said: dict[str, list[str]] = {}
    for name, (old, new) in masks.items():
        same = old == masks[shown][0], new == masks[shown][1]
        if same != (True, True):
            said.setdefault(_DIFFERENCES[same], []).append(name)
    for text, names in said.items():
        yield f"{_several(names)}: {text} (--device {names[0]})"
