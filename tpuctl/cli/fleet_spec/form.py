"""The form of the file: every key, what it may hold, and what holds if it is not said.

Fields are called as those of `model.declared` with the same meaning, so that a part of the file becomes a
record as it is. Keys are the same in camelCase, without the unit: in the file a span of time says its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from tpuctl.cli import durations
from tpuctl.cli.fleet_spec import words
from tpuctl.model import codec, declared
from tpuctl.model import topology as topologies

_SLICE = declared.WantedSlice(name="", shapes=())
_FLEET = declared.FleetSpec(name="")
_POOLS = declared.PoolSettings()
_HOOK = declared.Hook(event=declared.HookEvent.SLICE_FORMED, command=())

_Enum = pydantic.Strict(strict=False)  # the file holds its text
Permission = Annotated[declared.Permission, _Enum]
Weekday = Annotated[declared.Weekday, _Enum]
OnDeletion = Annotated[declared.OnDeletion, _Enum]


def _key(field: str) -> str:
    return codec.camel(field.removesuffix("_s"))


def _field(default: Any, description: str, **more: Any) -> Any:
    return pydantic.Field(default=default, description=description, **more)


def _span(default_s: float, description: str, **more: Any) -> Any:
    """A span of time; editors show its default as people write it."""
    shown: dict[str, Any] = {"default": durations.short(default_s)}
    return pydantic.Field(default=default_s, description=description, json_schema_extra=shown, **more)


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, alias_generator=_key
    )


class Pools(_Part):
    """How node pools of a block are made."""

    name_prefix: words.PoolPrefix = _field(
        _POOLS.name_prefix, "Names of node pools begin with this; the name of the sub-block follows."
    )
    policy: words.Unsaid[words.ResourceName] = _field(None, "Workload policy. Default: the context's.")
    auto_repair: bool = _field(_POOLS.auto_repair, "Whether GKE replaces nodes that stay NotReady.")
    auto_upgrade: words.Unsaid[words.NoUpgrades] = _field(
        _POOLS.auto_upgrade,
        "May be false: an upgrade under an active slice makes it FAILED. If it is left out, GKE's rule for "
        "the cluster holds: in a release channel auto-upgrade is on, and false is refused.",
    )
    max_surge: words.NoSurge = _field(
        _POOLS.max_surge, "Must be 0: a cube has no host to spare for one more node."
    )
    max_unavailable: int = _field(
        _POOLS.max_unavailable,
        "Nodes that an upgrade by hand may take away at once.",
        ge=1,
        le=topologies.HOSTS_PER_CUBE,
    )
    incomplete_grace_s: words.Span = _span(
        _POOLS.incomplete_grace_s,
        "How long a pool may lack hosts that the reservation calls healthy before it is made again.",
    )
    error_grace_s: words.Span = _span(
        _POOLS.error_grace_s, "How long a pool may be in ERROR without any node before it is made again."
    )


class Block(_Part):
    """A block of a reservation that the loop looks after."""

    name: words.ResourceName = pydantic.Field(description="Name of the reservation block.")
    cubes: words.Unsaid[int] = _field(
        None, "Node pools to make at most. Default: one for each sub-block.", ge=1, le=topologies.MAX_CUBES
    )
    spares: int = _field(0, "Healthy cubes to keep free for swaps.", ge=0)
    pools: Pools | None = _field(None, "How its node pools are made.")


class Reservation(_Part):
    """Reserved capacity."""

    name: words.ReservationName = pydantic.Field(
        description="Its name, or projects/PROJECT/reservations/NAME if another project shares it."
    )
    blocks: list[Block] = pydantic.Field(min_length=1, description="Its blocks that the loop looks after.")


class Slice(_Part):
    """One or several slices that shall exist."""

    # Either of the two, not both; editors hear it too.
    model_config = pydantic.ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["topology"]}, {"required": ["chips"]}]}
    )

    name: words.SliceName = pydantic.Field(
        description="Name of the Slice; with a count above 1 they are NAME-0, NAME-1, ..."
    )
    topology: words.Unsaid[words.Shape] = _field(None, "Shape in chips, AxBxC. Say either this or chips.")
    chips: words.Unsaid[words.Chips] = _field(None, "The most cubic shape of so many chips.")
    fallback: list[words.Shape] | None = _field(
        None, "Smaller shapes to make do with, in this order, each smaller than the one before."
    )
    count: int = _field(_SLICE.count, "So many slices.", ge=1, le=words.MAX_COUNT)
    gang: words.Unsaid[words.Gang] = _field(
        None, "All or none: true for the slices of this entry, or a word that several entries share."
    )
    same_block: bool = _field(_SLICE.same_block, "If true, the whole gang must lie in one block.")
    block: words.Unsaid[words.ResourceName] = _field(None, "The only block to use. Default: any.")
    priority: int = _field(
        _SLICE.priority, "Higher goes first.", ge=-words.MAX_PRIORITY, le=words.MAX_PRIORITY
    )
    team: words.Unsaid[words.Text] = _field(None, "One of the teams.")
    preemptible: bool = _field(_SLICE.preemptible, "If true, it may be taken apart for a higher priority.")
    min_run_s: words.Span = _span(
        _SLICE.min_run_s, "Once formed, it is neither preempted nor moved for so long.", alias="minRunTime"
    )
    health: Literal["healthy", "usable"] = _field(
        "healthy", "Which cubes will do: usable takes those with a degraded link too."
    )
    on_deletion: OnDeletion = _field(
        _SLICE.on_deletion, "If somebody else deletes it: tell a person, or form it again."
    )

    @property
    def shapes(self) -> tuple[topologies.Topology, ...]:
        """The shape wanted, then those to fall back on; empty if the file says none."""
        wanted = self.topology or self.chips
        return () if wanted is None else (wanted, *(self.fallback or ()))

    @property
    def gang_word(self) -> str:
        """What the entries of its gang share; a gang of its own goes by the entry's name."""
        return self.name if self.gang is True else str(self.gang or "")


