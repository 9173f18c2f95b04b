"""Projects have an id and a number; both name them."""

from __future__ import annotations

from tpuctl.sim import partitions


def number(project: str) -> str:
    """Return the number of a project, which some links and fields use instead of its id."""
    return partitions.numeric_id("project", project)[:12]
