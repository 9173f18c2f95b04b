"""Maintenance windows: when one is open, and which opens next. All times are UTC."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.model import declared

MON, TUE, SUN = declared.Weekday.MON, declared.Weekday.TUE, declared.Weekday.SUN
HOUR_S = 3600.0
MONDAY = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)


def window(*days: declared.Weekday, at_hour: float = 2, hours: float = 4) -> declared.Window:
    return declared.Window(name="night", days=days, start_minute=int(at_hour * 60), length_s=hours * HOUR_S)


def moment(day: int, hour: float) -> datetime.datetime:
    """Days after a Monday."""
    return MONDAY + datetime.timedelta(days=day, hours=hour)


@pytest.mark.parametrize(
    ("windows", "after", "opening"),
    [
        ((window(SUN),), moment(0, 8), (moment(6, 2), moment(6, 6))),
        ((window(MON),), moment(0, 1), (moment(0, 2), moment(0, 6))),
        ((window(MON),), moment(0, 2), (moment(7, 2), moment(7, 6))),
        ((window(MON),), moment(0, 3), (moment(7, 2), moment(7, 6))),
        ((window(MON, TUE),), moment(0, 8), (moment(1, 2), moment(1, 6))),
        ((window(SUN), window(TUE, at_hour=23.5)), moment(0, 8), (moment(1, 23.5), moment(2, 3.5))),
        ((window(TUE), window(TUE, hours=9)), moment(0, 8), (moment(1, 2), moment(1, 11))),
        ((), moment(0, 8), None),
        ((window(),), moment(0, 8), None),
    ],
    ids=[
        "later in the week",
        "later today",
        "one that opens right now is not next",
        "one that is open is not next",
        "of several days the first",
        "over midnight",
        "the longest of two",
        "none",
        "on no day",
    ],
)
def test_which_window_opens_next(
    windows: tuple[declared.Window, ...],
    after: datetime.datetime,
    opening: tuple[datetime.datetime, datetime.datetime] | None,
) -> None:
    assert declared.next_window(windows, after) == opening


@given(
    days=st.lists(st.sampled_from([*declared.Weekday]), min_size=1, unique=True),
    start_minute=st.integers(0, 1439),
    length_s=st.sampled_from([600.0, HOUR_S, 12 * HOUR_S, 47 * HOUR_S]),
    minutes=st.integers(0, 14 * 24 * 60),
)
def test_the_next_window_is_open_from_its_first_second_to_its_last(
    days: list[declared.Weekday], start_minute: int, length_s: float, minutes: int
) -> None:
    one = declared.Window(name="w", days=tuple(days), start_minute=start_minute, length_s=length_s)
    after = MONDAY + minutes * MINUTE
    opening = declared.next_window((one,), after)
    assert opening is not None
    assert after < opening.starts_at <= after + datetime.timedelta(days=7)
    assert (opening.ends_at - opening.starts_at).total_seconds() == length_s
    assert declared.is_open((one,), opening.starts_at)
    assert declared.is_open((one,), opening.ends_at - MINUTE)
    if not declared.is_open((one,), after):
        assert not declared.is_open((one,), opening.starts_at - MINUTE)
