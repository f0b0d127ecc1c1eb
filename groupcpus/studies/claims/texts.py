# SPDX-License-Identifier: GPL-2.0-only
"""Results of the ledger as text, as a table in a notebook, and as a document for JSON."""

import html
from collections import Counter
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

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

# A mark beside the words, for those who skim.
_MARKS = {
    REPRODUCED: "\u2713",
    ASSUMING: "(\u2713)",
    CONTRADICTED: "\u2717",
    ANSWERED: "?",
    ELSEWHERE: "\u2013",
}
# What a reader looks for comes first.
_ORDER = (CONTRADICTED, ASSUMING, REPRODUCED, ANSWERED, ELSEWHERE)


def claims_text(results: Sequence[Result], width: int = 100) -> str:
    """Print results, contradictions first: a paragraph each, assumptions under the values.

    Examples
    --------
    >>> print(claims_text(check_claims("M6b"), width=72))
    M6b  contradicted
         CPUs are busy 534 % before and 569 % after.
         asserted  534 569
         computed  689 733
         source    [PATCH 3/3] net: mana: add a function to spread IRQs per
                   CPUs (17 December 2023)
    <BLANKLINE>
    1 contradicted
    """
    paragraphs = []
    for result in _contradictions_first(results):
        values = result.computed
        shown = "; ".join(map(_show, values[:6])) + (
            f"; {len(values) - 6} more" if len(values) > 6 else ""
        )
        lines = [f"{result.claim.name:<5}{result.verdict}"]
        lines += wrap(
            result.claim.statement, width, initial_indent=" " * 5, subsequent_indent=" " * 5
        )
        fields = [("asserted", _asserted(result)), ("computed", shown)]
        fields += [("holds for", holds) for holds in _brief_list(result.assumptions)]
        fields += [("read as", result.claim.reading)] if result.claim.reading else []
        fields += [("note", result.finding.note), ("source", result.claim.source)]
        for name, text in fields:
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
    M6b    contradicted                        534 569 / 689 733
    M6a    reproduced                          0.9
    M6c    measured elsewhere                  {before: 4, after: 6}
    <BLANKLINE>
    1 reproduced, 1 contradicted, 1 measured elsewhere
    """
    lines = [f"{'claim':<7}{'verdict':<36}asserted / computed"]
    for result in _contradictions_first(results):
        values = _asserted(result)
        others = [value for value in result.computed if value != plain_value(result.claim.asserted)]
        if others:
            more = ", ..." if len(others) > 1 else ""
            values += f" / {_show(others[0])}{more}"
        line = f"{result.claim.name:<7}{result.verdict:<36}{values}"
        lines.append(line if len(line) <= width else f"{line[: width - 3]}...")
    return "\n".join([*lines, "", _totals(results)])


class Ledger:
    """Results that show themselves as a table in a notebook, and as paragraphs elsewhere."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = tuple(results)

    def __repr__(self) -> str:
        return claims_text(self.results)

    def _repr_html_(self) -> str:
        left = "style='text-align:left;vertical-align:top'"
        rows = [f"<tr>{''.join(f'<th {left}>{head}</th>' for head in _HEADS)}</tr>"]
        for result in _contradictions_first(self.results):
            cells = "".join(f"<td {left}>{cell}</td>" for cell in _cells(result))
            rows.append(f"<tr>{cells}</tr>")
        return "\n".join(["<table>", *rows, "</table>", f"<p>{_totals(self.results)}</p>"])


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


_HEADS = ("claim", "it says", "asserted", "computed", "verdict")


def _cells(result: Result) -> list[str]:
    """Put a result into the cells of a row; the conditions stand below the computed value."""
    computed = _brief_list([_show(value) for value in result.computed], 3)
    conditions = [f"holds for {holds}" for holds in _brief_list(result.assumptions, 4)]
    conditions += [f"read as: {result.claim.reading}"] if result.claim.reading else []
    conditions += [result.finding.note] if result.finding.note else []
    below = "".join(f"<br><small>{html.escape(text)}</small>" for text in conditions)
    texts = (
        result.claim.name,
        result.claim.statement,
        _asserted(result),
        "; ".join(computed),
        f"{_MARKS[result.verdict]} {result.verdict}",
    )
    cells = [html.escape(text) for text in texts]
    cells[3] += below
    return cells


def _contradictions_first(results: Sequence[Result]) -> list[Result]:
    return sorted(results, key=lambda result: _ORDER.index(result.verdict))


def _asserted(result: Result) -> str:
    return "nothing" if result.claim.asserted is None else _show(result.claim.asserted)


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
            "trials": len(result.finding.trials),
            "matching": len(result.matching),
            "note": result.finding.note,
        }
        for result in results
    ]


def _show(value: Any) -> str:
    value = plain_value(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return " ".join(map(_show, value))
    return str(value)


def _brief_list(texts: list[str], most: int = 8) -> list[str]:
    more = [f"... and {len(texts) - most} more settings"] if len(texts) > most else []
    return texts[:most] + more
