"""A world without HTTP for tests of the controllers, and what must always be true of it."""

from __future__ import annotations

import collections
from typing import Any

from tpuctl.sim import behaviour as behaviours
from tpuctl.sim import hardware, ready, rules, world
from tpuctl.sim.controllers import node_object, slice_status, slices

Object = dict[str, Any]

READY_CUBES = 6
HOLDING = {"ACTIVATING", "ACTIVE", "ACTIVE_DEGRADED"}


def make(
    *,
    cubes: int = READY_CUBES,
    blocks: int = 1,
    hardware_cubes: int | None = None,
    seed: int = 0,
    **behaviour: Any,
) -> world.World:
    """A world with the slice controller on and `cubes` ready cubes (over all blocks)."""
    settings = world.Settings(
        blocks=blocks,
        cubes=hardware_cubes or max(cubes // blocks, 1),
        seed=seed,
        slice_controller=True,
        behaviour=behaviours.Behaviour(**behaviour),
    )
    made = world.World(settings)
    ready.set_up(made, cubes)
    return made


class Cluster:
    """A world with the verbs that tests of slices and jobs need."""

    def __init__(self, place: world.World) -> None:
        self.world = place
        self.store = place.store
        self.cubes = list(place.hardware.subblocks())

    def advance(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    # Slices

    def ids(self, *numbers: int) -> list[str]:
        """Partition ids of whole cubes by number."""
        return [self.cubes[number].cube_id for number in numbers]

    def part(self, shape: str, number: int = 0, cube: int = 0) -> str:
        """Partition id of a part of a cube."""
        return self.cubes[cube].partition_ids[shape][number]

    def create(self, name: str, topology: str, ids: list[str], *, retry: bool = False, **spec: Any) -> Object:
        metadata: Object = {"name": name}
        if retry:
            metadata["annotations"] = {"slice.gke.io/retry-on-failure": "true"}
        return self.store.create(
            slices.SLICES,
            {
                "apiVersion": "accelerator.gke.io/v1beta1",
                "kind": "Slice",
                "metadata": metadata,
                "spec": {"type": "tpu7x", "topology": topology, "partitionIds": ids, **spec},
            },
        )

    def form(self, name: str, topology: str, ids: list[str]) -> Object:
        """Create a slice and let it become active, labels included."""
        self.create(name, topology, ids)
        self.advance(60)
        assert self.reason(name) == "ACTIVE", self.message(name)
        return self.slice(name)

    def slice(self, name: str) -> Object:
        found = self.store.get(slices.SLICES, None, name)
        assert found is not None, f"no slice {name}"
        return found

    def reason(self, name: str) -> str | None:
        """The slice's state, "" before it has one, None if the object is gone."""
        found = self.store.get(slices.SLICES, None, name)
        return None if found is None else slice_status.reason_of(found)

    def condition(self, name: str) -> Object:
        [condition] = self.slice(name)["status"]["conditions"]
        return condition

    def message(self, name: str) -> str:
        return self.condition(name)["message"]

    def delete(self, name: str) -> None:
        self.store.delete(slices.SLICES, None, name)

    def history(self, name: str, seconds: int) -> list[tuple[int, str | None]]:
        """(second, state) at each change of state within the next `seconds`."""
        seen: list[tuple[int, str | None]] = [(0, self.reason(name))]
        for second in range(1, seconds + 1):
            self.advance(1)
            if self.reason(name) != seen[-1][1]:
                seen.append((second, self.reason(name)))
        return seen

    # Nodes

    def host(self, cube: int, index: int = 0) -> hardware.Host:
        return self.cubes[cube].hosts[index]

    def node(self, cube: int, index: int = 0) -> Object:
        name = self.world.nodes.node_on(self.host(cube, index))
        found = self.store.get("nodes", None, name) if name else None
        assert found is not None
        return found

    def labelled(self, name: str) -> list[str]:
        """Names of the nodes that carry the label of a slice."""
        return [
            node["metadata"]["name"]
            for node in self.store.list("nodes")
            if node["metadata"]["labels"].get(node_object.SLICE) == name
        ]

    def state(self, cube: int, index: int = 0, shape: str = "4x4x4") -> str | None:
        return self.node(cube, index)["metadata"]["labels"].get(node_object.state_label(shape))

    def events(self, name: str) -> list[str]:
        """Reasons of the events about an object, oldest first."""
        about = [one for one in self.store.list("events") if one["involvedObject"]["name"] == name]
        about.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [one["reason"] for one in about]


def check_invariants(place: world.World) -> None:
    """What no history of calls and faults may break."""
    objects = {obj["metadata"]["name"]: obj for obj in place.store.list(slices.SLICES)}
    holders: dict[str, list[str]] = collections.defaultdict(list)
    for name, obj in objects.items():
        if slice_status.reason_of(obj) in HOLDING:
            for partition in obj["spec"]["partitionIds"]:
                for host in place.hardware.partition_hosts(partition):
                    holders[host.id].append(name)
    assert all(len(names) == 1 for names in holders.values()), "a host belongs to two slices"
    for node in place.store.list("nodes"):
        _check_node(node, place, objects)
    _check_chips(place)


def _check_node(node: Object, place: world.World, objects: dict[str, Object]) -> None:
    host = place.nodes.host_of(node["metadata"]["name"])
    assert host is not None
    assert host.vm is not None
    assert host.vm.name == node["metadata"]["name"]
    labels = node["metadata"]["labels"]
    name, topology = labels.get(node_object.SLICE), labels.get(node_object.TOPOLOGY)
    assert (name is None) == (topology is None)
    if name is None or name not in objects:
        return
    spec = objects[name]["spec"]
    own = labels[node_object.partition_label(rules.partition_shape(spec["topology"]))]
    if own in spec["partitionIds"]:
        assert topology == spec["topology"]
    else:
        # Only after force: an older slice of that name is still attached.
        assert place.slices.holder_of(host) == name


def _check_chips(place: world.World) -> None:
    used: collections.Counter[str] = collections.Counter()
    for pod in place.store.list("pods"):
        node = pod["spec"].get("nodeName")
        if node and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            used[node] += sum(
                int(one["resources"]["limits"]["google.com/tpu"]) for one in pod["spec"]["containers"]
            )
    assert all(chips <= 4 for chips in used.values()), "a node has more chips in use than it has"
