"""What is remembered from cycle to cycle, and that nothing is written where nothing changed."""

import dataclasses
import datetime

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import health as judging
from tpuctl.engine import reconciling as engine
from tpuctl.engine.health import verdicts
from tpuctl.engine.reconciling import churn, ledger
from tpuctl.model import codec, fleet, health, reconciling

CUBES = stage.cubes(6)
TRAIN = builders.slice_of("train", "4x8x8", *(cube.id for cube in CUBES[:4]))
SPEC = stage.spec(stage.want("train", "4x8x8"))


def test_a_cycle_without_change_leaves_the_memory_as_it_was():
    """Slurm-operator: empty patches that caused endless reconciles."""
    cases = [
        stage.view(builders.fleet_of(*CUBES, slices=(TRAIN,)), SPEC),
        # things that wait or look wrong for long must not be written down anew each time
        stage.view(builders.fleet_of(*CUBES), stage.spec(stage.want("big", "8x8x8"))),
        stage.view(stage.with_cubes(builders.fleet_of(*CUBES), stage.unknown(CUBES[5])), stage.spec()),
        stage.view(builders.fleet_of(*CUBES), SPEC, memory=stage.memory(TRAIN)),
    ]
    for seen in cases:
        settled, _ = stage.second_look(seen)
        settled, found = stage.second_look(settled)
        for _ in range(5):
            seen_again = stage.later(settled, found, 86_400.0 / 5)
            found = engine.decide(seen_again)
            assert found.memory == seen_again.memory
            assert found.to_do == ()
            settled = seen_again


def test_a_sighting_begins_anew_when_it_was_gone():
    seen = stage.view(builders.fleet_of(*CUBES, slices=(TRAIN,)), stage.spec(stage.want("else", "8x8x8")))
    first = engine.decide(seen)
    assert first.memory.sightings == (reconciling.Sighting("unwanted", "train", stage.NOW, 1),)
    wanted = dataclasses.replace(stage.later(seen, first), spec=SPEC)
    back = dataclasses.replace(stage.later(wanted, engine.decide(wanted)), spec=seen.spec)
    [again] = engine.decide(back).memory.sightings
    assert (again.since, again.cycles) == (back.now, 1)


def test_a_recommendation_is_told_once_and_ends_with_its_cause():
    seen = stage.view(builders.fleet_of(*CUBES), SPEC, memory=stage.memory(TRAIN))
    first = engine.decide(seen)
    [told] = first.memory.recommendations
    later = stage.later(seen, first, 9999.0)
    assert engine.decide(later).memory.recommendations == (told,)
    back = dataclasses.replace(later, snapshot=stage.with_slices(later.snapshot, TRAIN))
    assert engine.decide(back).memory.recommendations == ()


def test_losing_the_memory_makes_the_loop_slower_and_not_wrong():
    wanted = stage.spec(stage.want("else", "8x8x8"))
    seen = stage.view(builders.fleet_of(*CUBES, slices=(TRAIN,)), wanted, memory=reconciling.Memory())
    for _ in range(4):
        found = engine.decide(seen)
        assert found.to_do == ()  # who cannot tell that it formed a slice leaves it alone
        seen = stage.later(seen, found, 3600.0)


def test_the_memory_survives_its_record():
    _, found = stage.second_look(
        stage.view(
            stage.with_cubes(builders.fleet_of(*CUBES, slices=(TRAIN,)), stage.sick(CUBES[0])),
            stage.spec(stage.want("train", "4x8x8"), stage.want("new", "4x4x4")),
        )
    )
    plain = codec.encode(found.memory)
    assert codec.decode(plain, reconciling.Memory, "memory") == found.memory


def test_pauses_between_attempts_grow_to_an_hour():
    assert [ledger.pause_s(failures) for failures in (1, 2, 3, 6, 7, 50)] == [60, 120, 240, 1920, 3600, 3600]


def test_thousands_of_things_done_once_do_not_fill_the_memory():
    entries = [reconciling.Attempt(f"form/s-{number:05}", 1, stage.NOW, "x") for number in range(5000)]
    repeated = reconciling.Attempt("form/z", 2, stage.NOW, "x")
    kept = churn.shortened([*entries, repeated])
    assert (len(kept), repeated in kept) == (1000, True)


