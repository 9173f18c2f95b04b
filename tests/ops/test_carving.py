"""Set-up: repeatable, patient with a busy cluster, honest about what could not be had."""

import dataclasses

import pytest

from tests.ops.conftest import Killed, Recorder, scene_of, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import errors, names, topology
from tpuctl.ops import carving, forming, pool_deletion
from tpuctl.sim import behaviour

POLICY = "tpuctl-4x4x4"


def partial(scene: Rehearsal, index: int, hosts: int) -> str:
    """Break hosts of a sub-block before it has a pool; returns its name."""
    hardware = scene.simulator.world.hardware

    def break_hosts() -> str:
        cube = list(hardware.subblocks())[index]
        hardware.partial(cube, hosts=hosts)
        return cube.name

    return scene.simulator.call(break_hosts)


def setup(scene: Rehearsal, reporter: Recorder, **options: object) -> carving.Outcome:
    prepared = carving.prepare(scene.ports, policy=POLICY, **options)
    return carving.execute(scene.ports, reporter, prepared)


def counts(outcome: carving.Outcome) -> dict[str, int]:
    return {str(result): outcome.count(result) for result in carving.Result}


def test_from_nothing_to_cubes_with_one_of_fifteen_hosts(reporter: Recorder) -> None:
    with scene_of(cubes=4) as scene:
        broken = partial(scene, 2, 15)
        prepared = carving.prepare(scene.ports, policy=POLICY)
        assert [action.verb for action in prepared.actions] == ["enable", "create"] + ["create"] * 4
        outcome = carving.execute(scene.ports, reporter, prepared)
        assert counts(outcome) == {"full": 3, "partial": 1, "failed": 0}
        short = [item for item in outcome.results if item.result is carving.Result.PARTIAL]
        assert [(item.sub_block, item.hosts) for item in short] == [(broken, 15)]
        assert outcome.changed
        assert reporter.remote == ""
        assert sorted(cube.ready_hosts for cube in whole(scene).cubes) == [15, 16, 16, 16]


def test_again_is_unchanged_and_starts_no_operation(reporter: Recorder) -> None:
    with scene_of(cubes=2) as scene:
        setup(scene, reporter)
        before = {operation.name for operation in scene.ports.pools.operations()}
        again = setup(scene, reporter)
        assert not again.changed
        assert counts(again) == {"full": 2, "partial": 0, "failed": 0}
        assert {operation.name for operation in scene.ports.pools.operations()} == before


def test_a_number_of_cubes_counts_those_that_exist(reporter: Recorder) -> None:
    with scene_of(cubes=4) as scene:
        assert counts(setup(scene, reporter, limit=2))["full"] == 2
        assert not setup(scene, reporter, limit=2).changed
        assert counts(setup(scene, reporter, limit=3))["full"] == 3


def test_a_killed_run_is_finished_without_duplicates(reporter: Recorder) -> None:
    class DiesAtFirstProgress(Recorder):
        def progress(self, done: int, total: int, text: str) -> None:
            raise Killed

    with scene_of(cubes=3) as scene:
        with pytest.raises(Killed):
            carving.execute(
                scene.ports, DiesAtFirstProgress(), carving.prepare(scene.ports, policy=POLICY), in_flight=2
            )
        assert len(scene.ports.pools.list()) == 2
        outcome = setup(scene, reporter)
        assert counts(outcome) == {"full": 3, "partial": 0, "failed": 0}
        assert len({item.pool for item in outcome.results}) == len(scene.ports.pools.list()) == 3


def test_a_cluster_that_takes_few_operations_gets_few(reporter: Recorder) -> None:
    few = dataclasses.replace(behaviour.Behaviour(), operations_in_flight=2)
    with scene_of(cubes=5, behaviour=few) as scene:
        outcome = setup(
            scene,
            reporter,
        )
        assert counts(outcome) == {"full": 5, "partial": 0, "failed": 0}
        assert reporter.warnings == []


def test_hardware_without_a_healthy_host_fails_alone(reporter: Recorder) -> None:
    with scene_of(cubes=3) as scene:
        hardware = scene.simulator.world.hardware

        def kill() -> str:
            cube = list(hardware.subblocks())[1]
            for host in cube.hosts:
                hardware.host_down(host)
            return cube.name

        dead = scene.simulator.call(kill)
        outcome = setup(scene, reporter)
        assert counts(outcome) == {"full": 2, "partial": 0, "failed": 1}
        failed = next(item for item in outcome.results if item.result is carving.Result.FAILED)
        assert failed.sub_block == dead
        assert "ZONE_RESOURCE_POOL_EXHAUSTED" in failed.why
        [warning] = reporter.warnings
        assert failed.why.startswith(warning.removeprefix(f"node pool {failed.pool}: "))
        assert failed.why.endswith(f"see: tpuctl nodepool delete {failed.pool}")


def test_a_block_that_is_not_reserved(reporter: Recorder) -> None:
    with scene_of(cubes=1) as scene, pytest.raises(errors.NotFound, match="no reservation block 'b9'"):
        setup(scene, reporter, block="b9")


def test_a_pool_under_a_slice_is_not_deleted(scene: Rehearsal, reporter: Recorder) -> None:
    formed = forming.form(scene.ports, reporter, "train", forming.request(topology.CUBE))
    used = next(host.pool for cube in whole(scene).cubes_of(formed.slice) for host in cube.hosts)
    with pytest.raises(errors.Conflict) as refused:
        pool_deletion.prepare(scene.ports, [used])
    assert refused.value.details == (f"{used}: slice train",)
    free = next(pool.name for pool in scene.ports.pools.list() if pool.name != used)
    with pytest.raises(errors.Conflict, match="nothing was deleted"):
        pool_deletion.prepare(scene.ports, [free, used])
    assert len(scene.ports.pools.list()) == 6


def test_a_free_pool_goes_away_and_set_up_makes_it_again(scene: Rehearsal, reporter: Recorder) -> None:
    pool = scene.ports.pools.list()[0]
    found = pool_deletion.prepare(scene.ports, [pool.name])
    pool_deletion.execute(scene.ports, reporter, found)
    assert pool.name not in {item.name for item in scene.ports.pools.list()}
    assert len([cube for cube in whole(scene).cubes if cube.has_nodes]) == 5
    outcome = setup(scene, reporter)
    assert [item.pool for item in outcome.results if item.made] == [names.pool_name(pool.sub_block)]


def test_a_pool_that_does_not_exist(scene: Rehearsal) -> None:
    """Deleting twice is deleting once."""
    assert pool_deletion.prepare(scene.ports, ["ghost"]) == ()
