"""What holds for every fleet, every declared state and every memory."""

import copy
import dataclasses
import datetime
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import health as judging
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, health, operations, reconciling, states, topology

Kind = reconciling.ActionKind
SHAPES = ("4x4x4", "4x4x8", "4x4x12", "4x8x8")
PARTS = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
KINDS = (*["sound"] * 12, "worn", "sick", "short", "cordoned", "unknown")
OWNERS = (None, None, None, fleet.BY_HAND, fleet.Owner("kueue", "Workload", "default", "w"))
UP = (states.SliceState.ACTIVE,) * 4
STATES = (*UP, states.SliceState.ACTIVE_DEGRADED, states.SliceState.FAILED, states.SliceState.CREATION_FAILED)
ODD = (states.SliceState.UNKNOWN, states.SliceState.DEACTIVATING, states.SliceState.ACTIVATING)
_MOST_CYCLES = 40


def cubes(dice):
    found = []
    for block in range(dice.randint(1, 3)):
        for number in range(dice.randint(1, 9)):
            kind = dice.choice(KINDS)
            name = f"b{block}-c{number:02}"
            cube = builders.cube_of(name, f"b{block}", kind)
            if kind == "unknown":
                cube = stage.unknown(cube)
            elif kind == "sick":
                cube = stage.sick(cube)
            found.append(cube)
    return found


def slices(dice, found):
    """Beside each other, on whatever cubes there are."""
    free = {block: [cube.id for cube in found if cube.block == block] for block in {c.block for c in found}}
    made = []
    for number in range(dice.randint(1, 6)):
        block = dice.choice(sorted(free))
        shape = topology.parse(dice.choice(SHAPES))
        if len(free[block]) < shape.cubes:
            continue
        ids = [free[block].pop() for _ in range(shape.cubes)]
        state = dice.choice((*STATES, *ODD))
        made.append(
            builders.slice_of(
                f"s-{number}",
                str(shape),
                *ids,
                state=state,
                reason=str(state),
                ready=str(state.is_ready),
                owner=dice.choice(OWNERS),
                deleting=dice.randint(0, 9) == 9,
                created_at=stage.LONG_AGO,
                since=stage.NOW - datetime.timedelta(seconds=dice.choice((5, 60, 200, 5000))),
            )
        )
    return tuple(made)


def entries(dice, there):
    """Most of what is there is wanted, as it is, larger, or otherwise; and a few more."""
    names = [item.name for item in there if dice.randint(0, 4) < 4]
    names += [f"n-{number}" for number in range(dice.randint(0, 3))]
    shapes_of = {item.name: item.raw_topology for item in there}
    found = []
    for name in names or ["n-0"]:
        small = name not in shapes_of and dice.randint(0, 3) == 0
        more = dice.sample(PARTS if small else SHAPES, dice.randint(0, 2))
        own = [shapes_of[name]] if name in shapes_of and dice.randint(0, 4) < 4 else []
        shapes = list(dict.fromkeys(dice.sample([*own, *more], len(own) + len(more)))) or ["4x4x4"]
        found.append(
            stage.want(
                name,
                *shapes,
                priority=dice.randint(0, 2),
                gang=dice.choice(("", "", "", "g")),
                preemptible=dice.random() < 0.5,
                min_run_s=dice.choice((0.0, 0.0, 10.0 * 86_400)),
                allow_degraded=dice.random() < 0.5,
                on_deletion=dice.choice([*declared.OnDeletion]),
                team=dice.choice(("a", "b")),
            )
        )
    return tuple(found)


def views():
    """Fleets by number: every one of them is as likely as any other."""
    return st.integers(0, 2**32).map(view)


def view(number):
    dice = random.Random(number)
    found = cubes(dice)
    there = slices(dice, found)
    ours = [item for item in there if dice.randint(0, 3) < 3]
    pods = tuple(
        builders.pod(f"p-{number}", host.name)
        for number, cube in enumerate(found)
        for host in cube.hosts[:1]
        if dice.randint(0, 4) == 4
    )
    wanted = stage.spec(
        *entries(dice, there),
        budgets=declared.Budgets(disrupted_chips_per_hour=dice.choice((4096, 4096, 300, 0))),
        breaker=declared.Breaker(percent=dice.choice((*[100.0] * 9, 25.0))),
        adopt_foreign=dice.random() < 0.5,
        prune=dice.random() < 0.5,
        prune_grace_s=0.0,
    )
    held = tuple(operations.Claim(cube.id, "hold by jo") for cube in found if dice.randint(0, 9) == 9)
    gone = builders.slice_of("n-0", "4x4x4", "nowhere")
    snapshot = builders.fleet_of(*found, slices=there, pods=pods)
    return stage.view(
        dataclasses.replace(snapshot, claims=held),
        wanted,
        memory=stage.memory(*ours, *([gone] if dice.random() < 0.5 else [])),
        repairing=frozenset(cube.id for cube in found if dice.randint(0, 9) == 9),
    )


def hosts_given(seen, action):
    """Hosts that an action takes for a slice that has not had them."""
    ids = {exchange.new for exchange in action.exchanges}
    ids |= {part for forming in action.forming for part in forming.partition_ids}
    found = {
        host.name for cube in seen.snapshot.cubes for host in cube.hosts if ids & set(host.partition_ids)
    }
    if action.kind in (Kind.GROW, Kind.MOVE):
        own = {forming.name for forming in action.forming}
        held = {
            host.name
            for item in seen.snapshot.slices
            if item.name in own
            for host in seen.snapshot.hosts_of(item)
        }
        return found - held
    return found


