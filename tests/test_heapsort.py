# SPDX-License-Identifier: GPL-2.0-only
"""The engine's sort against the compiled twin's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.engine.sort import heapsort_order
from groupcpus.errors import RequestError

np = pytest.importorskip("numpy")
twin = pytest.importorskip("groupcpus.studies.twin", reason="the extra `batch` is not installed")

SORTS = ("double-pop", "single-pop")

# -1 is UINT_MAX, as the C comparison sees it: entries without CPUs sort first.
keys = st.lists(st.one_of(st.integers(1, 3), st.integers(1, 8192), st.just(-1)), max_size=80)


def twin_order(values, variant):
    ids = np.arange(len(values), dtype=np.int32)
    twin.sort(ids, np.array(values, np.int32), len(values), variant == "single-pop")
    return ids.tolist()


@pytest.mark.parametrize("variant", SORTS)
@given(values=keys)
def test_any_keys(variant, values):
    order = heapsort_order(values, variant)
    assert order == twin_order(values, variant)
    assert sorted(order) == list(range(len(values)))
    assert [values[at] for at in order] == sorted(values)


@pytest.mark.parametrize("variant", SORTS)
def test_equal_keys(variant):
    for count in range(301):
        sorted_by_c = twin_order([7] * count, variant)
        assert heapsort_order([7] * count, variant) == sorted_by_c, count


@pytest.mark.parametrize("variant", SORTS)
def test_one_key_apart_from_equal_ones(variant):
    for count in range(2, 40):
        for at in range(count):
            for odd in (-1, 1, 9):
                values = [5] * count
                values[at] = odd
                assert heapsort_order(values, variant) == twin_order(values, variant)


@pytest.mark.parametrize("variant", SORTS)
def test_the_keys_are_left_alone(variant):
    values = [3, 1, 2, 1]
    heapsort_order(values, variant)
    assert values == [3, 1, 2, 1]
    assert heapsort_order(tuple(values), variant) == heapsort_order(values, variant)


def test_neither_sort_is_stable():
    assert heapsort_order([8] * 6) == [1, 3, 4, 5, 2, 0]
    assert heapsort_order([8] * 6, "single-pop") == [1, 2, 3, 4, 5, 0]


def test_an_unknown_variant_is_refused():
    with pytest.raises(RequestError):
        heapsort_order([1, 2], "quick")
