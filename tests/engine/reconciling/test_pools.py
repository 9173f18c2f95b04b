"""Node pools: made for each declared sub-block, made again only if they are of no use."""

import dataclasses

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, operations, reconciling, reserved

Kind = reconciling.ActionKind
ALLOWED = declared.Remediation(reprovision=declared.Permission.ALLOW)
HOUR_S, DAY_S = 3600.0, 86_400.0


def on(*cubes, block=None, slices=(), pods=(), wants=(), **more):
    found = {key: more.pop(key) for key in ("remediation", "budgets", "windows") if key in more}
    blocks = (block or declared.BlockSpec(name="b1"),)
    wanted = stage.spec(*wants, blocks=blocks, **found)
    snapshot = stage.hardware(*cubes, slices=slices, pods=pods)
    return stage.view(snapshot, wanted, blocks=stage.reserved(*cubes), **more)


class TestCreation:
    def test_one_for_each_sub_block_without_one(self):
        """crossplane #361, xpk #1125: what is there is enough, and nothing is done about it."""
        found = engine.decide(on(stage.with_pool(0), stage.bare(1), stage.bare(2)))
        assert stage.lines(found) == ["create-pool/cube-sb01", "create-pool/cube-sb02"]
        action = found.actions[0]
        assert action.pool == reserved.PoolSpec("cube-sb01", "res", "b1", "sb01", "policy")
        assert [fact.kind for fact in action.facts] == ["spec", "pool", "cube"]
        assert engine.decide(on(stage.with_pool(0), stage.with_pool(1))).actions == ()

    def test_at_most_as_many_as_are_declared(self):
        block = declared.BlockSpec(name="b1", cubes=2, pools=declared.PoolSettings(policy="mine"))
        found = engine.decide(on(stage.with_pool(0), stage.bare(1), stage.bare(2), block=block))
        assert stage.lines(found) == ["create-pool/cube-sb01"]
        assert found.actions[0].pool.policy == "mine"

    def test_a_pool_of_another_name_for_the_same_hardware_is_enough(self):
        """python clients that made a second pool with a random suffix."""
        cube = stage.with_pool(0)
        other = dataclasses.replace(cube, pool=cube.pool._replace(name="made-by-hand"))
        assert engine.decide(on(other)).actions == ()

    def test_one_that_is_stopping_is_neither_capacity_nor_made_twice(self):
        found = engine.decide(on(stage.bare(0, pool=stage.pool(0, "STOPPING"))))
        assert found.actions == ()

    def test_so_many_operations_at_once(self):
        """terraform-provider-google #15205: a quota of concurrent operations."""
        cubes = [stage.bare(number) for number in range(6)]
        found = engine.decide(on(*cubes, pool_operations=1))
        assert len(found.to_do) == 3
        assert found.actions[3].stopped_by == "pool operations: 4 at once, no more"
        assert stage.guard(found, "pool operations").says == "4 of 4 at once, 3 of them by this plan"

    @pytest.mark.parametrize(
        "away",
        [
            stage.sub_block(0, healthy_hosts=0),
            stage.sub_block(0, status="DELETING"),
            stage.sub_block(0, maintenance=reserved.Maintenance(None, None, "ONGOING")),
        ],
    )
    def test_not_while_the_hardware_is_away(self, away):
        found = engine.decide(on(dataclasses.replace(stage.bare(0), sub_block=away)))
        assert found.actions == ()

    def test_not_on_hold_nor_in_repair(self):
        seen = on(stage.bare(0))
        claims = (operations.Claim("sb00", "hold by jo"),)
        held = dataclasses.replace(seen, snapshot=dataclasses.replace(seen.snapshot, claims=claims))
        assert engine.decide(held).actions == ()
        assert engine.decide(dataclasses.replace(seen, repairing=frozenset({"sb00"}))).actions == ()

    def test_a_block_that_is_not_declared_is_not_touched(self):
        found = engine.decide(on(stage.bare(0), block=declared.BlockSpec(name="other")))
        assert found.actions == ()

    def test_a_name_that_something_else_has_is_told(self):
        taken = stage.pool(0)._replace(sub_block="", block="elsewhere")
        found = engine.decide(on(stage.bare(0), pools=(taken,)))
        assert found.actions == ()
        assert "is aimed at elsewhere" in found.memory.recommendations[0].text


