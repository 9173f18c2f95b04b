"""What disturbs the commands of a soak: APIs that fail by chance, and the death of the program itself."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import crash_cases
from tpuctl.cloud import kube
from tpuctl.sim import api_faults
from tpuctl.sim.api_faults import calls

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from tests.e2e.crash_stage import Stage

PASSING = (
    "429 with Retry-After",
    "500",
    "500 after commit",
    "503",
    "reset before",
    "reset after commit",
    "cut off",
)
"""Faults that are met again and again, each call with some chance."""
SINGLE = ("401", "403", "409", "half a document", "error under 200", "timeout before", "timeout after commit")
"""Faults that end most commands, or take time: one call meets them."""
CALLS = {"swap": 400, "resume": 300, "abort": 300}
"""About so many calls does a command make, others MOST."""
MOST = 70


class Killed(BaseException):
    """Stands for kill -9: no except clause and no clean-up of the program gets anywhere after it."""


@dataclasses.dataclass
class Met:
    """What came of a disturbance."""

    name: str
    hits: int = 0
    seen: int = 0


@contextlib.contextmanager
def api_fault(stage: Stage, dice: random.Random, rate: float, arguments: Sequence[str]) -> Iterator[Met]:
    """Some fault of the Kubernetes API while this lasts."""
    name = dice.choice(PASSING + SINGLE)
    if name in PASSING:
        trigger: dict[str, Any] = {"probability": rate, "seed": dice.randrange(1 << 30)}
    else:
        trigger = {"call": _some_call(dice, arguments)}
    met = Met(name)
    effect = crash_cases.FAULTS[name]
    with api_faults.injected(stage.simulator, effect, api=calls.KUBERNETES, **trigger) as fault:
        yield met
    met.hits = fault.hits


@contextlib.contextmanager
def killed_at(dice: random.Random, arguments: Sequence[str]) -> Iterator[Met]:
    """The program dies at some call, before it or after it was carried out. Its connections die with it."""
    met = Met("killed")
    last, carried_out = _some_call(dice, arguments), dice.random() < 0.5
    dead: set[int] = set()
    victim: list[int] = []
    real = kube.Kube.request

    def request(self: kube.Kube, *arguments: Any, **options: Any) -> kube.Answer:
        if id(self) in dead:
            raise Killed
        if not victim:
            victim.append(id(self))
        if id(self) != victim[0]:
            return real(self, *arguments, **options)
        met.seen += 1
        if met.seen < last:
            return real(self, *arguments, **options)
        dead.add(id(self))
        if carried_out:
            real(self, *arguments, **options)
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kube.Kube, "request", request)
        yield met


def _some_call(dice: random.Random, arguments: Sequence[str]) -> int:
    return dice.randint(1, CALLS.get(arguments[1], MOST))
