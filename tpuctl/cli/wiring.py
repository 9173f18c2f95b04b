"""Build what a command works with: ports for the chosen context, or a snapshot from a file.

The only place where the program meets the client libraries; they are imported when a port is first used.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from tpuctl.cli import session
from tpuctl.model import codec, errors, fleet

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Collection, Iterator

    from tpuctl.cloud import clock as cloud_clock
    from tpuctl.ops import context as contexts
    from tpuctl.ops import ports as ports_module

_override: list[tuple[ports_module.Ports, contexts.Context]] = []


def ports() -> ports_module.Ports:
    """Ports for the chosen context; raises UsageError if there is none."""
    chosen = context()
    # The note is for any thread: those that read at the same time have no session of their own.
    made = _override[-1][0] if _override else connect(chosen, tell=session.current().terminal.note)
    return dataclasses.replace(made, fleet=_Remembering(made.fleet, chosen.name))


def context() -> contexts.Context:
    """The chosen context; raises UsageError if there is none."""
    return _override[-1][1] if _override else session.current().context()


def policy_file() -> pathlib.Path | None:
    """The health policy file of the chosen context; None if it names none, or nothing is chosen.

    A dump can be looked at without any context.
    """
    import pathlib  # noqa: PLC0415 - only with a policy

    if _override:
        path = _override[-1][1].policy_file
        return None if path is None else pathlib.Path(path)
    settings = session.current().settings
    named = settings.overrides.get("policyFile")
    if named is None:
        named = settings.contexts.get(settings.current_name or "", {}).get("policyFile")
    return None if named is None else pathlib.Path(str(named.value))


def require_named_context(what: str) -> None:
    """For disruptive commands: a protected context must have been named on this command line.

    Raises GuardStopped; `--yes` does not help, since it answers another question.
    """
    chosen = context()
    if chosen.protected and session.current().flags.context is None:
        raise errors.GuardStopped(
            f"context {chosen.name} is protected: {what} needs it spelled out",
            hint=f"add --context {chosen.name}",
        )


def connect(
    given: contexts.Context,
    clock: cloud_clock.WallClock | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> ports_module.Ports:
    """Ports for a context; `clock` replaces the machine's, `tell` hears that a service is tried again."""
    from tpuctl.cloud import connect as connections  # noqa: PLC0415 - the clients cost up to 1.5 s

    return connections.connect(given, clock=clock, tell=tell)


@contextlib.contextmanager
def using(given: ports_module.Ports, context: contexts.Context) -> Iterator[None]:
    """Let commands work with these: the demo and tests bring their own simulator and clock."""
    _override.append((given, context))
    try:
        yield
    finally:
        _override.pop()


def snapshot(sources: Collection[fleet.SourceName], file: pathlib.Path | None) -> fleet.Fleet:
    """The fleet from the cluster, or from `file` (a dump) without touching any network.

    Raises NotFound if the file does not exist, UsageError if it is no dump or lacks one of the sources.
    """
    if file is None:
        return ports().fleet.observe(sources)
    found = load(file)
    missing = [name for name in sources if not found.has(name) and name is not fleet.SourceName.CAPACITY]
    if missing:
        raise errors.UsageError(f"{file} was dumped without {', '.join(missing)}")
    return found


def load(file: pathlib.Path) -> fleet.Fleet:
    """Read a dump in YAML or JSON, or from stdin if `file` is `-`."""
    import yaml  # noqa: PLC0415 - only for dumps

    try:
        text = session.current().terminal.read_stdin() if str(file) == "-" else file.read_text()
    except FileNotFoundError as error:
        raise errors.NotFound(f"there is no file {file}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise errors.UsageError(f"cannot read {file}: {error}") from error
    try:
        # Every JSON document is YAML too, but the C parser of the json module is 100 times faster.
        document = _json(text) if text.lstrip().startswith("{") else yaml.load(text, _loader())  # noqa: S506
    except (ValueError, yaml.YAMLError) as error:
        raise errors.UsageError(f"{file} is neither YAML nor JSON: {error}") from error
    return codec.load(document)


def _json(text: str) -> object:
    import json  # noqa: PLC0415

    return json.loads(text)


def _loader() -> type:
    """The safe loader, in C where PyYAML was built with it: a dump of a block has 100,000 lines."""
    import yaml  # noqa: PLC0415

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Remembering:
    """Reads the fleet, keeps its names for Tab, and calls blocks by names that were seen before.

    Nodes know a block by its id only, and asking the reservation takes longer than all the rest. A remembered
    name is for people to read; what a user names is looked up in the reservation itself.
    """

    def __init__(self, reader: ports_module.FleetReader, context_name: str) -> None:
        self._reader = reader
        self._context_name = context_name

    def observe(
        self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
    ) -> fleet.Fleet:
        from tpuctl.cli import completion  # noqa: PLC0415 - only where a fleet is read

        found = self._reader.observe(sources, meanwhile=meanwhile)
        if found.has(fleet.SourceName.NODES):
            completion.remember(self._context_name, _names(found))
        if found.has(fleet.SourceName.CAPACITY) or not found.blocks:
            return found
        known = completion.block_names(self._context_name)
        return found.with_blocks(
            tuple(
                dataclasses.replace(block, name=block.name or known.get(block.id, ""))
                for block in found.blocks
            )
        )


def _names(found: fleet.Fleet) -> dict[str, list[str] | None]:
    named = [f"{block.id} {block.name}" for block in found.blocks if block.name]
    return {
        "slices": [item.name for item in found.slices] if found.has(fleet.SourceName.SLICES) else None,
        "cubes": [cube.id for cube in found.cubes],
        "blocks": [block.label for block in found.blocks] if named else None,
        "blockNames": named or None,
        # All nodes would be too many for Tab; those that somebody asks for are in trouble.
        "nodes": [
            host.name
            for cube in found.cubes
            for host in cube.hosts
            if host.ready is not True or host.conditions or host.taints
        ],
        "pools": sorted({host.pool for cube in found.cubes for host in cube.hosts if host.pool}),
    }