class TestErrorWithoutNodes:
    """ai-on-gke #277: pools without nodes that nobody saw."""

    BROKEN = stage.with_pool(0, hosts=0, status="ERROR")

    def seen(self, *more_cubes, **more):
        return on(self.BROKEN, stage.with_pool(1), *more_cubes, **more)

    def test_is_made_again_after_its_grace(self):
        seen = self.seen()
        first = engine.decide(seen)
        assert first.actions == ()
        assert engine.decide(stage.later(seen, first, HOUR_S - 1)).actions == ()
        action = stage.one(engine.decide(stage.later(seen, first, HOUR_S)), Kind.RECREATE_POOL)
        assert (action.target, action.voluntary, action.stopped_by) == ("cube-sb00", False, "")
        assert action.pool.sub_block == "sb00"
        assert action.chips == 0

    def test_not_if_it_was_well_in_between(self):
        seen = self.seen()
        first = stage.later(seen, engine.decide(seen), 1800.0)
        well = dataclasses.replace(first, snapshot=on(stage.with_pool(0), stage.with_pool(1)).snapshot)
        again = dataclasses.replace(stage.later(first, engine.decide(well), 1800.0), pools=seen.pools)
        assert engine.decide(again).actions == ()

    def test_not_while_its_hardware_is_away(self):
        away = dataclasses.replace(self.BROKEN, sub_block=stage.sub_block(0, healthy_hosts=0))
        _, found = stage.second_look(on(away, stage.with_pool(1)), DAY_S)
        assert found.actions == ()

    def test_no_more_of_a_block_in_repair_than_allowed(self):
        wanted = declared.Budgets(cubes_in_repair_per_block=2)
        more = [stage.with_pool(number, hosts=0, status="ERROR") for number in (2, 3)]
        seen = self.seen(*more, budgets=wanted, repairing=frozenset({"b1-c01"}))
        _, found = stage.second_look(seen, DAY_S)
        assert len(found.to_do) == 1
        assert found.actions[1].stopped_by == "repair budget: 2 of 2 cubes of block b1 are in repair"

    def test_not_while_its_cube_is_on_hold(self):
        """Its nodes are gone, so its cube has the name of the sub-block only."""
        seen = self.seen()
        held = dataclasses.replace(seen.snapshot, claims=(operations.Claim("sb00", "hold by jo: RMA 4711"),))
        _, found = stage.second_look(dataclasses.replace(seen, snapshot=held), 10 * DAY_S)
        assert found.actions == ()

    def test_deleting_and_making_does_not_go_on_without_end(self):
        """cluster-toolkit #3225: a stockout answered by a storm."""
        seen = self.seen()
        done = 0
        for _ in range(200):
            found = engine.decide(seen)
            done += len(found.to_do)
            seen = stage.done(seen, found, 300.0)
        assert done < 12  # in 16 hours

    @pytest.mark.parametrize("status", ["STOPPING", "PROVISIONING", "RECONCILING", "SOMETHING_NEW"])
    def test_not_in_any_other_state(self, status):
        cube = stage.with_pool(0, hosts=0, status=status)
        _, found = stage.second_look(on(cube, stage.with_pool(1)), 10 * DAY_S)
        assert found.actions == ()