def test_what_is_about_slices_is_not_pushed_out_by_what_is_about_cubes():
    suspects = tuple(reconciling.Suspect(f"q{number:03}", 3, stage.NOW) for number in range(300))
    memory = stage.memory(TRAIN, suspects=suspects)
    seen = stage.view(builders.fleet_of(*CUBES), stage.spec(stage.want("train", "4x8x8")), memory=memory)
    told = [entry.subject for entry in engine.decide(seen).memory.recommendations]
    assert "slice/train" in told
    assert len(told) == 21

    kept = ledger._weightiest(
        reconciling.Recommendation(f"{kind}/{number:03}", "x", stage.NOW)
        for kind in ("cube", "slice")
        for number in range(150)
    )
    assert len([entry for entry in kept if entry.subject.startswith("slice/")]) == 150
    assert len(kept) == 200


def test_thousands_of_failed_attempts_are_remembered_by_their_number():
    failed = tuple(reconciling.Attempt(f"form/s-{number:05}", 1, stage.NOW, "x") for number in range(3000))
    often = reconciling.Attempt("form/z", 7, stage.NOW, "x")
    seen = stage.view(builders.fleet_of(*CUBES), stage.spec(), memory=stage.memory(attempts=(*failed, often)))
    kept = engine.decide(seen).memory.attempts
    assert (len(kept), often in kept) == (1000, True)


class TestVerdicts:
    """What is remembered of cubes is what would be judged anew."""

    MINUTES = tuple(range(0, 24 * 60, 7))

    def test_at_every_moment(self):
        minute = datetime.timedelta(minutes=1)
        since = stage.NOW + 60 * minute
        cube = CUBES[0]
        condition = fleet.NodeCondition("KernelDeadlock", "True", "x", "", since)
        changing = [
            builders.changed(cube, 0, ready=False, ready_since=since, created_at=stage.LONG_AGO),
            builders.changed(cube, 1, chips=0, ready_since=since),
            builders.changed(cube, 2, conditions=(condition,), ready_since=stage.LONG_AGO),
            builders.changed(cube, 3, maintenance_at=stage.NOW + 30 * 60 * minute),
            dataclasses.replace(
                cube,
                sub_block=stage.sub_block(
                    0,
                    maintenance_start=stage.NOW + 30 * 60 * minute,
                    maintenance_end=stage.NOW + 31 * 60 * minute,
                ),
            ),
        ]
        policy = health.HealthPolicy(latched_after_s=5 * 3600.0)
        seen = set()
        for made in changing:
            for minutes in self.MINUTES + tuple(60 * hour for hour in range(24, 80)):
                now = stage.NOW + minutes * minute
                expected = judging.judge(made, policy, now)
                assert verdicts.of(made, policy, now) == expected
                seen.add(expected.verdict)
        assert len(seen) >= 4

    def test_exactly_where_a_grace_ends(self):
        made = builders.changed(CUBES[0], 0, ready=False, ready_since=stage.NOW, created_at=stage.LONG_AGO)
        for seconds in (0.0, 59.0, 59.999999, 60.0, 60.000001, 1.0, 61.0):
            now = stage.NOW + datetime.timedelta(seconds=seconds)
            assert verdicts.of(made, health.DEFAULT_POLICY, now) == judging.judge(
                made, health.DEFAULT_POLICY, now
            )

    def test_under_another_policy(self):
        made = builders.changed(CUBES[0], 0, ready=False, ready_since=stage.NOW, created_at=stage.LONG_AGO)
        now = stage.NOW + datetime.timedelta(seconds=90)
        patient = health.HealthPolicy(not_ready_grace_s=600.0)
        for policy in (health.DEFAULT_POLICY, patient, health.DEFAULT_POLICY):
            assert verdicts.of(made, policy, now) == judging.judge(made, policy, now)

    def test_a_cycle_without_change_judges_nothing_anew(self, monkeypatch):
        seen = stage.view(builders.fleet_of(*CUBES, slices=(TRAIN,)), SPEC)
        found = engine.decide(seen)

        def refuse(*_):
            raise AssertionError("nothing has changed")

        monkeypatch.setattr(verdicts.judging, "judge", refuse)
        assert engine.decide(stage.later(seen, found, 3600.0)).actions == ()

    def test_the_same_cube_is_judged_once_and_forgotten_with_its_snapshot(self, monkeypatch):
        judged, judge = [], judging.judge

        def counted(cube, policy, now):
            judged.append(cube.id)
            return judge(cube, policy, now)

        monkeypatch.setattr(verdicts.judging, "judge", counted)
        cubes = stage.cubes(40)
        for seconds in range(5):
            for cube in cubes:
                verdicts.of(cube, health.DEFAULT_POLICY, stage.NOW + datetime.timedelta(seconds=seconds))
        assert len(judged) == 40
        known = len(verdicts._known)
        del cubes, cube
        assert len(verdicts._known) == known - 40
