"""Names for Tab, from a small file and never from the network; `tab` answers the shell.

The file is written by whoever looked at a fleet (`remember`) and is of any age: a name that is gone only
costs the user a clear message. Nothing here may complain: a shell would show it in the middle of a line.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from tpuctl.cli import directories, session
from tpuctl.model import errors

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Mapping

_LONGEST_EDGE_CHIPS = 64
_LIMIT = 500
"""Names offered at most: a shell asks before it shows more than a few hundred, and Tab must stay quick."""


def remember(context_name: str, names: Mapping[str, Iterable[str] | None]) -> None:
    """Keep names for Tab: kind (`slices`, `cubes`, `blocks`, `repairs`, ...) -> names; None keeps a kind.

    Failing to write it fails nobody: the names are a convenience.
    """
    path = _names_file(context_name)
    fresh = {kind: sorted(set(found)) for kind, found in names.items() if found is not None}
    kept = _read(context_name)
    if any(kept.get(kind) != found for kind, found in fresh.items()):
        with contextlib.suppress(errors.TpuctlError):
            directories.write_whole(path, json.dumps(kept | fresh))


def block_names(context_name: str) -> dict[str, str]:
    """Block id -> the reservation's name for it, as far as a command of this user has seen it."""
    pairs = (entry.split(" ", 1) for entry in _read(context_name).get("blockNames", []))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}  # noqa: PLR2004 - a pair


def complete_slices(incomplete: str) -> list[str]:
    return _names("slices", incomplete)


def complete_listed_slices(incomplete: str) -> list[str]:
    """Slices; for a list with commas, of its last part."""
    return _last_of_list(incomplete, ("slices",))


def complete_cubes(incomplete: str) -> list[str]:
    """Cube ids and their node pools; for a list with commas, of its last part."""
    return _last_of_list(incomplete, ("cubes", "pools"))


def complete_health_targets(incomplete: str) -> list[str]:
    """Whatever has a health: cubes, slices and blocks."""
    found = [name for kind in ("slices", "blocks", "cubes", "pools") for name in _names(kind, incomplete)]
    return found[:_LIMIT]


def complete_blocks(incomplete: str) -> list[str]:
    return _names("blocks", incomplete)


def complete_pools(incomplete: str) -> list[str]:
    return _names("pools", incomplete)


def complete_nodes(incomplete: str) -> list[str]:
    return _names("nodes", incomplete)


def complete_repairs(incomplete: str) -> list[str]:
    return _names("repairs", incomplete)


def complete_contexts(incomplete: str) -> list[str]:
    """Names of the contexts to choose from."""
    try:
        found = sorted(session.current().settings.contexts)
    except errors.TpuctlError:
        return []
    return [name for name in found if name.startswith(incomplete)]


def complete_topologies(incomplete: str) -> list[str]:
    """Legal shapes, the small ones first."""
    from tpuctl.model import topology  # noqa: PLC0415 - only this one needs it

    # The longest edges are legal and never wanted; a list of 500 helps nobody.
    shapes = (*topology.SUB_SLICE_SHAPES, *topology.cube_shapes(longest_edge_chips=_LONGEST_EDGE_CHIPS))
    return [text for text in map(str, shapes) if text.startswith(incomplete)][:_LIMIT]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint for a name that is not there, None if nothing is near."""
    import difflib  # noqa: PLC0415 - only a wrong name needs it

    near = difflib.get_close_matches(name, list(known), n=2)
    return f"did you mean {' or '.join(near)}?" if near else None


def _last_of_list(incomplete: str, kinds: Iterable[str]) -> list[str]:
    done, comma, last = incomplete.rpartition(",")
    found = [name for kind in kinds for name in _names(kind, last)]
    return [f"{done}{comma}{name}" for name in found[:_LIMIT]]


def _names(kind: str, incomplete: str) -> list[str]:
    try:
        name = session.current().settings.current_name
    except errors.TpuctlError:
        return []
    found = _read(name or "").get(kind, [])
    return [item for item in found if item.startswith(incomplete)][:_LIMIT]


def _names_file(context_name: str) -> pathlib.Path:
    return directories.Directories(session.current().env).cache / f"names-{context_name}.json"


def _read(context_name: str) -> dict[str, list[str]]:
    """What was remembered, kinds and names of the right type only; nothing if there is nothing readable."""
    try:
        with open(_names_file(context_name), encoding="utf-8") as stream:  # noqa: PTH123 - quicker than a Path
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        kind: [name for name in names if isinstance(name, str)]
        for kind, names in found.items()
        if isinstance(names, list)
    }
