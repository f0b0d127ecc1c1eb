# SPDX-License-Identifier: GPL-2.0-only
"""The claims ledger: what three mails assert, computed.

``data/claims.toml`` has the claims: a statement in our own words, where it was made, and the value
it asserts.  Each has a *scenario* (`scenarios`) that computes the value, as one or more
trials: one for each setting that the mail leaves open (where the counter stood, the order of
probing, which revision ran, how ties sort).  The verdict follows from the comparison alone:

* every trial gives the asserted value: *reproduced*;
* some do: *reproduced under stated assumptions*, namely theirs;
* none does: *contradicted*;
* there is none, because a model cannot compute the value: *measured elsewhere*.
"""

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, RequestError, brief
from groupcpus.machines.machine import data_dir, read_toml
from groupcpus.studies.scenarios import SCENARIOS, Finding, Trial, number_ranges

__all__ = [
    "VERDICTS",
    "Claim",
    "Ledger",
    "Result",
    "check_claims",
    "claims_document",
    "claims_table",
    "claims_text",
    "load_claims",
    "table",
    "verdict",
]

REPRODUCED = "reproduced"
ASSUMING = "reproduced under stated assumptions"
CONTRADICTED = "contradicted"
ELSEWHERE = "measured elsewhere"
# A mark beside the words, for those who skim.
_MARKS = {REPRODUCED: "\u2713", ASSUMING: "(\u2713)", CONTRADICTED: "\u2717", ELSEWHERE: "\u2013"}
VERDICTS = (REPRODUCED, ASSUMING, CONTRADICTED, ELSEWHERE)


@dataclass(frozen=True)
class Claim:
    """A statement of a mail and the value it asserts."""

    id: str
    part: str
    source: str
    statement: str
    asserted: Any

    @property
    def name(self) -> str:
        """Its id and part, such as ``R4`` or ``R13b``."""
        return self.id + self.part


@dataclass(frozen=True)
class Result:
    """A claim, what was found, and the verdict."""

    claim: Claim
    finding: Finding
    verdict: str

    @property
    def matching(self) -> list[Trial]:
        """The trials that give the asserted value."""
        asserted = _plain(self.claim.asserted)
        return [trial for trial in self.finding.trials if _plain(trial.value) == asserted]

    @property
    def computed(self) -> list[Any]:
        """The distinct values that the trials gave, the most frequent one first."""
        values: list[Any] = []
        counts: list[int] = []
        for trial in self.finding.trials:
            value = _plain(trial.value)
            if value in values:
                counts[values.index(value)] += 1
            else:
                values.append(value)
                counts.append(1)
        order = sorted(range(len(values)), key=lambda at: -counts[at])
        return [values[at] for at in order]

    @property
    def assumptions(self) -> list[str]:
        """The settings under which the claim holds; none if it holds always, or never."""
        if self.verdict != ASSUMING:
            return []
        return _settings(self.matching, self.finding.numbers)


def verdict(asserted: Any, trials: Sequence[Trial]) -> str:
    """Judge a claim by its trials alone.

    Examples
    --------
    >>> verdict(4, [Trial("from 0", 4), Trial("from 1", 5)])
    'reproduced under stated assumptions'
    >>> verdict(4, [Trial("", 5)]), verdict("+12 %", [])
    ('contradicted', 'measured elsewhere')
    """
    if not trials:
        return ELSEWHERE
    hits = sum(_plain(trial.value) == _plain(asserted) for trial in trials)
    if hits == len(trials):
        return REPRODUCED
    return ASSUMING if hits else CONTRADICTED


def load_claims() -> list[Claim]:
    """Read ``data/claims.toml``.

    Raises
    ------
    FormatError
        If it is not what it should be.

    Examples
    --------
    >>> [claim.name for claim in load_claims()][:4]
    ['R1', 'R2a', 'R2b', 'R3a']
    """
    path = data_dir() / "claims.toml"
    return _read_claims(read_toml(path), path.name)


def _read_claims(doc: Mapping[str, Any], where: str) -> list[Claim]:
    sources = doc.get("sources", {})
    claims = []
    for at, entry in enumerate(doc.get("claims", [])):
        field = f"{where}: claims[{at}]"
        if odd := sorted({"id", "part", "source", "statement", "asserted"} ^ {"part", *entry}):
            raise FormatError(field, f"field {brief(odd[0])} is missing or unknown")
        if entry["source"] not in sources:
            raise FormatError(
                f"{field}.source", f"{brief(entry['source'])}; expected one of the sources"
            )
        claims.append(Claim(**{"part": "", **entry, "source": sources[entry["source"]]}))
    return claims


def check_claims(id: str | None = None) -> list[Result]:
    """Compute every claim, or those of one id, and judge it.

    Parameters
    ----------
    id : str, optional
        Such as ``R5`` for all its parts, or ``R5b``.

    Raises
    ------
    RequestError
        If there is no such claim.

    Examples
    --------
    >>> for result in check_claims("C2"):
    ...     print(result.claim.name, result.verdict, result.computed)
    C2a reproduced [{'2': 2, '4': 9, 'spanning': 0}]
    C2b reproduced under stated assumptions ['0-3', '36-39']
    C2c contradicted [[10, 11]]
    """
    claims = load_claims()
    wanted = [claim for claim in claims if id is None or id in (claim.id, claim.name)]
    if not wanted:
        known = ", ".join(dict.fromkeys(claim.id for claim in claims))
        raise RequestError(f"claim {brief(id)}: expected one of {known}")
    results = []
    for claim in wanted:
        finding = SCENARIOS[claim.name]()
        results.append(Result(claim, finding, verdict(claim.asserted, finding.trials)))
    return results


