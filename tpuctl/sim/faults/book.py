"""The faults in place: put in now or later, lifted after a while, listed, cleared."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.faults import actions, table, targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks

PLANNED, ACTIVE, FAILED, OVER = "planned", "active", "failed", "over"


class UnknownFault(ValueError):
    """No fault of that name; `near` lists similar ones."""

    def __init__(self, name: str, known: Iterable[str] = table.FAULTS) -> None:
        self.near = targets.near(name, known)
        super().__init__(f"unknown fault {name!r}")


@dataclasses.dataclass(eq=False)
class Entry:
    """One fault that somebody put in."""

    id: str
    name: str
    thing: targets.Thing
    parameters: dict[str, float]
    state: str = PLANNED
    message: str = ""
    """What it did, or why it could not."""
    ends_at: datetime.datetime | None = None
    done: actions.Done | None = None
    timer: clocks.Timer | None = None

    def to_json(self) -> dict[str, Any]:
        """What `GET /sim/v1/faults` shows of it."""
        ends = {} if self.ends_at is None else {"endsAt": stores.timestamp(self.ends_at)}
        return {
            "id": self.id,
            "fault": self.name,
            "target": self.thing.name,
            "state": self.state,
            "message": self.message,
            "parameters": self.parameters,
            **ends,
        }


class Faults:
    """Puts faults into one world. Call it on the server's thread only."""

    def __init__(self, scene: targets.Scene, behaviour: behaviours.Behaviour) -> None:
        self._scene = scene
        self._behaviour = behaviour
        self._entries: dict[str, Entry] = {}
        self._numbers = itertools.count(1)

    def inject(self, name: str, target: str, parameters: Mapping[str, float] | None = None) -> Entry:
        """Put a fault in, now or `after_s` seconds of simulated time from now.

        The entry's message says what happened. Raises `UnknownFault`, `targets.UnknownTarget` or
        `actions.BadFault`; a fault that is put in later and then does not fit shows it as its state.
        """
        fault = table.FAULTS.get(name)
        if fault is None:
            raise UnknownFault(name)
        given = {**fault.defaults(self._behaviour), **(parameters or {})}
        _check(name, fault, given, self._behaviour)
        entry = Entry(f"f{next(self._numbers)}", name, fault.find(self._scene, target), given)
        after_s = 0.0 if fault.owns_time else given.get("after_s", 0.0)
        if after_s > 0:
            entry.message = f"in {after_s:g} s"
            self._entries[entry.id] = entry
            entry.timer = self._scene.clock.call_later(after_s, lambda: self._act_late(entry, fault))
        else:
            self._act(entry, fault)
        return entry

    def __iter__(self) -> Iterator[Entry]:
        """Those that are planned, active or failed to come about; oldest first."""
        self._review()
        return iter(list(self._entries.values()))

    def find(self, id: str) -> Entry | None:  # noqa: A002 - it is one
        self._review()
        return self._entries.get(id)

    def clear(self, entry: Entry) -> None:
        """Take a fault back, or keep a planned one from coming."""
        done, entry.done = entry.done, None
        self._forget(entry)
        if done is not None and done.undo is not None and done.lasts():
            done.undo()

    def _act_late(self, entry: Entry, fault: table.Fault) -> None:
        entry.timer = None
        try:
            self._act(entry, fault)
        except actions.BadFault as error:
            entry.state, entry.message = FAILED, str(error)

    def _act(self, entry: Entry, fault: table.Fault) -> None:
        # Before, so that a fault which somebody ended is not taken for this one.
        self._review()
        done = fault.action(self._scene, entry.thing, entry.parameters)
        entry.message, entry.state = done.message, ACTIVE
        if fault.lasting:
            entry.done = done
            self._entries[entry.id] = entry
            self._end_later(entry, fault)
        else:
            self._forget(entry)
        # And after: a repair ends other entries, whose timers must not go off under later faults.
        self._review()

    def _end_later(self, entry: Entry, fault: table.Fault) -> None:
        for_s = entry.parameters.get("for_s")
        if for_s is None:
            return
        clock = self._scene.clock
        if fault.owns_time:
            entry.ends_at = _later(clock, entry.parameters["after_s"] + for_s)
            return
        entry.ends_at = _later(clock, for_s)
        entry.timer = clock.call_later(for_s, lambda: self.clear(entry))

    def _review(self) -> None:
        """Drop what is over, by whoever's doing."""
        for entry in list(self._entries.values()):
            if entry.done is not None and not entry.done.lasts():
                self._forget(entry)

    def _forget(self, entry: Entry) -> None:
        entry.state = OVER
        self._entries.pop(entry.id, None)
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None


def _later(clock: clocks.Clock, seconds: float) -> datetime.datetime:
    return clock.now() + datetime.timedelta(seconds=seconds)


def _check(
    name: str, fault: table.Fault, given: Mapping[str, float], behaviour: behaviours.Behaviour
) -> None:
    missing = [one for one in fault.needs if one not in given]
    if missing:
        raise actions.BadFault(f"fault {name} needs {', '.join(missing)}")
    unwanted = sorted(set(given) - fault.parameters(behaviour))
    if unwanted:
        raise actions.BadFault(f"fault {name} takes no {', '.join(unwanted)}")
