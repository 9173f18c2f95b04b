"""Sets of small numbers as bits of one integer, sorted onto shelves.

Finding the best member and moving one cost the same whatever the size of the fleet: a shelf is found by the
lowest set bit of an integer, and so is its first member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def lowest(mask: int) -> int:
    """The smallest member of a set that is not empty."""
    return (mask & -mask).bit_length() - 1


def members(mask: int) -> Iterator[int]:
    """The members in ascending order."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def first(mask: int, count: int) -> int:
    """The set of the `count` smallest members."""
    kept = 0
    for _ in range(count):
        bit = mask & -mask
        kept |= bit
        mask ^= bit
    return kept


class BlockShelves:
    """Blocks by number of free cubes."""

    __slots__ = ("_filled", "_on")

    def __init__(self) -> None:
        self._on: dict[int, int] = {}
        self._filled = 0

    def put(self, block: int, count: int) -> None:
        self._on[count] = self._on.get(count, 0) | 1 << block
        self._filled |= 1 << count

    def move(self, block: int, before: int, after: int) -> None:
        """Take a block from one shelf to another."""
        left = self._on[before] & ~(1 << block)
        self._on[before] = left
        if not left:
            self._filled &= ~(1 << before)
        self.put(block, after)

    def best(self, least: int) -> int | None:
        """The block with the fewest free cubes that are at least `least`; the first among equals."""
        filled = self._filled >> least
        if not filled:
            return None
        return lowest(self._on[least + lowest(filled)])

    @property
    def most(self) -> int:
        """The largest number of free cubes in one block."""
        return max(self._filled.bit_length() - 1, 0)


class CubeShelves:
    """Cubes by rank, lowest first; a cube is a block number and a number in the block."""

    __slots__ = ("_blocks", "_cubes", "_filled")

    def __init__(self) -> None:
        self._filled = 0
        self._blocks: dict[int, int] = {}
        self._cubes: dict[tuple[int, int], int] = {}

    def put(self, block: int, cube: int, rank: int) -> None:
        key = (rank, block)
        self._cubes[key] = self._cubes.get(key, 0) | 1 << cube
        self._blocks[rank] = self._blocks.get(rank, 0) | 1 << block
        self._filled |= 1 << rank

    def drop(self, block: int, cube: int, rank: int) -> None:
        key = (rank, block)
        left = self._cubes[key] & ~(1 << cube)
        if left:
            self._cubes[key] = left
            return
        del self._cubes[key]
        self._blocks[rank] &= ~(1 << block)
        if not self._blocks[rank]:
            self._filled &= ~(1 << rank)

    def best(
        self, only_block: int | None = None, *, below: int | None = None, avoid: int = 0
    ) -> tuple[int, int] | None:
        """The cube of the lowest rank, the first block and the smallest number among equals.

        `below` leaves out that rank and higher ones, `avoid` the cubes with these numbers in every block.
        """
        for rank in members(self._filled if below is None else self._filled & (1 << below) - 1):
            blocks = self._blocks[rank]
            if only_block is not None:
                blocks &= 1 << only_block
            for block in members(blocks):
                cubes = self._cubes[rank, block] & ~avoid
                if cubes:
                    return block, lowest(cubes)
        return None