def claims_text(results: Sequence[Result], width: int = 100) -> str:
    """Print results: a paragraph each, the assumptions under the values.

    Examples
    --------
    >>> print(claims_text(check_claims("M4c"), width=72))
    M4c  contradicted
         The second is 15 % faster than the first.
         asserted  15
         computed  17.7
         note      Read as time saved it would be right: 84.04 / 98.93 is
                   15.1 % less.
         source    [PATCH 3/3] net: mana: add a function to spread IRQs per
                   CPUs (17 December 2023)
    <BLANKLINE>
    1 contradicted
    """
    paragraphs = []
    for result in results:
        values = result.computed
        shown = "; ".join(map(_show, values[:6])) + (
            f"; {len(values) - 6} more" if len(values) > 6 else ""
        )
        lines = [f"{result.claim.name:<5}{result.verdict}"]
        lines += wrap(
            result.claim.statement, width, initial_indent=" " * 5, subsequent_indent=" " * 5
        )
        fields = [("asserted", _show(result.claim.asserted)), ("computed", shown)]
        fields += [("holds for", holds) for holds in _brief_list(result.assumptions)]
        fields += [("note", result.finding.note), ("source", result.claim.source)]
        for name, text in fields:
            lines += wrap(
                text, width, initial_indent=f"     {name:<10}", subsequent_indent=" " * 15
            )
        paragraphs.append("\n".join(lines))
    return "\n\n".join([*paragraphs, _totals(results)])


def claims_table(results: Sequence[Result], width: int = 100) -> str:
    """Print results: a line each.

    Examples
    --------
    >>> print(claims_table(check_claims("M4"), width=64))
    claim  verdict                             asserted / computed
    M4a    reproduced                          84.04
    M4b    reproduced                          98.93
    M4c    contradicted                        15 / 17.7
    <BLANKLINE>
    2 reproduced, 1 contradicted
    """
    lines = [f"{'claim':<7}{'verdict':<36}asserted / computed"]
    for result in results:
        values = _show(result.claim.asserted)
        others = [value for value in result.computed if value != _plain(result.claim.asserted)]
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
        for result in self.results:
            cells = "".join(f"<td {left}>{cell}</td>" for cell in _cells(result))
            rows.append(f"<tr>{cells}</tr>")
        return "\n".join(["<table>", *rows, "</table>", f"<p>{_totals(self.results)}</p>"])


def table(*ids: str) -> Ledger:
    """Compute the claims of some ids, or all, and give them as a table for a notebook.

    Examples
    --------
    >>> table("R12", "M4").results[-1].verdict
    'contradicted'
    """
    if not ids:
        return Ledger(check_claims())
    return Ledger([result for id in ids for result in check_claims(id)])


_HEADS = ("claim", "it says", "asserted", "computed", "verdict")


def _cells(result: Result) -> list[str]:
    """Put a result into the cells of a row; the conditions stand below the computed value."""
    computed = _brief_list([_show(value) for value in result.computed], 3)
    conditions = [f"holds for {holds}" for holds in _brief_list(result.assumptions, 4)]
    conditions += [result.finding.note] if result.finding.note else []
    below = "".join(f"<br><small>{html.escape(text)}</small>" for text in conditions)
    texts = (
        result.claim.name,
        result.claim.statement,
        _show(result.claim.asserted),
        "; ".join(computed),
        f"{_MARKS[result.verdict]} {result.verdict}",
    )
    cells = [html.escape(text) for text in texts]
    cells[3] += below
    return cells


def _totals(results: Sequence[Result]) -> str:
    totals = Counter(result.verdict for result in results)
    return ", ".join(f"{totals[kind]} {kind}" for kind in VERDICTS if totals[kind])


def claims_document(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Give results as a document for JSON."""
    return [
        {
            "id": result.claim.id,
            "part": result.claim.part,
            "source": result.claim.source,
            "statement": result.claim.statement,
            "asserted": _plain(result.claim.asserted),
            "computed": result.computed,
            "verdict": result.verdict,
            "assumptions": result.assumptions,
            "trials": len(result.finding.trials),
            "matching": len(result.matching),
            "note": result.finding.note,
        }
        for result in results
    ]


def _plain(value: Any) -> Any:
    """Bring values of Python and TOML to one form: keys are text, tuples are lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, CpuSet) else value


def _show(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return " ".join(map(_show, value))
    return str(value)


def _settings(trials: Iterable[Trial], numbers: str) -> list[str]:
    """Put trials into words, those that differ in their number alone together."""
    by_setting: dict[str, list[int]] = {}
    for trial in trials:
        by_setting.setdefault(trial.setting, [])
        if trial.number is not None:
            by_setting[trial.setting].append(trial.number)
    return [
        ": ".join(filter(None, [setting, f"{numbers} {number_ranges(found)}" if found else ""]))
        for setting, found in by_setting.items()
    ]


def _brief_list(texts: list[str], most: int = 8) -> list[str]:
    more = [f"... and {len(texts) - most} more settings"] if len(texts) > most else []
    return texts[:most] + more
