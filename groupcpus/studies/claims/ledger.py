# SPDX-License-Identifier: GPL-2.0-only
"""Claims, and how they are judged: by what their scenarios compute, and by that alone."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import attrs

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, RequestError, brief
from groupcpus.formats import anything, structured, table, tables, text
from groupcpus.machines.machine import data_dir, read_toml
from groupcpus.studies.claims.trials import SCENARIOS, Outcome, Trial, number_ranges

__all__ = [
    "ANSWERED",
    "ASSUMING",
    "CONTRADICTED",
    "ELSEWHERE",
    "REPRODUCED",
    "VERDICTS",
    "Claim",
    "Result",
    "check_claims",
    "load_claims",
    "plain_value",
    "read_claims",
    "settings_in_words",
    "verdict",
]

REPRODUCED = "reproduced"
ASSUMING = "reproduced under stated assumptions"
CONTRADICTED = "contradicted"
ANSWERED = "answered"
ELSEWHERE = "measured elsewhere"
VERDICTS = (REPRODUCED, ASSUMING, CONTRADICTED, ANSWERED, ELSEWHERE)

_SEED = re.compile("requests random ([0-9]+)")


@attrs.frozen
class _Entry:
    """An entry of ``claims`` in ``data/claims.toml``."""

    id: str = text("an id such as R5", form="[A-Z][0-9]{1,3}")
    source: str = text()
    statement: str = text()
    part: str = text("a letter", form="[a-z]?", default="")
    asserted: Any = anything(default=None)
    reading: str = text(default="")
    each: str = text("a form with {key} and {value}", default="")


@attrs.frozen
class _LedgerFile:
    """``data/claims.toml``."""

    sources: dict[str, str] = table()
    claims: list[_Entry] = tables(1000)


@dataclass(frozen=True)
class Claim:
    """A statement of a mail and the value it asserts.

    Attributes
    ----------
    id, part : str
        Such as ``R13`` and ``b``.
    source : str
        The mail.
    statement : str
        In our own words.
    asserted : object
        The value; None for a question or a suggestion, which asserts none.
    reading : str
        How the statement is read, where it could be read otherwise.
    each : str
        How to write one of several figures, with ``{key}`` and ``{value}``.
    """

    id: str
    part: str
    source: str
    statement: str
    asserted: Any = None
    reading: str = ""
    each: str = ""

    @property
    def name(self) -> str:
        """Its id and part, such as ``R4`` or ``R13b``."""
        return self.id + self.part


@dataclass(frozen=True)
class Result:
    """A claim, what was found, and the verdict."""

    claim: Claim
    outcome: Outcome
    verdict: str

    @property
    def matching(self) -> list[Trial]:
        """The trials that give the asserted value."""
        asserted = plain_value(self.claim.asserted)
        return [trial for trial in self.outcome.trials if plain_value(trial.value) == asserted]

    @property
    def computed(self) -> list[Any]:
        """The distinct values that the trials gave, the most frequent one first."""
        values: list[Any] = []
        counts: list[int] = []
        for trial in self.outcome.trials:
            value = plain_value(trial.value)
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
        return settings_in_words(self.matching, self.outcome.numbers)


def verdict(asserted: Any, trials: Sequence[Trial]) -> str:
    """Judge a claim by its trials alone.

    Examples
    --------
    >>> verdict(4, [Trial("from 0", 4), Trial("from 1", 5)])
    'reproduced under stated assumptions'
    >>> verdict(4, [Trial("", 5)]), verdict("+12 %", []), verdict(None, [Trial("", 5)])
    ('contradicted', 'measured elsewhere', 'answered')
    """
    if not trials:
        return ELSEWHERE
    if asserted is None:
        return ANSWERED
    hits = sum(plain_value(trial.value) == plain_value(asserted) for trial in trials)
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
    return read_claims(read_toml(path), path.name)


def read_claims(doc: Mapping[str, Any], where: str) -> list[Claim]:
    """Read the contents of a ledger's file.

    Parameters
    ----------
    doc : mapping
        ``sources`` and ``claims``.
    where : str
        What errors call the file.

    Raises
    ------
    FormatError
        If a field is missing, unknown or not what it should be.
    """
    ledger = structured(doc, _LedgerFile, where)
    claims = []
    for at, entry in enumerate(ledger.claims):
        if entry.source not in ledger.sources:
            raise FormatError(
                f"{where}: claims[{at}].source",
                f"{brief(entry.source)}; expected one of the sources",
            )
        claims.append(
            Claim(
                entry.id,
                entry.part,
                ledger.sources[entry.source],
                entry.statement,
                entry.asserted,
                entry.reading,
                entry.each,
            )
        )
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
        outcome = SCENARIOS[claim.name]()
        results.append(Result(claim, outcome, verdict(claim.asserted, outcome.trials)))
    return results


def plain_value(value: Any) -> Any:
    """Bring values of Python and TOML to one form: keys are text, tuples are lists."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return str(value) if isinstance(value, CpuSet) else value


def settings_in_words(trials: Iterable[Trial], numbers: str) -> list[str]:
    """Put trials into words, together if they differ in their number or random order alone."""
    by_setting: dict[str, tuple[list[int], list[int]]] = {}
    for trial in trials:
        setting = _SEED.sub("requests in a random order", trial.setting)
        found, seeds = by_setting.setdefault(setting, ([], []))
        found += [] if trial.number is None else [trial.number]
        seeds += map(int, _SEED.findall(trial.setting))
    words = []
    for setting, (found, seeds) in by_setting.items():
        some = f" (some of seeds {number_ranges(seeds)})" if seeds else ""
        counted = f"{numbers} {number_ranges(found)}" if found else ""
        words.append(": ".join(filter(None, [setting + some, counted])))
    return words
