"""What a node tells besides its place in a cube, and nodes with TPU chips that no label puts into one."""

from __future__ import annotations

import datetime  # noqa: TC003 - the codec resolves annotations at run time
from typing import NamedTuple


class NodeCondition(NamedTuple):
    """A condition of a node other than Ready."""

    type: str
    status: str
    """True or Unknown, or whatever else the node says; False is not kept, since it means that all is well."""
    reason: str
    message: str
    since: datetime.datetime | None
    """When it last changed."""


class Stray(NamedTuple):
    """A TPU node that belongs to no cube, why, and what it still tells.

    It is there, and pods may run on it: that it cannot be placed never means that its hardware is gone.
    """

    node: str
    why: str
    pool: str = ""
    """Its node pool, from its label; empty if it has none."""
    slice_name: str = ""
    """Label `cloud.google.com/gke-tpu-slice`; empty if none."""
    partition_ids: tuple[str, ...] = ()
    """Partition ids that it still carries, of whatever shape."""
    uid: str = ""
    created_at: datetime.datetime | None = None
    """When the node object was made."""
    schedulable: bool = True
    """False if somebody cordoned it."""
    is_static: bool = False
    """If true, its node pool makes one fixed slice: its nodes never carry partition labels."""
