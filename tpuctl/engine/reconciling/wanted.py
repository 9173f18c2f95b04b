"""The declared slices one by one, and what the declared state says of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.model import declared, fleet, topology


class Want(NamedTuple):
    """One slice that shall exist."""

    name: str
    entry: declared.WantedSlice

    @property
    def shapes(self) -> tuple[topology.Topology, ...]:
        return self.entry.shapes

    @property
    def unit(self) -> str:
        """What is formed all or not at all: the gang, or the slice by itself."""
        return self.entry.gang or self.name


def by_name(spec: declared.FleetSpec) -> Mapping[str, Want]:
    """Every wanted slice by its name, in the order of the declared state."""
    return {name: Want(name, entry) for entry in spec.slices for name in entry.slice_names}


def tail(reservation: str) -> str:
    """A reservation is written as a name, or as a path that ends in it."""
    return reservation.rsplit("/", maxsplit=1)[-1]


def spec_of_block(spec: declared.FleetSpec, block: fleet.Block) -> declared.BlockSpec | None:
    """What the declared state says of a block; None if it is not the loop's to look after."""
    for reservation in spec.reservations:
        if block.reservation and tail(reservation.name) != tail(block.reservation):
            continue
        for found in reservation.blocks:
            if found.name in (block.name, block.id):
                return found
    return None


def our_blocks(spec: declared.FleetSpec, snapshot: fleet.Fleet) -> tuple[fleet.Block, ...]:
    """Blocks that slices may be formed in: those that are declared, or all if no reservation is."""
    if not spec.reservations:
        return snapshot.blocks
    return tuple(block for block in snapshot.blocks if spec_of_block(spec, block) is not None)


def block_id(snapshot: fleet.Fleet, name: str) -> str | None:
    """Id of the block that people call so; None if there is none."""
    for block in snapshot.blocks:
        if name in (block.name, block.id):
            return block.id
    return None