class Budgets(_Part):
    """What the loop may disturb, all its actions together."""

    disrupted_chips_per_hour: int = _field(
        _FLEET.budgets.disrupted_chips_per_hour,
        "Chips of running slices that may be interrupted in any 60 minutes; 0: none.",
        ge=0,
    )
    cubes_in_repair_per_block: int = _field(
        _FLEET.budgets.cubes_in_repair_per_block, "Cubes of one block under repair at once; 0: none.", ge=0
    )
    pool_operations_in_flight: int = _field(
        _FLEET.budgets.pool_operations_in_flight, "Node pool operations at once; 0: none.", ge=0
    )


class Breaker(_Part):
    """So much trouble at once stops the loop until a person resets it."""

    percent: float = _field(
        _FLEET.breaker.percent, "Of the cubes with nodes, rounded up to whole cubes.", gt=0, le=100
    )
    cubes: int = _field(_FLEET.breaker.cubes, "So many cubes; whichever is reached first trips it.", ge=1)
    minimum_cubes: int = _field(
        _FLEET.breaker.minimum_cubes, "Fewer than this never trip it, however small the fleet.", ge=1
    )


class Window(_Part):
    """When voluntary disruption is allowed."""

    name: words.Text = pydantic.Field(description="What people call it.")
    days: list[Weekday] = pydantic.Field(
        min_length=1,
        description="Days on which it begins.",
        json_schema_extra={"uniqueItems": True},
    )
    start_minute: words.ClockTime = pydantic.Field(alias="from", description="When it begins, UTC.")
    length_s: words.WindowSpan = pydantic.Field(alias="for", description="How long it lasts; at most 7 days.")


