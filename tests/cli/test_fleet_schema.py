"""The examples of declared fleets, and the JSON schema that is shipped for editors."""

from __future__ import annotations

import json
import pathlib
import re

import jsonschema
import pytest
import yaml

from tests.fleet_faults import FAULTS
from tests.fleet_files import EVERYTHING, HEAD
from tpuctl.cli import fleet_spec, main, rehearsal
from tpuctl.cli.fleet_spec import document, form
from tpuctl.model import declared, fleet, topology
from tpuctl.ops import capacity
from tpuctl.sim import simulator

CONFIGS = pathlib.Path(main.__file__).parents[2] / "configs"
EXAMPLES = sorted((CONFIGS / "fleets").glob("*.yaml"))
SCHEMA = CONFIGS / "schemas/fleet.schema.json"


def schema_faults(text: str) -> list[str]:
    checker = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    return [fault.message for fault in checker.iter_errors(yaml.load(text, document._Loader))]


def test_the_shipped_schema_is_the_generated_one():
    assert json.loads(SCHEMA.read_text()) == fleet_spec.schema(), "tpuctl reconcile schema > the file"
    jsonschema.Draft202012Validator.check_schema(fleet_spec.schema())


def test_the_schema_names_every_event_and_shape():
    events = {field.alias for field in form.Hooks.model_fields.values()}
    assert events == {str(event) for event in declared.HookEvent}
    for shape in (*topology.SUB_SLICE_SHAPES, *topology.cube_shapes()):
        assert schema_faults(HEAD + f"slices: [{{name: a, topology: {shape}}}]\n") == []


def test_the_schema_takes_what_we_take():
    assert schema_faults(EVERYTHING) == []
    assert schema_faults(HEAD + "slices:\nwindows:\nhooks:\n") == []


NOT_IN_THE_SCHEMA = re.compile(
    # Duplicate keys never reach it; the rest is what values are to each other, or an exact number.
    "here twice|must be a text|cannot be read|means nothing|holds itself|has 50|nearest legal shapes: 4x4x8"
    "|exactly 100|not fewer|wanted twice|there is no|teams are|only a gang|one slice only|must say the same"
    "|gang of its own$|can never|never more|never suffice|more than cubes|expected from|percent: expected a"
    "|together with autoUpgrade"
)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + text
        for text, _, said in FAULTS
        # To a schema 1.0 is a whole number.
        if not NOT_IN_THE_SCHEMA.search(said) and "1.0" not in text
    ],
)
def test_the_schema_refuses_broken_files(text):
    assert schema_faults(text) != []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_right_and_point_to_the_schema(path):
    text = path.read_text()
    assert schema_faults(text) == []
    first = text.partition("\n")[0]
    relative = re.fullmatch(r"# yaml-language-server: \$schema=(.+)", first)[1]
    assert (path.parent / relative).resolve() == SCHEMA.resolve()
    assert fleet_spec.read(path).spec.name == path.stem


def test_what_the_large_example_calls_defaults_are_the_defaults(tpuctl):
    """Every commented key may be put in and changes nothing, apart from those that are the user's own."""
    path = CONFIGS / "fleets/block.yaml"
    lines, own = [], ("context", "policy", "autoUpgrade", "block", "cubes")
    for line in path.read_text().splitlines():
        found = re.fullmatch(r"( *)# ([a-z]\w+): (\S+)", line)
        lines.append(f"{found[1]}{found[2]}: {found[3]}" if found and found[2] not in own else line)
    said = {line.split(":")[0].strip() for line in lines} - {""}
    assert {"namePrefix", "maxSurge", "errorGrace", "onDeletion", "adoptForeign", "expiry"} <= said
    filled = fleet_spec.read(tpuctl.write("fleet.yaml", "\n".join(lines)))
    assert filled.digest == fleet_spec.read(path).digest


def test_hooks_of_the_large_example_can_be_put_in(tpuctl):
    text = (CONFIGS / "fleets/block.yaml").read_text()
    before, after = text.split("# hooks:\n")
    hooks = "hooks:\n" + "".join(f"{line.removeprefix('# ')}\n" for line in after.splitlines())
    found = fleet_spec.read(tpuctl.write("fleet.yaml", before + hooks))
    assert [hook.event for hook in found.spec.hooks] == [*declared.HookEvent]


def test_the_large_example_is_a_full_block():
    spec = fleet_spec.read(CONFIGS / "fleets/block.yaml").spec
    chips = sum(item.shapes[0].chips * item.count for item in spec.slices)
    assert max(item.shapes[0].chips for item in spec.slices) == 4096
    assert sum(item.count for item in spec.slices if item.shapes[0].is_sub_slice) >= 4
    assert spec.blocks[0].spares == 2
    assert chips == 138 * 64, "as its comment says"


@pytest.mark.parametrize(("name", "cubes"), [("small", 12), ("block", 144)])
def test_an_example_fits_the_simulator(name, cubes):
    """All slices as wanted, beside the spares, on blocks that are called as the file says."""
    spec = fleet_spec.read(CONFIGS / f"fleets/{name}.yaml").spec
    world = simulator.Settings(cubes=cubes, ready_cubes=cubes, slice_controller=True)
    with rehearsal.rehearse(world) as scene:
        there = {(block.reservation, block.name) for block in scene.ports.capacity.blocks()}
        snapshot = scene.ports.fleet.observe(tuple(fleet.SourceName))
    assert {(item.name, block.name) for item in spec.reservations for block in item.blocks} <= there
    wishes = [
        capacity.Wish(
            name=item.name,
            shapes=item.shapes,
            count=item.count,
            gang=item.gang,
            same_block=item.same_block,
            priority=item.priority,
            block=item.block or None,
        )
        for item in spec.slices
    ]
    spares = capacity.packing.Settings(spares=spec.blocks[0].spares, spares_below=spec.spares_below)
    plan = capacity.pack(snapshot, wishes, spares)
    assert plan.left == ()
    wanted = {name: item.shapes[0] for item in spec.slices for name in item.slice_names}
    assert {grant.slice_name: grant.topology for grant in plan.grants} == wanted
