"""What tpuctl's own records claim: holds, and partitions of open operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import operations, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tpuctl.ops import ports


def claims_of(found: Iterable[ports.Record]) -> tuple[operations.Claim, ...]:
    """Claims in order of cube. Raises DamagedRecord; a record of an unknown kind is one too."""
    return tuple(sorted(claim for record in found for claim in _claims(record)))


def _claims(record: ports.Record) -> Iterator[operations.Claim]:
    if record.kind == records.HOLD:
        hold = records.read_hold(record.text, record.name)
        if not hold.is_over(record.observed_at):
            yield operations.Claim(hold.cube_id, f"hold by {hold.owner}: {hold.reason}")
    elif record.kind == records.OPERATION:
        operation = records.read_operation(record.text, record.name)
        for partition_id in operation.claims:
            holder = f"operation {operation.id} of {operation.actor}"
            yield operations.Claim(partition_id, holder, operation.slice_name)
    else:
        raise records.DamagedRecord(f"record {record.name} is of unknown kind '{record.kind}'")
