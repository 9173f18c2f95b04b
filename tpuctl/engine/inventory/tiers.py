"""Which free cubes a request that takes degraded ones gets, and in which block.

Degraded cubes that stay come first, since nobody else takes them; then healthy ones; last those that will go
away. Only healthy ones are worth keeping as spares.
"""

from __future__ import annotations

from tpuctl.engine.inventory import shelves


class Tiers:
    """Blocks by what is free in each tier; all cubes are bits of their numbers."""

    __slots__ = ("_flawed", "_free", "_leaving", "_staying", "_staying_in", "_worn", "_worn_in")

    def __init__(self, blocks: int) -> None:
        self._free = [0] * blocks
        self._flawed = [0] * blocks
        """Cubes that are not healthy."""
        self._leaving = [0] * blocks
        self._worn = shelves.BlockShelves()
        self._worn_in = [0] * blocks
        self._staying = shelves.BlockShelves()
        """Blocks by free cubes that stay, healthy or not."""
        self._staying_in = [0] * blocks
        for block in range(blocks):
            self._worn.put(block, 0)
            self._staying.put(block, 0)

    def judge(self, block: int, cube: int, *, flawed: bool, leaving: bool) -> None:
        """Note what a cube is; `set_free` must follow if it is free."""
        bit = 1 << cube
        self._flawed[block] = self._flawed[block] | bit if flawed else self._flawed[block] & ~bit
        self._leaving[block] = self._leaving[block] | bit if leaving else self._leaving[block] & ~bit

    def set_free(self, block: int, free: int) -> None:
        """Put a block where it belongs now."""
        self._free[block] = free
        worn, _, leaving = self.of(block, free)
        staying = (free & ~leaving).bit_count()
        if worn.bit_count() != self._worn_in[block]:
            self._worn.move(block, self._worn_in[block], worn.bit_count())
            self._worn_in[block] = worn.bit_count()
        if staying != self._staying_in[block]:
            self._staying.move(block, self._staying_in[block], staying)
            self._staying_in[block] = staying

    def of(self, block: int, cubes: int) -> tuple[int, int, int]:
        """Some free cubes by tier: degraded and staying, healthy, leaving."""
        flawed, leaving = self._flawed[block], self._leaving[block]
        return cubes & flawed & ~leaving, cubes & ~flawed, cubes & leaving

    def pick(self, block: int, cubes: int, count: int) -> int:
        """The first `count` of some free cubes."""
        picked = 0
        for tier in self.of(block, cubes):
            missing = count - picked.bit_count()
            picked |= shelves.first(tier, min(missing, tier.bit_count()))
        return picked

    def order(self, block: int, cubes: int, count: int) -> tuple[int, int]:
        """Where a block stands in the order of `best`, with these cubes to take."""
        worn, _, leaving = self.of(block, cubes)
        sizes = worn.bit_count(), (cubes & ~leaving).bit_count(), cubes.bit_count()
        return next((tier, size) for tier, size in enumerate(sizes) if size >= count)

    def best(self, cubes: int, keep_free: int) -> int | None:
        """The block to take cubes of: `keep_free` healthy ones are left over, or no healthy one is taken.

        The fewest degraded cubes that suffice by themselves come first, then the fewest that stay. Only for
        cubes that will go away every block is looked at, and there are few of those.
        """
        found = self._worn.best(cubes)
        if found is None:
            found = self._staying.best(cubes + keep_free)
        return self._last_resort(cubes, keep_free) if found is None else found

    def _last_resort(self, cubes: int, keep_free: int) -> int | None:
        fitting = []
        for block, free in enumerate(self._free):
            if free & self._leaving[block]:
                spares = min(keep_free, (free & ~self._flawed[block]).bit_count())
                usable = free.bit_count() - spares
                if usable >= cubes:
                    fitting.append((usable, block))
        return min(fitting)[1] if fitting else None
