"""What is so only because nobody watches a loop is not so for a person who reads a plan first."""

import dataclasses

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import reconciling

OURS = builders.slice_of("old", "4x4x4", "c0")
THEIRS = builders.slice_of("foreign", "4x4x4", "c1")
SEEN = stage.view(
    builders.fleet_of(*map(builders.cube, ("c0", "c1", "c2")), slices=(OURS, THEIRS)),
    stage.spec(stage.want("new", "4x4x4")),
    memory=stage.memory(OURS),
)


def test_a_loop_lets_the_grace_pass_and_a_person_does_not_wait_for_it():
    assert stage.lines(engine.decide(SEEN)) == ["form/new"]
    assert stage.lines(engine.decide(engine.attended(SEEN))) == ["deform/old", "form/new"]


def test_what_the_loop_did_not_form_stays():
    nobodys = dataclasses.replace(SEEN, memory=stage.memory())
    assert stage.lines(engine.decide(engine.attended(nobodys))) == ["form/new"]


def test_prune_false_and_an_empty_list_hold_for_people_too():
    kept = dataclasses.replace(SEEN, spec=dataclasses.replace(SEEN.spec, prune=False))
    assert stage.lines(engine.decide(engine.attended(kept))) == ["form/new"]
    empty = dataclasses.replace(SEEN, spec=stage.spec())
    assert stage.lines(engine.decide(engine.attended(empty))) == []


def test_a_sighting_keeps_its_beginning():
    since = stage.LONG_AGO
    known = (reconciling.Sighting("unwanted", "old", since, 2), reconciling.Sighting("other", "x", since, 1))
    seen = dataclasses.replace(SEEN, memory=dataclasses.replace(SEEN.memory, sightings=known))
    found = engine.attended(seen).memory.sightings
    assert {(item.kind, item.subject): item.since for item in found} == {
        ("unwanted", "old"): since,
        ("unwanted", "foreign"): seen.now,
        ("other", "x"): since,
    }


def test_a_first_look_may_act():
    first = dataclasses.replace(SEEN, memory=reconciling.Memory())
    assert stage.lines(engine.decide(first)) == []
    assert stage.lines(engine.decide(engine.attended(first))) == ["form/new"]