def verdict(seen, cube_id):
    cube = seen.snapshot.cubes_by_id[cube_id]
    return judging.judge(cube, health.DEFAULT_POLICY, seen.now).verdict


@given(views())
@settings(max_examples=150, deadline=None)
def test_every_decision_is_safe(seen):
    """In the first cycle and in the second, when what must be seen twice has been."""
    for again in (seen, stage.later(seen, engine.decide(seen), 4000.0)):
        check(again, engine.decide(again))


def check(seen, found):
    ours = {entry.name: entry.uid for entry in found.memory.formed}
    before = {entry.name: entry.uid for entry in seen.memory.formed}
    held = {host.name for item in seen.snapshot.slices for host in seen.snapshot.hosts_of(item)}
    given_away: set[str] = set()
    for action in found.actions:
        taken = hosts_given(seen, action)
        assert not taken & given_away, "a host is given to two"
        given_away |= taken
        if action.kind is not Kind.DEFORM:
            assert not taken & held, "a host of a slice is given to another one"
        names = {forming.name for forming in action.forming} or {action.target}
        for name in names & set(seen.snapshot.slices_by_name):
            item = seen.snapshot.slices_by_name[name]
            assert item.owner in (None, fleet.BY_HAND)
            assert not item.deleting
            assert item.owner is None or seen.spec.adopt_foreign
            known = before.get(name) or ours.get(name) or item.uid
            assert known in (item.uid, "") or name in seen.wants
            if item.state is states.SliceState.UNKNOWN:
                assert name not in seen.wants, "what is unknown is no reason to act"
            if name not in seen.wants:
                assert before.get(name) == item.uid, "what the loop did not form is nobody's to prune"
        check_health(seen, action, names)
    assert sum(action.chips for action in found.to_do) <= seen.spec.budgets.disrupted_chips_per_hour


def check_health(seen, action, names):
    tolerant = all(seen.wants[name].entry.allow_degraded for name in names if name in seen.wants)
    usable = {states.Verdict.HEALTHY} | ({states.Verdict.DEGRADED} if tolerant else set())
    for exchange in action.exchanges:
        if exchange.old in seen.snapshot.cubes_by_id:
            assert verdict(seen, exchange.old) is not states.Verdict.UNKNOWN
        assert verdict(seen, exchange.new) in usable
        assert exchange.new not in seen.repairing
        blocks = {seen.snapshot.cubes_by_id[cube_id].block for cube_id in (exchange.old, exchange.new)}
        assert len(blocks) == 1
    for forming in action.forming:
        assert len(forming.partition_ids) == forming.topology.partitions
        assert forming.topology in seen.wants[forming.name].shapes
        for part in forming.partition_ids:
            if part in seen.snapshot.cubes_by_id:
                assert verdict(seen, part) in usable
                assert part not in seen.repairing
                assert part not in seen.held_cubes


@given(views())
@settings(max_examples=60, deadline=None)
def test_the_same_view_gives_the_same_decision(seen):
    assert engine.decide(seen) == engine.decide(copy.deepcopy(seen))


@given(views(), st.sampled_from([*fleet.SourceName]))
@settings(max_examples=40, deadline=None)
def test_a_view_that_is_not_whole_decides_nothing(seen, missing):
    """A partial list never takes anything apart."""
    sources = tuple(source for source in seen.snapshot.sources if source.name is not missing)
    partial = dataclasses.replace(seen, snapshot=dataclasses.replace(seen.snapshot, sources=sources))
    found = engine.decide(partial)
    assert (found.actions, found.memory) == ((), seen.memory)


@given(views())
@settings(max_examples=40, deadline=None)
def test_an_empty_fleet_takes_nothing_apart(seen):
    """Nodes, slices and pools that are all gone at once are more likely a wrong answer."""
    empty = dataclasses.replace(
        seen, snapshot=dataclasses.replace(seen.snapshot, blocks=(), pods=()), pools=()
    )
    for again in (empty, stage.later(empty, engine.decide(empty), 4000.0)):
        assert engine.decide(again).to_do == ()


@given(views(), st.sampled_from([declared.Mode.OBSERVE, declared.Mode.RECOMMEND]))
@settings(max_examples=40, deadline=None)
def test_who_only_looks_does_nothing(seen, mode):
    quiet = dataclasses.replace(seen, mode=mode)
    for again in (quiet, stage.later(quiet, engine.decide(quiet), 4000.0)):
        assert engine.decide(again).to_do == ()


@given(views())
@settings(max_examples=80, deadline=None)
def test_it_comes_to_an_end(seen):
    """When all that it does succeeds, there is soon nothing left to do, and nothing is written any more."""
    for _ in range(_MOST_CYCLES):
        found = engine.decide(seen)
        check(seen, found)
        now = stage.carried_out(seen, found, 3700.0)
        if not found.to_do and found.memory == seen.memory:
            return
        seen = now
    raise AssertionError(f"after {_MOST_CYCLES} cycles it still does {stage.lines(found)}")
