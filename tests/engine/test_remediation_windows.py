"""A yes to what waits for a maintenance window lasts until then, and its cube stays in use meanwhile."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tests import builders
from tests.engine import remediation_worlds as worlds
from tpuctl.engine import remediation
from tpuctl.model import declared, repairs

if TYPE_CHECKING:
    from tpuctl.model import fleet

State, Step = worlds.State, repairs.Step
NOW = worlds.NOW  # a Monday, 08:00
HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
OPENS, CLOSES = NOW + 5 * DAY + 18 * HOUR, NOW + 5 * DAY + 22 * HOUR
SUNDAY = declared.Window(name="weekly", days=(declared.Weekday.SUN,), start_minute=120, length_s=4 * 3600.0)
TRAIN = builders.slice_of("train", "4x4x4", "c1")


def at(span: datetime.timedelta, *cubes: fleet.Cube, **policy: object) -> remediation.World:
    known: dict[str, object] = {"windows": (SUNDAY,), "failover": worlds.OFF}
    fleet_spec = worlds.spec(**(known | policy))
    return worlds.world(*(cubes or (worlds.silent(),)), at=NOW + span, slices=(TRAIN,), fleet_spec=fleet_spec)


def reboot() -> repairs.Item:
    """The reboot of a host under a slice, which a person has said yes to."""
    item = worlds.approved(worlds.opened(at(0 * HOUR)))
    assert (item.case.remedy, item.case.voluntary) == (worlds.Remedy.REBOOT, True)
    return item


def test_a_yes_lasts_to_the_end_of_the_window_that_it_waits_for() -> None:
    item = worlds.one(at(HOUR), reboot())
    assert (item.state, item.expires_at) == (State.APPROVED, CLOSES)
    for hours in (23, 25, 5 * 24):
        found = remediation.review(at(hours * HOUR), [item])
        assert (found.changed, found.begin, found.opened) == ((), (), ())
        why = "it interrupts work, and no maintenance window is open: the next opens at 2026-01-11 02:00 UTC"
        assert found.waiting == ((item.id, why),)
    assert remediation.review(at(OPENS - NOW), [item]).begin == (item,)


def test_a_yes_that_the_window_did_not_serve_ends_with_it() -> None:
    item = worlds.one(at(HOUR), reboot())
    assert worlds.one(at(CLOSES - NOW - HOUR), item) == item
    over = worlds.one(at(CLOSES - NOW), item)
    assert (over.state, over.note) == (
        State.EXPIRED,
        "it was approved and did not begin until 2026-01-11 06:00 UTC",
    )


def test_a_yes_in_an_open_window_that_is_too_short_for_it_lasts_to_the_next() -> None:
    said = repairs.Approval("jo", OPENS + HOUR)
    item = dataclasses.replace(reboot(), approvals=(said,), expires_at=said.at + DAY)
    assert worlds.one(at(said.at - NOW + HOUR), item).expires_at == CLOSES + 7 * DAY


def test_a_later_expiry_stays_and_so_does_what_waits_for_no_window() -> None:
    late = dataclasses.replace(reboot(), expires_at=CLOSES + DAY)
    assert worlds.one(at(HOUR), late) == late
    assert worlds.one(at(HOUR, windows=()), reboot()) == reboot()
    over = worlds.one(at(25 * HOUR, windows=()), reboot())
    assert over.state is State.EXPIRED
    idle = worlds.approved(worlds.opened(worlds.world(worlds.silent())))
    assert not idle.case.voluntary
    fleet_spec = worlds.spec(windows=(SUNDAY,))
    assert worlds.one(worlds.world(worlds.silent(), at=NOW + HOUR, fleet_spec=fleet_spec), idle) == idle


def test_a_proposal_that_nobody_answers_expires_as_ever() -> None:
    item = worlds.opened(at(0 * HOUR))
    assert worlds.one(at(DAY - HOUR), item) == item
    assert worlds.one(at(DAY), item).state is State.EXPIRED


def test_a_loop_that_was_away_for_a_day_still_knows_the_yes() -> None:
    item = worlds.one(at(3 * DAY), reboot())
    assert (item.state, item.expires_at) == (State.APPROVED, CLOSES)


def test_what_only_waits_for_a_window_leaves_its_cube_in_use() -> None:
    item = reboot()
    for hours in (1, 12, 23, 5 * 24):
        assert remediation.review(at(hours * HOUR), [item]).repairing == frozenset()
    assert remediation.review(at(OPENS - NOW), [item]).repairing == {"c1"}
    begun = worlds.running(item, Step.RESET, due_at=NOW + DAY)
    assert remediation.review(at(HOUR), [begun]).repairing == {"c1"}


def test_what_waits_its_turn_behind_another_repair_keeps_its_cube() -> None:
    cubes = [worlds.silent(f"c{number}") for number in (1, 2)]
    limited = worlds.spec(budgets=declared.Budgets(cubes_in_repair_per_block=1))
    found = worlds.world(*cubes, fleet_spec=limited)
    items = [worlds.approved(item) for item in remediation.review(found, []).opened]
    review = remediation.review(found, items)
    assert (len(review.begin), len(review.waiting)) == (1, 1)
    assert review.repairing == {"c1", "c2"}


def test_what_is_not_sure_any_more_keeps_no_cube() -> None:
    item = reboot()
    unsure = dataclasses.replace(at(OPENS - NOW), vms={})
    found = remediation.review(unsure, [dataclasses.replace(item, expires_at=CLOSES)])
    assert (found.begin, found.repairing) == ((), frozenset())
