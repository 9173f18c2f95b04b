"""The machine's clock, scaled."""

from __future__ import annotations

import time

import pytest

from tpuctl.cloud import clock


@pytest.fixture
def sleeps(monkeypatch):
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    return found


def test_seconds_of_a_fast_context_are_short(sleeps):
    fast = clock.SystemClock(60.0)
    fast.sleep(120.0)
    assert sleeps == [2.0]
    assert fast.monotonic_s() == 3000.0


def test_a_very_fast_context_does_not_become_a_busy_loop(sleeps):
    clock.SystemClock(10_000.0).sleep(1.0)
    assert sleeps == [clock.SHORTEST_SLEEP_S]


def test_no_time_is_no_sleep(sleeps):
    clock.SystemClock().sleep(0.0)
    clock.SystemClock().sleep(-1.0)
    assert sleeps == []


def test_time_of_day_has_a_zone():
    assert clock.SystemClock().now().utcoffset().total_seconds() == 0
