"""How one cube divides into partitions, and the ids of these.

A cube is a binary tree: a 4x4x4 holds two 2x4x4, each of which holds two 2x2x4, then two 2x2x2, then two
2x2x1; a 2x2x1 is one host. Each host is in exactly one partition of each shape. Published: the shapes, the
nesting, that an id is 32 lower-case hex characters. Assumed: neighbours in the tree are neighbours by index.
"""

from __future__ import annotations

import hashlib
import typing

Shape = typing.Literal["2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"]

HOSTS: dict[Shape, int] = {"2x2x1": 1, "2x2x2": 2, "2x2x4": 4, "2x4x4": 8, "4x4x4": 16}
"""Hosts in one partition of each shape, smallest first."""

SHAPES: tuple[Shape, ...] = tuple(HOSTS)
CUBE: Shape = "4x4x4"
CUBE_HOSTS = HOSTS[CUBE]
CHIPS_PER_HOST = 4


def opaque_id(*parts: object) -> str:
    """Return 32 hex characters that depend on `parts` alone; nothing can be read from them."""
    text = "\x00".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def numeric_id(*parts: object) -> str:
    """Return a decimal id of 18 or 19 digits, as Compute Engine gives its resources (a string in JSON)."""
    return str(10**17 + int(opaque_id(*parts)[:15], 16) * 8)


def partition_ids(*seed: object) -> dict[Shape, tuple[str, ...]]:
    """Return the ids of all partitions of one cube: shape -> ids in order of their first host."""
    return {
        shape: tuple(opaque_id(*seed, "partition", shape, number) for number in range(CUBE_HOSTS // hosts))
        for shape, hosts in HOSTS.items()
    }


def number_of(shape: Shape, host_index: int) -> int:
    """Return which partition of `shape` (0 first) the host with `host_index` (0..15) is part of."""
    if not 0 <= host_index < CUBE_HOSTS:
        raise ValueError(f"a cube has hosts 0 to {CUBE_HOSTS - 1}, not {host_index}")
    return host_index // HOSTS[shape]


def host_indices(shape: Shape, number: int) -> range:
    """Return the indices of the hosts of the partition `number` (0 first) of `shape`."""
    hosts = HOSTS[shape]
    if not 0 <= number < CUBE_HOSTS // hosts:
        raise ValueError(f"a cube has {CUBE_HOSTS // hosts} partitions {shape}, no number {number}")
    return range(number * hosts, (number + 1) * hosts)
