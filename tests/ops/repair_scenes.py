"""A loop for repairs in virtual time: look at everything, review, let time pass."""

import dataclasses
import datetime

from tests.ops.conftest import Recorder, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import declared, fleet, health, repairs
from tpuctl.ops import ports as ports_module
from tpuctl.ops import repairs as ops
from tpuctl.ops.reconciling import settings

ALLOW, RECOMMEND, OFF = declared.Permission.ALLOW, declared.Permission.RECOMMEND, declared.Permission.OFF
ACT, OBSERVE = declared.Mode.ACT, declared.Mode.OBSERVE
CYCLE_S = 60.0
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


class Hooks:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, str]]] = []

    def run(self, event: declared.HookEvent, facts: dict[str, str]) -> None:
        self.told.append((str(event), dict(facts)))


class Named:
    """An Identity port of somebody."""

    def __init__(self, name: str) -> None:
        self._name = name

    def actor(self) -> str:
        return f"{self._name}@laptop:4711"

    def is_dead(self, holder: str) -> bool:
        return False


def as_person(ports: ports_module.Ports, name: str) -> ports_module.Ports:
    return dataclasses.replace(ports, identity=Named(name))


def spec_of(scene: Rehearsal, *slices: declared.WantedSlice, **policy: object) -> declared.FleetSpec:
    """Every block of the fleet is looked after; `policy` are fields of Remediation."""
    blocks = tuple(declared.BlockSpec(name=block.name) for block in whole(scene).blocks)
    return declared.FleetSpec(
        name="test",
        reservations=(declared.ReservationSpec(name="r", blocks=blocks),),
        slices=slices,
        remediation=dataclasses.replace(declared.Remediation(), **policy),
    )


@dataclasses.dataclass
class Loop:
    """The part of the reconcile loop that deals with repairs."""

    scene: Rehearsal
    spec: declared.FleetSpec
    mode: declared.Mode = ACT
    reporter: Recorder = dataclasses.field(default_factory=Recorder)
    hooks: Hooks = dataclasses.field(default_factory=Hooks)
    ports: ports_module.Ports | None = None
    against: str = ""

    def cycle(self) -> ops.Review:
        snapshot = whole(self.scene)
        policy, now = health.DEFAULT_POLICY, snapshot.observed_at
        seen = settings.Seen(snapshot, self.spec, policy, self.mode, now)
        ports = self.ports or self.scene.ports
        return ops.review(ports, self.reporter, seen, self.hooks, may_act=lambda _item: self.against)

    def run(self, seconds: float, *, every_s: float = CYCLE_S) -> ops.Review:
        """Cycles for so long; the last review."""
        review = self.cycle()
        for _ in range(int(seconds // every_s)):
            self.scene.simulator.advance(every_s)
            review = self.cycle()
        return review

    def until(self, wanted, *, for_s: float = 4 * HOUR_S, every_s: float = CYCLE_S) -> ops.Review:
        """Cycles until the review is as wanted."""
        for _ in range(int(for_s // every_s)):
            review = self.cycle()
            if wanted(review):
                return review
            self.scene.simulator.advance(every_s)
        raise AssertionError(
            f"not within {for_s:.0f} s: {self.reporter.steps[-5:]} {self.reporter.warnings[-5:]}"
        )

    @property
    def items(self) -> list[repairs.Item]:
        return list(ops.list_open(self.scene.ports))

    @property
    def closed(self) -> list[repairs.Item]:
        return list(ops.list_closed(self.scene.ports))


def proposed(review: ops.Review) -> bool:
    return bool(review.opened)


def closed(review: ops.Review) -> bool:
    return bool(review.closed)


def host_of(scene: Rehearsal, *, cube: int = 0, index: int = 5) -> fleet.Host:
    return whole(scene).cubes[cube].hosts[index]


def now(scene: Rehearsal) -> datetime.datetime:
    return scene.simulator.call(scene.simulator.world.clock.now)


def resets(scene: Rehearsal, host: fleet.Host) -> int:
    instance = scene.ports.instances.get(host.provider_id)
    return 0 if instance is None else len(scene.ports.instances.resets(instance))


def reports(scene: Rehearsal, host: fleet.Host) -> int:
    instance = scene.ports.instances.get(host.provider_id)
    return 0 if instance is None else len(scene.ports.instances.reports(instance))
