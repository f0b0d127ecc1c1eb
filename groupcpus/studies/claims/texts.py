# SPDX-License-Identifier: GPL-2.0-only
"""Results of the ledger as text, as a table in a notebook, and as a document for JSON."""

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from groupcpus.errors import counted
from groupcpus.studies.claims.ledger import (
    ANSWERED,
    ASSUMING,
    CONTRADICTED,
    ELSEWHERE,
    REPRODUCED,
    VERDICTS,
    Result,
    check_claims,
    plain_value,
)

__all__ = ["Ledger", "claims_document", "claims_table", "claims_text", "entries"]

# A mark beside the words, for those who skim, and the colour of the badge.
_BADGES = {
    CONTRADICTED: ("\u2717", "#a40e26"),
    ASSUMING: ("(\u2713)", "#7d4e00"),
    REPRODUCED: ("\u2713", "#116329"),
    ANSWERED: ("?", "#0550ae"),
    ELSEWHERE: ("\u2013", "#57606a"),
}
# What a reader looks for comes first.
_ORDER = tuple(_BADGES)
# How a figure's name is written.
_NAMES = {"cpus": "CPUs", "vcpus": "vCPUs", "irqs": "IRQs", "iops": "IOPS"}


def claims_text(results: Sequence[Result], width: int = 100) -> str:
    """Print results, contradictions first: a paragraph each, assumptions under the values.

    Examples
    --------
    >>> print(claims_text(check_claims("M6b"), width=72))
    M6b  contradicted
         CPUs are busy 534 % before and 569 % after.
         asserted  534 and 569
         computed  689 and 733
         source    [PATCH 3/3] net: mana: add a function to spread IRQs per
                   CPUs (17 December 2023)
    <BLANKLINE>
    1 contradicted
    """
    paragraphs = []
    for result in _contradictions_first(results):
        lines = [f"{result.claim.name:<5}{result.verdict}"]
        lines += wrap(
            result.claim.statement, width, initial_indent=" " * 5, subsequent_indent=" " * 5
        )
        for name, text in _details(result):
            lines += wrap(
                text, width, initial_indent=f"     {name:<10}", subsequent_indent=" " * 15
            )
        paragraphs.append("\n".join(lines))
    return "\n\n".join([*paragraphs, _totals(results)])


def claims_table(results: Sequence[Result], width: int = 100) -> str:
    """Print results, contradictions first: a line each.

    Examples
    --------
    >>> print(claims_table(check_claims("M6"), width=64))
    claim  verdict                             asserted / computed
    M6b    contradicted                        534 and 569 / 689 ...
    M6a    reproduced                          0.9
    M6c    measured elsewhere                  before: 4, after: 6
    <BLANKLINE>
    1 reproduced, 1 contradicted, 1 measured elsewhere
    """
    lines = [f"{'claim':<7}{'verdict':<36}asserted / computed"]
    for result in _contradictions_first(results):
        values = _asserted(result)
        if others := _others(result):
            more = ", ..." if len(others) > 1 else ""
            values += f" / {others[0]}{more}"
        line = f"{result.claim.name:<7}{result.verdict:<36}{values}"
        lines.append(line if len(line) <= width else f"{line[: width - 3]}...")
    return "\n".join([*lines, "", _totals(results)])


