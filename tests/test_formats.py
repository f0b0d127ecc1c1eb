# SPDX-License-Identifier: GPL-2.0-only
"""What file formats hold: every fault ends in one sentence that names the place."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.errors import FormatError
from groupcpus.formats import anything, number, structured, table, tables, text


@attrs.frozen
class Part:
    name: str = text(form="[a-z]+", most=8)
    size: int = number(1, 9, default=1)


@attrs.frozen
class Whole:
    kind: str = text(names=("small", "large"))
    first: Part = table()
    sets: dict[str, str] = table(default=attrs.Factory(dict))
    parts: list[Part] = tables(3)
    rest: Any = anything(default=None)


GOOD = {"kind": "small", "first": {"name": "a"}}


def test_a_good_document():
    whole = structured(
        {**GOOD, "parts": [{"name": "b", "size": 9}], "sets": {"x": "y"}, "rest": [1]}, Whole, "doc"
    )
    assert whole == Whole("small", Part("a"), {"x": "y"}, [Part("b", 9)], [1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": None}, "doc: kind: None; expected one of small, large"),
        ({"kind": "huge"}, "doc: kind: 'huge'; expected one of small, large"),
        ({"first": "a"}, "doc: first: 'a'; expected a table"),
        ({"first": {}}, "doc: first.name: missing; expected a text"),
        ({"first": {"name": "A"}}, "doc: first.name: 'A'; expected a text"),
        ({"first": {"name": "a" * 9}}, "doc: first.name: 'aaaaaaaaa'; expected a text"),
        ({"first": {"name": "a", "sise": 3}}, "doc: first: unknown field 'sise'; did you mean"),
        ({"first": [["name", "a"]]}, "doc: first: [['name', 'a']]; expected a table"),
        ({"sets": {"x": 1}}, "doc: sets"),
        ({"parts": {}}, "doc: parts: {}; expected a list of at most 3 tables"),
        ({"parts": "abc"}, "doc: parts: 'abc'; expected a list of at most 3 tables"),
        ({"parts": [{"name": "a"}] * 4}, "doc: parts: [{'name': 'a'}"),
        ({"parts": [{"name": "a"}, 7]}, "doc: parts[1]: 7; expected a table"),
        (
            {"parts": [{"name": "a", "size": True}]},
            "doc: parts[0].size: True; expected a whole number from 1 to 9",
        ),
        ({"parts": [{"name": "a", "size": 1.0}]}, "doc: parts[0].size: 1.0; expected a whole"),
        ({"parts": [{"name": "a", "size": 10**9999}]}, "doc: parts[0].size: an integer of "),
        ({"other": 1}, "doc: unknown field 'other'"),
    ],
)
def test_a_fault_is_named(change, message):
    with pytest.raises(FormatError) as caught:
        structured({**GOOD, **change}, Whole, "doc")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("document", [None, 7, "text", [], [GOOD]])
def test_what_is_no_table(document):
    with pytest.raises(FormatError, match=r"^doc: .*; expected a table$"):
        structured(document, Whole, "doc")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["kind", "first", "sets", "parts", "rest"]), VALUES))
def test_whatever_a_document_holds_it_fits_or_is_refused_in_a_sentence(change):
    said = "doc"
    try:
        structured({**GOOD, **change}, Whole, "doc")
    except FormatError as error:
        said = str(error)
    assert said.startswith("doc")
    assert len(said) <= 500
