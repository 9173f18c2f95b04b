"""Fleets for tests of model, engine and ops, in one line each; shapes as the real service gives them."""

import dataclasses
import datetime

from tpuctl.model import fleet, states, topology

NOW = datetime.datetime(2026, 1, 5, 8, 0, tzinfo=datetime.UTC)
LONG_AGO = NOW - datetime.timedelta(days=30)
EVERY_SOURCE = tuple(fleet.Source(name, "1", NOW) for name in fleet.SourceName)


def host(cube_id: str, index: int, **changes: object) -> fleet.Host:
    """Host `index` (0 to 15) of a cube, with the ids of its place in the partition tree."""
    ids = (
        f"{cube_id}.221.{index}",
        f"{cube_id}.222.{index // 2}",
        f"{cube_id}.224.{index // 4}",
        f"{cube_id}.244.{index // 8}",
        cube_id,
    )
    plain = fleet.Host(
        name=f"node-{cube_id}-{index:02}",
        cube_id=cube_id,
        partition_ids=ids,
        partition_states=(states.PartitionState.HEALTHY,) * len(topology.PARTITION_SHAPES),
        ready=True,
        ready_since=LONG_AGO,
        schedulable=True,
        slice_name="",
        pool=f"pool-{cube_id}",
        uid=f"uid-{cube_id}-{index}",
        created_at=LONG_AGO,
        chips=topology.CHIPS_PER_HOST,
        provider_id=f"gce://p/us-central1-c/node-{cube_id}-{index:02}",
    )
    return plain._replace(**changes)


def cube(
    cube_id: str,
    block: str = "b1",
    *,
    hosts: int = 16,
    state: states.PartitionState = states.PartitionState.HEALTHY,
) -> fleet.Cube:
    """A cube whose 4x4x4 label says `state`; missing hosts make it and what they belong to INCOMPLETE."""
    present = [host(cube_id, index) for index in range(hosts)]
    sizes = {shape: shape.hosts for shape in topology.PARTITION_SHAPES}
    counts: dict[str, int] = {}
    for item in present:
        for partition_id in item.partition_ids:
            counts[partition_id] = counts.get(partition_id, 0) + 1
    labelled = []
    for item in present:
        labels = [
            states.PartitionState.HEALTHY
            if counts[item.partition_id(shape)] == sizes[shape]
            else states.PartitionState.INCOMPLETE
            for shape in topology.PARTITION_SHAPES
        ]
        if hosts == topology.HOSTS_PER_CUBE:
            labels[-1] = state
        labelled.append(item._replace(partition_states=tuple(labels)))
    return fleet.Cube(id=cube_id, block=block, hosts=tuple(labelled))


def changed(item: fleet.Cube, index: int, **changes: object) -> fleet.Cube:
    """The cube with one host changed."""
    hosts = list(item.hosts)
    hosts[index] = hosts[index]._replace(**changes)
    return dataclasses.replace(item, hosts=tuple(hosts))


def stray(host_: fleet.Host, **changes: object) -> fleet.Stray:
    """The node of a host after it has lost the label of its cube; pool and slice label stay."""
    plain = fleet.Stray(
        node=host_.name,
        why="it has no label cloud.google.com/gke-tpu-partition-4x4x4-id",
        pool=host_.pool,
        slice_name=host_.slice_name,
        uid=host_.uid,
        created_at=host_.created_at,
        schedulable=host_.schedulable,
    )
    return plain._replace(**changes)


def unlabelled(
    item: fleet.Cube, *indexes: int, **changes: object
) -> tuple[fleet.Cube, tuple[fleet.Stray, ...]]:
    """The cube after these hosts have lost its label (all of them if none is named), and their nodes.

    With all labels gone it has the name of its sub-block only.
    """
    gone = set(indexes) or set(range(len(item.hosts)))
    strays = tuple(stray(item.hosts[index], **changes) for index in sorted(gone))
    kept = tuple(host_ for index, host_ in enumerate(item.hosts) if index not in gone)
    cube_id = item.id if kept or item.sub_block is None else item.sub_block.name
    names = tuple(found.node for found in strays)
    return dataclasses.replace(item, id=cube_id, hosts=kept, strays=names), strays


def cube_of(cube_id: str, block: str, kind: str) -> fleet.Cube:
    """A cube that is `worn`, `sick`, `short` of hosts, or has one `cordoned`; sound for any other word."""
    if kind == "short":
        return cube(cube_id, block, hosts=13)
    if kind == "cordoned":
        return changed(cube(cube_id, block), 3, schedulable=False)
    state = {"worn": states.PartitionState.DEGRADED, "sick": states.PartitionState.UNHEALTHY}.get(kind)
    return cube(cube_id, block, state=state or states.PartitionState.HEALTHY)


def slice_of(name: str, shape: str, *partition_ids: str, **changes: object) -> fleet.Slice:
    plain = fleet.Slice(
        name=name,
        uid=f"uid-{name}",
        topology=topology.parse(shape),
        raw_topology=shape,
        partition_ids=tuple(sorted(partition_ids)),
        state=states.SliceState.ACTIVE,
        reason="ACTIVE",
        ready="True",
        message="",
        created_at=NOW,
        since=NOW,
        deleting=False,
        owner=None,
        revision="1",
    )
    return plain._replace(**changes)


def pod(name: str, node: str, **changes: object) -> fleet.Pod:
    return fleet.Pod("default", name, f"uid-{name}", node, "Running", 4, "Job/train", NOW)._replace(**changes)


def fleet_of(*cubes: fleet.Cube, slices: tuple = (), pods: tuple = ()) -> fleet.Fleet:
    """A fleet of these cubes, blocks as the cubes say; every source was read."""
    ids = sorted({item.block for item in cubes})
    blocks = tuple(
        fleet.Block(id=block, cubes=tuple(sorted((c for c in cubes if c.block == block), key=lambda c: c.id)))
        for block in ids
    )
    return fleet.Fleet(
        cluster="p/l/c", observed_at=NOW, blocks=blocks, slices=slices, pods=pods, sources=EVERY_SOURCE
    )