class Remediation(_Part):
    """What may be done about faults: allow, recommend (a person decides), or off."""

    reboot: Permission = _field(_FLEET.remediation.reboot, "Reset the VM.")
    reprovision: Permission = _field(_FLEET.remediation.reprovision, "Make the node pool of the cube again.")
    failover: Permission = _field(_FLEET.remediation.failover, "Swap the cube out of its slice.")
    remove: Permission = _field(
        _FLEET.remediation.remove, "Report the host as faulty and hold the cube until it is repaired."
    )
    cooldown_s: words.Span = _span(
        _FLEET.remediation.cooldown_s, "A cube is left alone for so long after any finished repair."
    )
    attempts: int = _field(
        _FLEET.remediation.attempts,
        "Attempts of one remedy on one cube before the next stronger one is proposed.",
        ge=1,
    )
    expiry_s: words.PositiveSpan = _span(
        _FLEET.remediation.expiry_s, "A recommendation that nobody answered ends after this."
    )
    second_approver: bool = _field(
        _FLEET.remediation.second_approver, "If true, two people must approve of remove."
    )


class Consolidation(_Part):
    """When a slice that had to fall back is made larger again."""

    enabled: bool = _field(_FLEET.consolidation.enabled, "If false, it stays as it is.")
    move_cost_s: words.Span = _span(
        _FLEET.consolidation.move_cost_s, "Work that a slice loses when it is made again."
    )
    horizon_s: words.PositiveSpan = _span(
        _FLEET.consolidation.horizon_s, "The larger slice is assumed to be of use for so long."
    )
    settle_s: words.Span = _span(
        _FLEET.consolidation.settle_s, "Room must have been there for so long before it is used."
    )


class Hook(_Part):
    """A command to run; no shell is involved."""

    command: list[words.Text] = pydantic.Field(min_length=1, description="Program and arguments.")
    timeout_s: words.HookSpan = _span(_HOOK.timeout_s, "It is ended after this; at most 10 minutes.")


class Hooks(_Part):
    """Commands to run when something has happened; one that fails never stops the loop."""

    model_config = pydantic.ConfigDict(alias_generator=lambda field: field.replace("_", "-"))

    slice_formed: list[Hook] | None = _field(None, "A slice was formed.")
    slice_deformed: list[Hook] | None = _field(None, "A slice was taken apart.")
    swap_started: list[Hook] | None = _field(None, "A swap of cubes has begun.")
    swap_done: list[Hook] | None = _field(None, "A swap of cubes has ended.")
    repair_recommended: list[Hook] | None = _field(None, "A repair waits for approval.")


class Fleet(_Part):
    """The declared state of a fleet: what `tpuctl reconcile` keeps true."""

    api_version: Literal["tpuctl/v1"] = pydantic.Field(description="Version of this form.")
    kind: Literal["Fleet"] = pydantic.Field(description="What this file holds.")
    name: words.Name = pydantic.Field(description="Name of the fleet.")
    context: words.Unsaid[words.Name] = _field(None, "Context to use. Default: the current one.")
    reservations: list[Reservation] = pydantic.Field(min_length=1, description="The hardware.")
    slices: list[Slice] | None = _field(None, "The slices that shall exist.")
    teams: dict[words.Text, Annotated[float, pydantic.Field(gt=0)]] | None = _field(
        None, "Name of each team and its share, relative to the others'."
    )
    spares_below: int = _field(
        _FLEET.spares_below,
        "Slices of this priority and above may use the spares.",
        ge=-words.MAX_PRIORITY,
        le=words.MAX_PRIORITY,
    )
    adopt_foreign: bool = _field(
        _FLEET.adopt_foreign, "If true, a slice of a wanted name that was made by hand counts as ours."
    )
    prune: bool = _field(
        _FLEET.prune, "If true, slices that the loop formed and nobody wants any more are taken apart."
    )
    prune_grace_s: words.Span = _span(
        _FLEET.prune_grace_s, "How long a slice must have been unwanted before that."
    )
    budgets: Budgets | None = _field(None, "What the loop may disturb.")
    breaker: Breaker | None = _field(None, "When it stops because too much is wrong at once.")
    windows: list[Window] | None = _field(
        None, "When voluntary disruption is allowed. Default: always. Swaps of failed cubes never wait."
    )
    remediation: Remediation | None = _field(None, "What may be done about faults.")
    consolidation: Consolidation | None = _field(None, "When slices that fell back grow again.")
    hooks: Hooks | None = _field(None, "Commands to run when something has happened.")
