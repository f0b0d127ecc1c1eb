# SPDX-License-Identifier: GPL-2.0-only
"""JSON made a structure of attrs classes: each field there, of its type, within its bounds.

Nothing is converted: a number is no text, a text is no list.  The first thing that is wrong is
said, with the path to it.
"""

from collections.abc import Callable
from typing import Any, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

from groupcpus.errors import FormatError, brief

__all__ = ["between", "one_of", "structured", "text"]


def structured(kind: type[Any], document: object, where: str) -> Any:
    """Return the document as an object of this class.

    Raises
    ------
    FormatError
        If a field is missing, unknown, of another type or out of its bounds.

    Examples
    --------
    >>> @attrs.frozen
    ... class Disk:
    ...     name: str = text(4)
    ...     queues: dict[str, int]
    >>> structured(Disk, {"name": "sda", "queues": {"0": 3}}, "disk")
    Disk(name='sda', queues={'0': 3})
    >>> structured(Disk, {"name": "sda", "queues": {"0": "3"}}, "disk")
    Traceback (most recent call last):
    groupcpus.errors.FormatError: disk: queues: '0': '3' is no whole number
    """
    try:
        return _CONVERTER.structure(document, kind)
    except (_WrongError, ClassValidationError) as error:
        path, what = _first(error)
        raise FormatError(": ".join([where, *path]).replace(": [", "["), what) from None


def text(most: int) -> Any:
    """Return a field for a text of so many printable ASCII characters, or for a list of them."""

    def check(_: object, attribute: Any, value: Any) -> None:
        for one in value if isinstance(value, list) else [value]:
            if one is None:
                continue
            if len(one) > most or not one.isascii():
                raise _WrongError(f"{brief(one)} is no text of at most {most} ASCII characters")
            if not one.isprintable():
                raise _WrongError(f"{brief(one)} has characters that cannot be printed")

    return attrs.field(validator=check)


def between(least: int, most: int) -> Any:
    """Return a field for a whole number in a range."""

    def check(_: object, attribute: Any, value: int) -> None:
        if not least <= value <= most:
            raise _WrongError(f"{brief(value)} is no whole number from {least} to {most}")

    return attrs.field(validator=attrs.validators.optional(check))


def one_of(*values: str) -> Any:
    """Return a field for one of some texts."""

    def check(_: object, attribute: Any, value: str) -> None:
        if value not in values:
            raise _WrongError(f"{brief(value)}: expected {', '.join(values[:-1])} or {values[-1]}")

    return attrs.field(validator=check)


class _WrongError(Exception):
    """What is wrong, and where below the place that is being read."""

    def __init__(self, what: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.what, self.path = what, path


def _first(error: BaseException) -> tuple[list[str], str]:
    """Return the path to the first thing that is wrong, and a word on it."""
    if isinstance(error, _WrongError):
        return list(error.path), error.what
    if isinstance(error, ForbiddenExtraKeysError):
        return [brief(min(map(str, error.extra_fields)))], "unknown field"
    if isinstance(error, ClassValidationError):
        named, others = error.group_exceptions()
        if named:
            cause, note = named[0]
            if isinstance(cause, KeyError):
                return [note.name], "missing"
            path, what = _first(cause)
            return [note.name, *path], what
        return _first(others[0])
    return [], brief(str(error))


_WORDS = {str: "text", int: "whole number", bool: "true or false", float: "number"}


def _exactly(kind: type) -> Callable[[object, Any], object]:
    def structure(value: object, _: Any) -> object:
        if type(value) is not kind:
            raise _WrongError(f"{brief(value)} is no {_WORDS[kind]}")
        return value

    return structure


def _structure_list(kind: Any, converter: cattrs.Converter) -> Callable[[object, Any], object]:
    (inner,) = get_args(kind)
    hook = converter.get_structure_hook(inner)

    def structure(value: object, _: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _WrongError(f"{brief(value)} is no list")
        return [_at(f"[{index}]", hook, one, inner) for index, one in enumerate(value)]

    return structure


def _structure_dict(kind: Any, converter: cattrs.Converter) -> Callable[[object, Any], object]:
    _, inner = get_args(kind)
    hook = converter.get_structure_hook(inner)

    def structure(value: object, _: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _WrongError(f"{brief(value)} is no object")
        return {key: _at(brief(key), hook, one, inner) for key, one in value.items()}

    return structure


def _structure_class(kind: Any, converter: cattrs.Converter) -> Callable[[object, Any], object]:
    hook = cattrs.gen.make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

    def structure(value: object, _: Any) -> object:
        if not isinstance(value, dict):
            raise _WrongError(f"{brief(value)} is no object")
        return hook(value, kind)

    return structure


def _at(place: str, hook: Callable[[Any, Any], Any], value: object, kind: Any) -> Any:
    try:
        return hook(value, kind)
    except (_WrongError, ClassValidationError) as error:
        path, what = _first(error)
        raise _WrongError(what, (place, *path)) from None


_CONVERTER = cattrs.Converter()
for _kind in _WORDS:
    _CONVERTER.register_structure_hook(_kind, _exactly(_kind))
_CONVERTER.register_structure_hook_factory(lambda kind: get_origin(kind) is list, _structure_list)
_CONVERTER.register_structure_hook_factory(lambda kind: get_origin(kind) is dict, _structure_dict)
_CONVERTER.register_structure_hook_factory(attrs.has, _structure_class)
