# SPDX-License-Identifier: GPL-2.0-only
"""Fingerprints: what a function or a revision of one's own *is*, not only what it is called.

Rows on disk may answer for a revision as long as nothing that it computes with has changed: the
code of its functions, their constants, defaults and closures, and the global names they use.
Functions of installed packages and of Python itself count by name; groupcpus counts by its source
(`source_fingerprint`).
"""

import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import groupcpus
from groupcpus.errors import RequestError, brief

__all__ = ["fingerprint", "source_fingerprint"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis))
_MADE_BY_PYTHON = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__")


def fingerprint(thing: object) -> str:
    """Return a text that is the same for things that compute the same, in every process.

    Parameters
    ----------
    thing : object
        Plain data, functions, partials, bound methods, classes, objects with fields, and
        collections of them.

    Raises
    ------
    RequestError
        If something in it cannot be told apart from its later versions, such as an open file.

    Examples
    --------
    >>> def made(extra):
    ...     return lambda ncpus: ncpus + extra
    >>> fingerprint(made(1)) == fingerprint(made(1)), fingerprint(made(1)) == fingerprint(made(2))
    (True, False)
    """
    return _Reader().digest(thing)


@cache
def source_fingerprint() -> str:
    """Return the fingerprint of everything in groupcpus that a row depends on."""
    text = hashlib.sha256()
    root = Path(groupcpus.__file__).parent
    for room in ("engine", "machines", "studies"):
        for file in sorted((root / room).glob("*.py")):
            text.update(f"{room}/{file.name}".encode() + b"\0" + file.read_bytes())
    return text.hexdigest()


class _Reader:
    """Reads a thing part by part; one that contains itself is named by when it was met."""

    def __init__(self) -> None:
        # The things are kept with their digests, so that no later one gets the same id.
        self.known: dict[int, tuple[object, str]] = {}

    def digest(self, thing: object) -> str:
        if isinstance(thing, _PLAIN):
            return f"{type(thing).__name__} {thing!r}"
        if id(thing) not in self.known:
            self.known[id(thing)] = (thing, f"met {len(self.known)}")
            text = hashlib.sha256()
            for part in self.parts(thing):
                text.update(part.encode("utf-8", "backslashreplace") + b"\0")
            self.known[id(thing)] = (thing, text.hexdigest())
        return self.known[id(thing)][1]

    def parts(self, thing: object) -> Iterator[str]:
        """List the digests of what a thing consists of."""
        for kind, read in self.readers().items():
            if isinstance(thing, kind):
                yield kind.__name__
                yield from read(thing)
                return
        if _settled(thing) and hasattr(thing, "__qualname__"):
            # Of C, as numpy's functions and max() are.
            yield f"{thing.__module__}.{thing.__qualname__}"
            return
        try:
            made = thing.__reduce_ex__(4)
        except Exception as error:
            raise RequestError(
                f"{brief(thing)}: cannot be told apart from a later one of its kind, so rows made "
                "with it cannot be kept on disk; leave the path out"
            ) from error
        # What pickle would store: how to make it, of what, its fields and its items.
        yield from map(self.digest, [made] if isinstance(made, str) else made[:3])
        for items in () if isinstance(made, str) else made[3:5]:
            yield self.digest(list(items or ()))

    def readers(self) -> dict[type, Callable[[Any], Iterator[str]]]:
        return {
            tuple: lambda items: map(self.digest, items),
            list: lambda items: map(self.digest, items),
            set: lambda items: iter(sorted(map(fingerprint, items))),
            frozenset: lambda items: iter(sorted(map(fingerprint, items))),
            Mapping: self.mapping,
            CodeType: self.code,
            FunctionType: self.function,
            partial: lambda made: map(self.digest, (made.func, made.args, made.keywords)),
            MethodType: lambda bound: map(self.digest, (bound.__func__, bound.__self__)),
            property: lambda made: map(self.digest, (made.fget,)),
            staticmethod: lambda made: map(self.digest, (made.__func__,)),
            classmethod: lambda made: map(self.digest, (made.__func__,)),
            ModuleType: lambda module: iter([module.__name__]),
            type: self.type,
        }

    def mapping(self, items: Mapping[Any, Any]) -> Iterator[str]:
        for key, value in items.items():
            yield self.digest(key)
            yield self.digest(value)

    def code(self, code: CodeType) -> Iterator[str]:
        """Leave out where the code stands: a cell that runs again may have moved."""
        yield code.co_code.hex()
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount))
        yield repr((code.co_flags, code.co_exceptiontable))
        yield from map(self.digest, code.co_consts)

    def function(self, function: FunctionType) -> Iterator[str]:
        yield self.digest(function.__code__)
        yield self.digest(function.__defaults__)
        yield self.digest(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                yield self.digest(cell.cell_contents)
            except ValueError:
                yield "empty"
        if not _settled(function):
            for name in sorted(_names(function.__code__)):
                yield from self.name(name, function)

    def name(self, name: str, function: FunctionType) -> Iterator[str]:
        """Read what a global name stands for; of a module, what else the function names in it."""
        if name not in function.__globals__:
            return
        value = function.__globals__[name]
        yield name
        yield self.digest(value)
        if isinstance(value, ModuleType) and not _settled(value):
            for attribute in sorted(_names(function.__code__)):
                if attribute in vars(value):
                    yield attribute
                    yield self.digest(vars(value)[attribute])

    def type(self, kind: type) -> Iterator[str]:
        yield f"{kind.__module__}.{kind.__qualname__}"
        if not _settled(kind):
            yield from map(self.digest, kind.__bases__)
            for name, value in vars(kind).items():
                # What dataclass() writes follows from the fields, which are annotations.
                if name not in _MADE_BY_PYTHON and not name.startswith("__dataclass"):
                    yield name
                    yield self.digest(value)


def _names(code: CodeType) -> set[str]:
    """Return every name that code and the functions within it look up."""
    within = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_names, within))


def _settled(thing: object) -> bool:
    """Return whether something is Python's, an installed package's or groupcpus' own."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    if not isinstance(name, str):
        return False
    root = name.partition(".")[0]
    if root == "groupcpus" or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return file is not None and any(Path(file).is_relative_to(place) for place in places)
