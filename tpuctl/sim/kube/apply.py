"""Server-side apply: merge a configuration into an object, field by field, with owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors, fieldsets, managed, shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Json = dict[str, Any]


def create(config: Json, shape: shapes.Shape, manager: managed.Manager, time: str) -> Json:
    """The new object that an applied configuration makes."""
    _check(config, shape)
    obj = dict(config, metadata=dict(config["metadata"]))
    paths = frozenset(fieldsets.owned(config, shape))
    managed.write(obj, [managed.Entry(manager=manager, time=time, paths=paths)])
    return obj


def update(
    live: Json, config: Json, shape: shapes.Shape, manager: managed.Manager, *, time: str, force: bool
) -> Json:
    """`live` with the configuration merged in; `live` itself if that changes nothing.

    Fields that the manager applied before and has now left out are removed, unless somebody else has them
    too. Raises `ApiError` (409) if it would change fields of others and `force` is not set.
    """
    _check(config, shape)
    entries = managed.read(live) or [_unrecorded(live, shape, manager)]
    mine = next((entry for entry in entries if entry.manager == manager), None)
    others = [entry for entry in entries if entry is not mine]
    wanted = frozenset(fieldsets.owned(config, shape))
    merged: Json = merge(live, config, shape)
    if mine is not None:
        merged = _without(merged, _abandoned(mine.paths - wanted, others, wanted), shape)
    difference = fieldsets.compare(live, merged, shape)
    if not force:
        _refuse_conflicts(others, difference)
    unchanged = mine is not None and mine.paths == wanted and not (difference.changed or difference.removed)
    if unchanged:
        return live
    left = [entry.without(difference.changed | difference.removed) for entry in others]
    merged = dict(merged, metadata=dict(merged["metadata"]))
    managed.write(merged, [*left, managed.Entry(manager=manager, time=time, paths=wanted)])
    return merged


def _unrecorded(live: Json, shape: shapes.Shape, manager: managed.Manager) -> managed.Entry:
    before = managed.Manager(name=managed.BEFORE_APPLY, operation="Update", api_version=manager.api_version)
    time = live["metadata"]["creationTimestamp"]
    return managed.Entry(manager=before, time=time, paths=frozenset(fieldsets.owned(live, shape)))


def _refuse_conflicts(others: Iterable[managed.Entry], difference: fieldsets.Difference) -> None:
    causes = [
        errors.Cause(
            "FieldManagerConflict",
            f"conflict with {entry.manager.shown(entry.time)}",
            fieldsets.shown(path),
        )
        for entry in sorted(others, key=lambda entry: entry.manager.name)
        for path in sorted(entry.paths & difference.changed)
    ]
    if causes:
        raise errors.apply_conflict(causes)


def _abandoned(
    dropped: Iterable[fieldsets.Path], others: Sequence[managed.Entry], wanted: frozenset[fieldsets.Path]
) -> list[fieldsets.Path]:
    """Of the fields a manager dropped, those that nobody else has, neither themselves nor a part of them."""
    held = wanted.union(*(entry.paths for entry in others))
    return [path for path in dropped if not any(other[: len(path)] == path for other in held)]


def _without(value: Any, paths: Iterable[fieldsets.Path], shape: shapes.Shape) -> Any:
    """A copy of `value` without those paths."""
    below: dict[str, list[fieldsets.Path]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    if not below or not fieldsets.is_granular(value, shape):
        return value
    kept = {}
    for step, (item, item_shape) in fieldsets.children(value, shape).items():
        rests = below.get(step, [])
        if () not in rests:
            kept[step] = _without(item, rests, item_shape)
    if isinstance(value, dict):
        return {step.removeprefix("f:"): item for step, item in kept.items()}
    return list(kept.values())


def merge(live: Any, config: Any, shape: shapes.Shape) -> Any:
    """The configuration laid over the live value."""
    if not (fieldsets.is_granular(config, shape) and fieldsets.is_granular(live, shape)):
        return config
    current = fieldsets.children(live, shape)
    merged = {step: item for step, (item, _) in current.items()}
    for step, (item, below) in fieldsets.children(config, shape).items():
        merged[step] = merge(current[step][0], item, below) if step in current else item
    if isinstance(config, dict):
        return {step.removeprefix("f:"): item for step, item in merged.items()}
    return list(merged.values())


def _check(config: Json, shape: shapes.Shape) -> None:
    if config["metadata"].get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    problem = _keyless(config, shape, "")
    if problem:
        raise errors.bad_request(f"failed to create typed patch object: {problem}")


def _keyless(value: Any, shape: shapes.Shape, path: str) -> str | None:
    """The first item of an associative list without its key fields, or with another's."""
    if isinstance(value, list) and shape.keys:
        seen = set()
        for place, item in enumerate(value):
            missing = [key for key in shape.keys if key not in item and key not in shapes.PORT_DEFAULTS]
            if missing:
                return (
                    f"{path}: element {place}: associative list with keys has an element that omits key field"
                )
            step = fieldsets.key_step(item, shape.keys)
            if step in seen:
                return f"{path}: duplicate entries for key [{step.removeprefix('k:')}]"
            seen.add(step)
    if not fieldsets.is_granular(value, shape):
        return None
    problems = (
        _keyless(item, below, path + fieldsets.shown((step,)))
        for step, (item, below) in fieldsets.children(value, shape).items()
    )
    return next(filter(None, problems), None)
