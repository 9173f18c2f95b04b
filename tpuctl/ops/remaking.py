"""The commands that make a slice again on other cubes, with everything that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import fleet


def commands(item: fleet.Slice, partition_ids: Sequence[str]) -> tuple[str, str]:
    """Take it apart, and form it there: its priority would be lost unless it is said again."""
    form = [f"tpuctl slice form {item.name}", f"--topology {item.raw_topology}"]
    if item.priority:
        form.append(f"--priority {item.priority}")
    form.append(f"--cubes {','.join(partition_ids)}")
    return f"tpuctl slice deform {item.name}", " ".join(form)
