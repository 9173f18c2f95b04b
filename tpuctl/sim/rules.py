"""Rules of the service about slices: names, topologies, partitions, blocks.

Written from the published rules, for the simulator alone: it does not use tpuctl's own model, so that
a mistake there shows up as a disagreement here. Every function answers with a sentence naming the broken
rule, or None.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

TPU_TYPE = "tpu7x"
CHIPS_PER_HOST = 4
CUBE = "4x4x4"
CUBE_CHIPS = 64
MAX_CHIPS = 9_216
"""A whole block: 144 cubes."""
MAX_NAME_LENGTH = 49
"""Newest published limit; the service appends "-" and an 8 character hash to name Compute Engine
resources."""

SUB_SHAPES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
"""The only shapes smaller than a cube, smallest first. 2x2x1 is not in ascending order and accepted all the
same."""
SHAPES = (*SUB_SHAPES, CUBE)
HOSTS_PER_SHAPE = {"2x2x1": 1, "2x2x2": 2, "2x2x4": 4, "2x4x4": 8, "4x4x4": 16}

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_TOPOLOGY = re.compile(r"[0-9]{1,5}x[0-9]{1,5}x[0-9]{1,5}")


def dimensions(topology: str) -> tuple[int, int, int]:
    """The three dimensions of `topology`; only for text that `topology_problem` accepts."""
    a, b, c = (int(part) for part in topology.split("x"))
    return a, b, c


def chips(topology: str) -> int:
    return math.prod(dimensions(topology))


def hosts(topology: str) -> int:
    return chips(topology) // CHIPS_PER_HOST


def partition_shape(topology: str) -> str:
    """The shape whose partition ids a slice of `topology` is made from."""
    return topology if topology in SUB_SHAPES else CUBE


def partitions_needed(topology: str) -> int:
    """How many partitions a slice of `topology` takes: one for a sub-slice, chips / 64 otherwise."""
    return 1 if topology in SUB_SHAPES else chips(topology) // CUBE_CHIPS


def name_problem(name: str, *, max_length: int = MAX_NAME_LENGTH) -> str | None:
    if not _NAME.fullmatch(name):
        return f"name {name!r} must match ^[a-z]([-a-z0-9]*[a-z0-9])?$"
    if len(name) > max_length:
        return f"name {name!r} has {len(name)} characters; at most {max_length} are allowed"
    return None


def type_problem(tpu_type: object) -> str | None:
    if tpu_type != TPU_TYPE:
        return f"type {tpu_type!r} is not supported; the only supported type is {TPU_TYPE!r}"
    return None


def topology_problem(topology: str) -> str | None:
    if topology in SUB_SHAPES:
        return None
    if not _TOPOLOGY.fullmatch(topology):
        return f"topology {topology!r} must have the form AxBxC"
    size = dimensions(topology)
    if any(length == 0 or length % 4 for length in size):
        shapes = ", ".join(SUB_SHAPES)
        return f"topology {topology!r}: each dimension must be a multiple of 4, or the whole one of {shapes}"
    if list(size) != sorted(size):
        return f"topology {topology!r}: dimensions must be in non-decreasing order"
    if math.prod(size) > MAX_CHIPS:
        return f"topology {topology!r} has {math.prod(size)} chips; at most {MAX_CHIPS} are allowed"
    if topology != "x".join(str(length) for length in size):
        return f"topology {topology!r} must be written without leading zeros"
    return None


def count_problem(topology: str, partition_ids: Sequence[str]) -> str | None:
    needed = partitions_needed(topology)
    if len(partition_ids) != needed:
        return f"topology {topology!r} needs exactly {needed} partitionIds, not {len(partition_ids)}"
    return None


def duplicate_problem(partition_ids: Sequence[str]) -> str | None:
    repeated = sorted({one for one in partition_ids if partition_ids.count(one) > 1})
    return f"partitionIds are repeated: {', '.join(repeated)}" if repeated else None


def place_problem(places: Collection[tuple[str, str]]) -> str | None:
    """Slices stay inside one reservation and one block; `places` are (reservation, block) of its hosts."""
    if len({reservation for reservation, _ in places}) > 1:
        return "partitions belong to different reservations"
    if len(set(places)) > 1:
        return "partitions belong to different reservation blocks"
    return None
