"""Pods that outlived their slice still hold the chips of their hosts.

Nothing ends them when a slice is taken apart, so a slice that is formed there gets hosts on which its own
pods cannot start. Such cubes count as claimed until the pods are gone. Pods that an open swap keeps are no
leftovers: their slice is coming back.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from tpuctl.engine import astray
from tpuctl.model import operations

if TYPE_CHECKING:
    from tpuctl.model import fleet


def with_leftovers(snapshot: fleet.Fleet) -> fleet.Fleet:
    """The same snapshot with a claim on each cube where unfinished TPU pods run outside any slice."""
    claims = snapshot.derived(_claims)
    return snapshot.amended(claims=(*snapshot.claims, *claims)) if claims else snapshot


def _claims(snapshot: fleet.Fleet) -> tuple[operations.Claim, ...]:
    held = {host.name for item in snapshot.slices for host in snapshot.hosts_of(item)}
    held.update(node for item in snapshot.slices for node in astray.names_of(snapshot, item))
    running = [pod for pod in snapshot.pods if pod.node not in held and pod.node and not pod.is_finished]
    if not running:
        return ()
    swapped = _of_swaps(snapshot)
    cube_of = {
        name: cube.id
        for cube in snapshot.cubes
        if cube.id not in swapped
        for name in (*(host.name for host in cube.hosts), *cube.strays)
    }
    found: dict[str, collections.Counter[str]] = {}
    for pod in running:
        if pod.node in cube_of:
            owner = f"{pod.namespace}/{pod.owner or f'Pod/{pod.name}'}"
            found.setdefault(cube_of[pod.node], collections.Counter())[owner] += 1
    return tuple(
        operations.Claim(cube_id, operations.words_of_pods(count, owner))
        for cube_id, owners in sorted(found.items())
        for owner, count in sorted(owners.items())
    )


def _of_swaps(snapshot: fleet.Fleet) -> set[str]:
    """Cubes that open swaps claim: they keep or restart the pods there."""
    return {
        snapshot.cube_of_partition.get(claim.cube_id, claim.cube_id)
        for claim in snapshot.claims
        if claim.slice_name
        and operations.is_of_kind(operations.kept_by(claim.holder).name, operations.Kind.SWAP)
    }
