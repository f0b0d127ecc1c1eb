# SPDX-License-Identifier: GPL-2.0-only
"""CPU sets: what a cpulist may be, and the set operations."""

import operator
import pickle
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.errors import CpuListError, GroupCpusError
from tests.documents import cpulist_parse

numbers = st.sets(st.integers(0, 200) | st.integers(0, MAX_CPUS - 1))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("\n", []),
        ("0", [0]),
        ("0\n", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("8,0-3", [0, 1, 2, 3, 8]),
        ("0-3,2-5", [0, 1, 2, 3, 4, 5]),
        ("7-7", [7]),
        ("007", [7]),
        ("0-62:2", list(range(0, 63, 2))),
        ("0-63:2", list(range(0, 63, 2))),
        ("1-9:20", [1]),
        ("8191", [8191]),
    ],
)
def test_a_cpulist_is_read(text, cpus):
    assert list(CpuSet(text)) == cpus


@pytest.mark.parametrize(
    "text",
    [
        "3-1",
        "0-",
        "-4",
        "1,,2",
        "1,",
        ",1",
        ",",
        "-",
        "a",
        "0x1",
        "1.5",
        "+1",
        "1-2-3",
        "0--3",
        "0-3:0",
        "0-3:",
        "0-3:-1",
        "3:2",
        "0:3:1",
        " 1",
        "1 ",
        "1, 2",
        "1 - 2",
        "1\n2",
        "1\n\n",
        "1\r\n",
        "1\t",
        "1\x00",
        "٣",
        "1-٣",
        "²",
        "１",
        "1_0",
        "all",
        "N",
        "8192",
        "0-8192",
        "0-99999999",
        "99999999999999999999",
        "0-99999999999999999999:1",
        "0-8:99999999999999999999",
    ],
)
def test_garbage_is_refused(text):
    with pytest.raises(CpuListError) as raised:
        CpuSet(text)
    assert isinstance(raised.value, GroupCpusError)
    assert isinstance(raised.value, ValueError)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "text",
    ["1" * 10_000_000, "0," * 5_000_000, "0-8191," * 1_000_000, "(" * 60_000, "1-" * 30_000],
    ids=["digits", "commas", "ranges", "brackets", "dashes"],
)
def test_huge_texts_are_refused_quickly(text):
    started = time.process_time()
    with pytest.raises(CpuListError) as raised:
        CpuSet(text)
    assert time.process_time() - started < 1
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "cpus",
    [
        [-1],
        [MAX_CPUS],
        [10**30],
        [True],
        [1.0],
        ["1"],
        [None],
        [[0]],
        None,
        5,
        1.5,
        {"a": 1},
    ],
    ids=repr,
)
def test_what_holds_no_cpu_numbers_is_refused(cpus):
    with pytest.raises(CpuListError):
        CpuSet(cpus)


@pytest.mark.parametrize(
    "mask", [-1, 1 << MAX_CPUS, True, 1.0, "3", None], ids=lambda m: str(m)[:9]
)
def test_what_is_no_mask_is_refused(mask):
    with pytest.raises(CpuListError):
        CpuSet.from_mask(mask)


def test_an_endless_iterable_is_refused_at_its_first_bad_number():
    with pytest.raises(CpuListError):
        CpuSet(iter(lambda: MAX_CPUS, None))


@given(numbers)
def test_a_set_holds_its_cpus(cpus):
    made = CpuSet(cpus)
    assert list(made) == sorted(cpus)
    assert len(made) == len(cpus)
    assert bool(made) == bool(cpus)
    assert made.first == min(cpus, default=None)
    assert made.mask == sum(1 << cpu for cpu in cpus)
    assert CpuSet.from_mask(made.mask) == made == CpuSet(made) == CpuSet(list(cpus))
    assert all(cpu in made for cpu in cpus)
    assert -1 not in made
    assert MAX_CPUS not in made
    assert "0" not in made


@given(numbers)
def test_runs_are_as_long_as_can_be_and_make_up_the_set(cpus):
    runs = CpuSet(cpus).runs()
    assert [cpu for run in runs for cpu in run] == sorted(cpus)
    assert all(before.stop < after.start for before, after in pairwise(runs))


@pytest.mark.parametrize("text", ["²", "0-²", "0,³", "①", "٣", "0-4:²"])
def test_digits_that_int_does_not_read_are_refused(text):
    with pytest.raises(CpuListError):
        CpuSet(text)


def test_a_cpu_out_of_an_array_is_found():
    numpy = pytest.importorskip("numpy")
    assert numpy.int64(2) in CpuSet("2-3")
    assert numpy.int64(4) not in CpuSet("2-3")
    assert numpy.float64(2) not in CpuSet("2-3")


@given(numbers)
def test_the_printed_cpulist_is_read_back(cpus):
    made = CpuSet(cpus)
    text = str(made)
    assert CpuSet(text) == made
    assert CpuSet(text + "\n") == made
    assert cpulist_parse(text) == made.mask
    # As the kernel prints it: ascending ranges that neither touch nor overlap, no strides.
    ends = [[int(end) for end in part.split("-")] for part in text.split(",") if part]
    assert all(len(end) == 1 or (len(end) == 2 and end[0] < end[1]) for end in ends)
    assert all(left[-1] + 1 < right[0] for left, right in pairwise(ends))


def test_pairs_are_printed_as_ranges():
    assert str(CpuSet([0, 1])) == "0-1"
    assert str(CpuSet([0, 2, 4])) == "0,2,4"
    assert repr(CpuSet("0,1,8")) == "CpuSet('0-1,8')"


@given(numbers, numbers)
def test_operations_are_those_of_sets(a, b):
    x, y = CpuSet(a), CpuSet(b)
    assert x & y == CpuSet(a & b)
    assert x | y == CpuSet(a | b)
    assert x ^ y == CpuSet(a ^ b)
    assert x - y == CpuSet(a - b)
    assert (x <= y) == (a <= b)
    assert (x < y) == (a < b)
    assert (x >= y) == (a >= b)
    assert (x > y) == (a > b)
    assert (x == y) == (a == b)
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert (hash(x) == hash(y)) or a != b


def test_other_types_are_neither_equal_nor_comparable():
    assert CpuSet("0") != {0}
    assert CpuSet("0") != 1
    for operation in (operator.and_, operator.or_, operator.xor, operator.sub, operator.le):
        with pytest.raises(TypeError):
            operation(CpuSet("0"), {0, 1})


def test_a_set_is_immutable():
    made = CpuSet("0-3")
    with pytest.raises(AttributeError):
        made.mask = 0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        made.other = 0  # type: ignore[attr-defined]
    before = hash(made)
    union = made
    union |= CpuSet("8")
    assert str(made) == "0-3"
    assert hash(made) == before


def test_a_set_survives_pickling():
    assert pickle.loads(pickle.dumps(CpuSet("0-3,8"))) == CpuSet("0-3,8")


@pytest.mark.parametrize("text", [b"01", bytearray(b"0-3")])
def test_undecoded_text_is_no_collection_of_numbers(text):
    with pytest.raises(GroupCpusError, match="neither a cpulist nor a collection"):
        CpuSet(text)
