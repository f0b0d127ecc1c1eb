# SPDX-License-Identifier: GPL-2.0-only
"""File formats as typed classes: one way to check what a file holds.

A format is an attrs class whose fields are made by `text`, `number` and `table`; `structured` turns
a parsed document into one, by cattrs.  Nothing is converted: a number is no text.  What does not
fit ends in one `FormatError` that names the field, its value and what was expected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import cattrs
from cattrs.cols import (
    is_mapping,
    is_sequence,
    list_structure_factory,
    mapping_structure_factory,
)
from cattrs.errors import (
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
)
from cattrs.gen import make_dict_structure_fn

from groupcpus.errors import FormatError, brief, meant

__all__ = ["anything", "number", "structured", "table", "tables", "text"]

_Form = TypeVar("_Form")
_Check = Callable[[Any], bool]


class _RefusedError(ValueError):
    """A value of the right type that a field does not take."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def _field(expected: str, check: _Check | None = None, default: Any = attrs.NOTHING) -> Any:
    def refuse(_: Any, attribute: Any, value: Any) -> None:
        # None got this far where the type takes it.
        if check is not None and value is not None and not check(value):
            raise _RefusedError(attribute.name)

    return attrs.field(default=default, validator=refuse, metadata={"expected": expected})


def text(
    expected: str = "a text",
    *,
    most: int = 4000,
    form: str = "",
    names: Sequence[str] = (),
    default: Any = attrs.NOTHING,
) -> Any:
    """Return a field that is a text.

    Parameters
    ----------
    expected : str
        What an error says was expected.
    most : int
        How long it may be.
    form : str
        A regular expression that all of it matches.
    names : sequence of str
        What it may be; an error then lists them.
    default : object
        Its value when it is left out.
    """

    def check(value: str) -> bool:
        fits = not form or re.fullmatch(form, value) is not None
        return len(value) <= most and fits and (not names or value in names)

    return _field(f"one of {', '.join(names)}" if names else expected, check, default)


def number(least: int, most: int, default: Any = attrs.NOTHING) -> Any:
    """Return a field that is a whole number between two others."""
    expected = f"a whole number from {least} to {most}"
    return _field(expected, lambda value: least <= value <= most, default)


def table(expected: str = "a table", default: Any = attrs.NOTHING) -> Any:
    """Return a field that is a table: another class, or a mapping."""
    return _field(expected, default=default)


def tables(most: int) -> Any:
    """Return a field that is a list of tables, empty when left out."""
    return _field(
        f"a list of at most {most} tables", lambda value: len(value) <= most, attrs.Factory(list)
    )


def anything(default: Any = attrs.NOTHING) -> Any:
    """Return a field that may be anything a document can hold."""
    return _field("a value", default=default)


_WORDS = {str: "a text", int: "a whole number", bool: "true or false", float: "a number"}


def _exactly(kind: type) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return structure


def _only_from(kind: type, factory: Callable[..., Any]) -> Callable[..., Any]:
    """Let a factory of cattrs take values of a kind alone: by itself it iterates over any."""

    def make(wanted: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
        own = factory(wanted, converter)

        def structure(value: Any, form: Any) -> Any:
            if not isinstance(value, kind):
                raise TypeError
            return own(value, form)

        return structure

    return make


def _class_factory(wanted: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    return make_dict_structure_fn(
        wanted, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True
    )


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    for plain in _WORDS:
        converter.register_structure_hook(plain, _exactly(plain))
    for test, kind, factory in (
        (is_sequence, list, list_structure_factory),
        (is_mapping, Mapping, mapping_structure_factory),
        (attrs.has, Mapping, _class_factory),
    ):
        converter.register_structure_hook_factory(test, _only_from(kind, factory))
    return converter


_CONVERTER = _converter()


def structured(document: object, form: type[_Form], where: str) -> _Form:
    """Turn a parsed document into an object of a format's class.

    Parameters
    ----------
    document : object
        What a parser of TOML or JSON returned.
    form : type
        The class.
    where : str
        What errors call the document.

    Raises
    ------
    FormatError
        If a field is missing, unknown or not what it should be.

    Examples
    --------
    >>> @attrs.frozen
    ... class Disk:
    ...     name: str = text()
    ...     queues: int = number(1, 64, default=1)
    >>> structured({"name": "nvme0"}, Disk, "disk.toml")
    Disk(name='nvme0', queues=1)
    >>> structured({"name": "nvme0", "queues": 0}, Disk, "disk.toml")
    Traceback (most recent call last):
        ...
    groupcpus.errors.FormatError: disk.toml: queues: 0; expected a whole number from 1 to 64
    """
    try:
        return _CONVERTER.structure(document, form)
    except (ClassValidationError, TypeError) as error:
        field, what = _first_fault(error, document, form, "a table")
        place = f"{where}: {field}" if field else where
        raise FormatError(place, what) from None


def _first_fault(error: Exception, value: Any, form: Any, expected: str) -> tuple[str, str]:
    """Return the path of the first field that does not fit, and what is wrong with it."""
    if isinstance(error, IterableValidationError):
        inner, place = error.group_exceptions()[0][0]
        wanted = _WORDS.get(place.type, "a list" if is_sequence(place.type) else "a table")
        path, what = _first_fault(inner, value[place.index], place.type, wanted)
        return _joined(f"[{place.index}]", path), what
    if not isinstance(error, ClassValidationError):
        return "", f"{brief(value)}; expected {expected}"
    noted, plain = error.group_exceptions()
    fields = attrs.fields_dict(form)
    for one in plain:
        if isinstance(one, ForbiddenExtraKeysError):
            name = min(map(str, one.extra_fields))
            return "", f"unknown field {brief(name)}{meant(name, fields)}"
    if not noted:
        refused = next(one for one in plain if isinstance(one, _RefusedError))
        wanted = fields[refused.field].metadata["expected"]
        return refused.field, f"{brief(value[refused.field])}; expected {wanted}"
    inner, note = noted[0]
    wanted = fields[note.name].metadata["expected"]
    if note.name not in value:
        return note.name, f"missing; expected {wanted}"
    path, what = _first_fault(inner, value[note.name], note.type, wanted)
    return _joined(note.name, path), what


def _joined(name: str, path: str) -> str:
    return f"{name}{path}" if path.startswith("[") or not path else f"{name}.{path}"
