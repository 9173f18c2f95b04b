"""Names in the declared state that fit no hardware are told: nothing would be done about them, silently."""

import dataclasses

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared


def told(name: str) -> list[tuple[str, str]]:
    blocks = (declared.BlockSpec(name=name),)
    spec = stage.spec(stage.want("train", "4x4x4"), blocks=blocks)
    cube = builders.cube("c1")
    snapshot = builders.fleet_of(cube)
    [block] = snapshot.blocks
    snapshot = snapshot.with_blocks((dataclasses.replace(block, name="one", reservation="p/r/res"),))
    seen = stage.view(snapshot, spec)
    return [(item.subject, item.text) for item in engine.decide(seen).memory.recommendations]


def test_a_block_that_the_reservation_does_not_have_is_told_with_those_it_has():
    [(subject, text)] = told("b2")
    assert subject == "block/b2"
    assert text == "reservation res has no such block (it has one): see the name in the fleet file"


@pytest.mark.parametrize("name", ["one", "b1"])
def test_name_and_id_both_will_do(name):
    assert told(name) == []
