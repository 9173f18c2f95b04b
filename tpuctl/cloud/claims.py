"""What tpuctl's own records claim: holds, partitions of open operations, cubes whose host is rebooted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import declared, operations, records, repairs

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
            for cube_id in {hold.cube_id, hold.sub_block} - {""}:
                words = operations.words_of_hold(hold.owner, hold.reason)
                yield operations.Claim(cube_id, words, until=hold.until)
    elif record.kind == records.OPERATION:
        operation = records.read_operation(record.text, record.name)
        for partition_id in operation.claims:
            words = operations.words_of_operation(operation.id, operation.actor)
            yield operations.Claim(partition_id, words, operation.slice_name)
    elif record.kind == records.REPAIR:
        item = records.read(record.text, record.name, repairs.Item, schema=repairs.SCHEMA)
        yield from _of_repair(item)
    elif record.kind not in records.WITHOUT_CLAIMS:
        raise records.DamagedRecord(f"record {record.name} is of unknown kind '{record.kind}'")


def _of_repair(item: repairs.Item) -> Iterator[operations.Claim]:
    """A reboot under way keeps its cube; every other remedy has a hold, an operation or no cube left."""
    if item.state is repairs.State.RUNNING and item.case.remedy is declared.Remedy.REBOOT:
        yield operations.Claim(item.case.cube, operations.words_of_reboot(item.id, item.case.target))
