"""Carry out the actions of a cycle one after the other, each looked at again before it begins."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import errors, reconciling
from tpuctl.ops.reconciling import desk as desks
from tpuctl.ops.reconciling import forms, outcomes, pauses, pool_actions, slice_actions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_Became = outcomes.Became
_Kind = reconciling.ActionKind
_ONE_BY_ONE: dict[
    reconciling.ActionKind, Callable[[desks.Desk, reconciling.Action], tuple[outcomes.Became, str]]
] = {
    _Kind.FINISH: slice_actions.finish,
    _Kind.SWAP: slice_actions.swap,
    _Kind.DEFORM: slice_actions.deform,
    _Kind.RECREATE_POOL: pool_actions.recreate,
    _Kind.GROW: slice_actions.remake,
    _Kind.MOVE: slice_actions.remake,
}
_TOGETHER = {_Kind.FORM: forms.TOGETHER, _Kind.CREATE_POOL: 100}
"""Kinds that are done several at a time, and how many."""


class Done(NamedTuple):
    """What became of the actions."""

    results: tuple[outcomes.Result, ...]
    failure: errors.TpuctlError | None
    """What ended the cycle before its end."""


def carry_out(
    desk: desks.Desk,
    actions: Sequence[reconciling.Action],
    *,
    stop: Callable[[], bool] = lambda: False,
    on_results: Callable[[Sequence[outcomes.Result]], None] = lambda _: None,
) -> Done:
    """Do what was decided. `stop` is asked between actions: what has begun is finished.

    A failure of one leaves the others alone, unless it is the loss of leadership, permission or the server.
    `on_results` hears of each result before the next action begins.
    """
    results: list[outcomes.Result] = []
    failures: list[errors.TpuctlError] = []
    for group in _grouped(actions):
        if failures:
            results += _stopped(group, "the cycle ended early")
        elif stop():
            results += _stopped(group, "the loop was told to end")
        else:
            found = _group(desk, group, failures)
            results += found
            on_results(found)
    return Done(tuple(results), failures[0] if failures else None)


def _group(
    desk: desks.Desk, group: Sequence[reconciling.Action], failures: list[errors.TpuctlError]
) -> list[outcomes.Result]:
    """Look again, leave out what is off, do the rest; every action has a result."""
    known: dict[str, outcomes.Result] = {}
    rest = _Became.STOPPED
    try:
        fit = _still_fit(desk, group, known)
    except errors.TpuctlError as blind:
        failures.append(blind)  # who cannot look does not act
        return _stopped(group, blind.message)
    try:
        known |= {result.action.id: result for result in _act(desk, fit, failures)}
    except desks.FATAL as fatal:
        failures.append(fatal)
        rest, why = _Became.FAILED, fatal.message
    except errors.TpuctlError as error:
        rest, why = desks.judged(error)
    else:
        why = "the cycle ended early"
    return [known.get(action.id) or outcomes.Result(action, rest, why) for action in group]


def _still_fit(
    desk: desks.Desk, group: Sequence[reconciling.Action], known: dict[str, outcomes.Result]
) -> list[reconciling.Action]:
    pause = pauses.current(desk.ports)
    if pause is not None:
        group = [action for action in group if not _held_by(desk, action, pauses.sentence(pause), known)]
    if not group:
        return []
    desk.look_again()
    fit = []
    for action in group:
        try:
            desk.refuse_drift(action)
        except desks.Drift as drift:
            known[action.id] = outcomes.Result(action, *desks.judged(drift))
        else:
            fit.append(action)
    return fit


def _held_by(
    desk: desks.Desk, action: reconciling.Action, why: str, known: dict[str, outcomes.Result]
) -> bool:
    """A slice that is deleted and not made again yet helps nobody: that is finished even now."""
    if slice_actions.is_between(desk, action):
        return False
    known[action.id] = outcomes.Result(action, _Became.STOPPED, why)
    return True


def _act(
    desk: desks.Desk, group: Sequence[reconciling.Action], failures: list[errors.TpuctlError]
) -> list[outcomes.Result]:
    if not group:
        return []
    kind = group[0].kind
    if kind is _Kind.FORM:
        return forms.form(desk, group, failures)
    if kind is _Kind.CREATE_POOL:
        return pool_actions.create(desk, group, failures)
    [action] = group
    do = functools.partial(_ONE_BY_ONE[kind], desk, action)
    return [desks.attempt(desk, action, do, failures)]


def _grouped(actions: Iterable[reconciling.Action]) -> Iterator[list[reconciling.Action]]:
    """Runs of one kind, as many as that kind is done at a time."""
    for kind, run in itertools.groupby(actions, key=lambda action: action.kind):
        waiting = list(run)
        size = _TOGETHER.get(kind, 1)
        for start in range(0, len(waiting), size):
            yield waiting[start : start + size]


def _stopped(group: Iterable[reconciling.Action], why: str) -> list[outcomes.Result]:
    return [outcomes.Result(action, _Became.STOPPED, why) for action in group]
