"""Names: the rules of the services, and made-up names that stay stable and different."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.model import errors, names


@pytest.mark.parametrize("name", ["a", "train-a", "a" * 49, "x0-9"])
def test_good_slice_names(name: str) -> None:
    assert names.check_slice_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a" * 50, "ä", "a b", "a\n"])
def test_bad_slice_names(name: str) -> None:
    with pytest.raises(errors.UsageError):
        names.check_slice_name(name)


def test_long_names_with_one_beginning_stay_different() -> None:
    first, second = "x" * 43 + "-one-more-part-1", "x" * 43 + "-one-more-part-2"
    assert names.shortened(first, 49) != names.shortened(second, 49)
    assert len(names.shortened(first, 49)) <= 49
    # Made by an earlier version: must be found again by this one.
    assert names.shortened(first, 49) == "xxxxxx-one-more-part-1-97aa8956"


def test_the_number_of_a_sub_block_survives_shortening() -> None:
    name = names.pool_name("a-long-reservation-name-block-0001-subblock-0079")
    assert name == "cube-block-0001-subblock-0079-9c051639"


@given(st.text(min_size=1, max_size=80))
def test_pool_names_are_legal_whatever_the_sub_block_is_called(sub_block: str) -> None:
    name = names.pool_name(sub_block)
    assert re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", name)
    assert len(name) <= 40


def test_pool_name_of_a_usual_sub_block() -> None:
    assert names.pool_name("res-block-0001-subblock-0042") == "cube-res-block-0001-subblock-0042"