class TestShortOfHosts:
    SHORT = stage.with_pool(0, hosts=13)

    def test_is_made_again_after_a_long_grace_in_a_window_with_permission(self):
        seen = on(self.SHORT, remediation=ALLOWED)
        _, early = stage.second_look(seen, DAY_S - 1)
        assert early.actions == ()
        _, found = stage.second_look(seen, DAY_S)
        action = stage.one(found, Kind.RECREATE_POOL)
        assert (action.voluntary, action.stopped_by) == (True, "")
        assert "13 nodes since 2026-01-05 08:00:00 UTC, though the reservation calls 16" in action.reason

    def test_only_a_person_allows_it_by_default(self):
        _, found = stage.second_look(on(self.SHORT), DAY_S)
        assert found.actions[0].stopped_by == (
            "policy: remediation.reprovision is 'recommend', so a person approves it"
        )

    def test_what_waits_for_a_window_has_parts_of_use_meanwhile(self):
        never = declared.Window(name="w", days=(), start_minute=0, length_s=60.0)
        seen = on(stage.with_pool(0, hosts=15), remediation=ALLOWED, windows=(never,))
        late = stage.later(seen, engine.decide(seen), DAY_S)
        wanted = dataclasses.replace(seen.spec, slices=(stage.want("s", "2x2x4"),))
        found = engine.decide(dataclasses.replace(late, spec=wanted))
        assert stage.one(found, Kind.RECREATE_POOL).stopped_by.startswith("window: ")
        assert stage.lines(found) == ["form/s"]

    def test_hosts_in_repair_are_normal(self):
        cube = stage.with_pool(0, hosts=13, healthy_hosts=13, degraded_hosts=3)
        _, found = stage.second_look(on(cube, remediation=ALLOWED), 10 * DAY_S)
        assert found.actions == ()

    def test_what_the_reservation_does_not_tell_is_not_missing(self):
        cube = stage.with_pool(0, hosts=13, healthy_hosts=None)
        _, found = stage.second_look(on(cube, remediation=ALLOWED), 10 * DAY_S)
        assert found.actions == ()

    def test_error_with_all_its_nodes_is_healthy(self):
        found = stage.second_look(on(stage.with_pool(0, status="ERROR"), remediation=ALLOWED), 10 * DAY_S)[1]
        assert found.actions == ()

    def test_never_under_a_slice_a_hold_a_repair_or_a_pod(self):
        part = builders.slice_of("sub", "2x2x1", "b1-c00.221.0")
        wants = (stage.want("sub", "2x2x1"),)
        used = on(self.SHORT, slices=(part,), wants=wants, remediation=ALLOWED)
        repaired = on(self.SHORT, remediation=ALLOWED, repairing=frozenset({"b1-c00"}))
        pod = on(self.SHORT, remediation=ALLOWED, pods=(builders.pod("p", "node-b1-c00-00"),))
        plain = on(self.SHORT, remediation=ALLOWED)
        claims = (operations.Claim("b1-c00", "hold by jo"),)
        held = dataclasses.replace(plain, snapshot=dataclasses.replace(plain.snapshot, claims=claims))
        for seen in (used, repaired, pod, held):
            _, found = stage.second_look(seen, 10 * DAY_S)
            assert found.actions == ()

    def test_its_hosts_are_not_given_away_meanwhile(self):
        wants = (stage.want("sub", "2x2x1"),)
        seen = on(self.SHORT, stage.with_pool(1), remediation=ALLOWED)
        again = stage.later(seen, engine.decide(seen), DAY_S)
        wanted = dataclasses.replace(again.spec, slices=wants)
        found = engine.decide(dataclasses.replace(again, spec=wanted))
        form = stage.one(found, Kind.FORM)
        assert form.forming[0].partition_ids[0].startswith("b1-c01.")


def test_a_pool_whose_node_pool_is_gone_closes_its_attempts():
    """NVSentinel #1387: endless retries for what is not there any more."""
    old = reconciling.Attempt("recreate-pool/cube-sb00", 5, stage.LONG_AGO, "not found")
    found = engine.decide(on(stage.with_pool(1), memory=stage.memory(attempts=(old,))))
    assert found.memory.attempts == ()