class Ledger:
    """Results that show themselves as a table in a notebook, and as paragraphs elsewhere.

    The table needs no script and loads nothing: details are folded by the browser, and two radio
    buttons in its head choose the order of its rows.  Where styles are taken out, as on GitHub, it
    is a plain table with contradictions first.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = tuple(results)

    def __repr__(self) -> str:
        return claims_text(self.results)

    def _repr_html_(self) -> str:
        import pandas as pd

        shown = _contradictions_first(self.results)
        name = "-".join(["claims", *(one.claim.name for one in self.results[:1]), str(len(shown))])
        frame = pd.DataFrame([_cells(result) for result in shown], columns=list(_heads(name)))
        places = {id(result): at for at, result in enumerate(self.results)}
        orders = [
            f"--claim: {places[id(result)]}; --verdict: {at}" for at, result in enumerate(shown)
        ]
        table = (
            frame.style.hide(axis="index")
            .set_uuid(name)
            .set_table_attributes('class="claims"')
            .set_table_styles(_STYLES, overwrite=False)  # type: ignore[arg-type]
            .apply(lambda column: orders, axis=0)
        )
        return f"{table.to_html()}\n<p>{_totals(self.results)}</p>"


def entries(*ids: str) -> Ledger:
    """Return the claims of some ids, or all, computed, as a table for a notebook.

    Examples
    --------
    >>> entries("R12", "M4").results[-1].verdict
    'reproduced under stated assumptions'
    """
    if not ids:
        return Ledger(check_claims())
    return Ledger([result for id in ids for result in check_claims(id)])


def _heads(name: str) -> Iterator[str]:
    """Give the heads of the table; those with a button order its rows."""
    for order, words, checked in (
        ("claim", "claim", ""),
        ("", "what it says, and what comes of it", ""),
        ("verdict", "verdict", " checked"),
    ):
        button = f'<input type="radio" name="{name}" value="{order}"{checked}> '
        yield f'<label title="order by {order}">{button}{words}</label>' if order else words


# Rows are no boxes of their own, so that the cells can be put into another order.
_STYLES = [
    {
        "selector": "",
        "props": "display: grid; grid-template-columns: max-content 1fr 11em; width: 100%",
    },
    {"selector": "thead, tbody, tr", "props": "display: contents"},
    {"selector": "th", "props": "text-align: left; order: -1"},
    {"selector": "td", "props": "order: var(--verdict)"},
    {"selector": "td", "props": "text-align: left; white-space: normal; vertical-align: top"},
    {"selector": "td", "props": "border-top: 1px solid #8884"},
    {
        "selector": 'thead:has(input[value="claim"]:checked) ~ tbody td',
        "props": "order: var(--claim)",
    },
    {"selector": "details", "props": "font-size: smaller; margin-top: 0.3em"},
]


def _cells(result: Result) -> list[str]:
    """Put a result into the cells of a row."""
    details = "".join(
        f"<br><b>{name}</b> {html.escape(text)}" for name, text in _details(result, 12)
    )
    said = (
        f"{html.escape(result.claim.statement)}<br><i>{html.escape(_line(result))}</i>"
        f"<details><summary>details</summary>{details[len('<br>') :]}</details>"
    )
    mark, colour = _BADGES[result.verdict]
    badge = (
        f'<span style="background-color: {colour}; color: white; display: inline-block; '
        f'padding: 0.1em 0.5em; border-radius: 0.6em">{mark} {result.verdict}</span>'
    )
    return [result.claim.name, said, badge]


def _line(result: Result) -> str:
    """Say in one line what comes of a claim.

    Examples
    --------
    >>> for result in check_claims("C2"):
    ...     print(_line(result))
    So it is, in all 3 settings.
    Holds in 2 of 3 settings: double-pop sort (7.0, 6.9 on); older, single-pop sort.
    It says 1 and 2; computed: 10 and 11.
    """
    trials, note = len(result.outcome.trials), result.outcome.note
    if result.verdict == ASSUMING:
        first, *more = result.assumptions
        rest = f" and {len(more)} more" if len(more) > 1 else "".join(f"; {one}" for one in more)
        return f"Holds in {len(result.matching)} of {trials} settings: {first}{rest}."
    if result.verdict == CONTRADICTED:
        others = _others(result)
        return f"It says {_asserted(result)}; computed: {' or '.join(others)}."
    if result.verdict == REPRODUCED:
        return f"So it is, in all {trials} settings." if trials > 1 else "So it is."
    if result.verdict == ANSWERED:
        # As many whole sentences as make a line.
        return note if len(note) < 160 else note[:160].rpartition(". ")[0] + "."
    return f"It says {_asserted(result)}; hardware can say, nothing here computes it."


def _details(result: Result, most: int = 8) -> list[tuple[str, str]]:
    """Give everything else there is to say, by name."""
    values = [_in_words(value, result.claim.each) for value in result.computed]
    shown = "; ".join(values[:6]) + (f"; {len(values) - 6} more" if len(values) > 6 else "")
    fields = [("asserted", _asserted(result)), ("computed", shown)]
    holds = result.assumptions
    fields += [("holds for", setting) for setting in holds[:most]]
    if len(holds) > most:
        fields += [("holds for", f"... and {counted(len(holds) - most, 'more setting')}")]
    fields += [("read as", result.claim.reading), ("note", result.outcome.note)]
    return [*filter(lambda field: field[1], fields), ("source", result.claim.source)]


def _contradictions_first(results: Sequence[Result]) -> list[Result]:
    return sorted(results, key=lambda result: _ORDER.index(result.verdict))


def _asserted(result: Result) -> str:
    if result.claim.asserted is None:
        return "nothing"
    return _in_words(result.claim.asserted, result.claim.each)


def _others(result: Result) -> list[str]:
    """Give the computed values that are not the asserted one."""
    asserted = plain_value(result.claim.asserted)
    return [_in_words(value, result.claim.each) for value in result.computed if value != asserted]


def _totals(results: Sequence[Result]) -> str:
    totals = Counter(result.verdict for result in results)
    return ", ".join(f"{totals[kind]} {kind}" for kind in VERDICTS if totals[kind])


def claims_document(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return results as a document for JSON, in the order of the ledger."""
    return [
        {
            "id": result.claim.id,
            "part": result.claim.part,
            "source": result.claim.source,
            "statement": result.claim.statement,
            "asserted": plain_value(result.claim.asserted),
            "reading": result.claim.reading,
            "computed": result.computed,
            "verdict": result.verdict,
            "assumptions": result.assumptions,
            "trials": len(result.outcome.trials),
            "matching": len(result.matching),
            "note": result.outcome.note,
        }
        for result in results
    ]


def _in_words(value: Any, each: str = "") -> str:
    """Write a value without brackets; keys that are numbers count interrupts, if `each` is empty.

    Examples
    --------
    >>> _in_words({"3": 68, "6": 28}), _in_words({"a_node": [13, 13], "irqs": "1-6"})
    ('68 CPUs with 3, 28 CPUs with 6', 'a node: 13 and 13, IRQs: 1-6')
    """
    value = plain_value(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(_figure(key, item, each) for key, item in value.items())
    if isinstance(value, list):
        return (" and " if len(value) == 2 else " ").join(map(_in_words, value))
    return str(value)


def _figure(key: str, value: Any, each: str) -> str:
    if not key.isdecimal():
        name = " ".join(_NAMES.get(word, word) for word in key.split("_"))
        return f"{name}: {_in_words(value)}"
    if each:
        return each.format(key=key, value=_in_words(value))
    return f"{counted(value, 'CPU')} with {key}"
