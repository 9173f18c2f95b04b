"""Faults in a file that declares a fleet: every one is told, with its line and a suggestion."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fleet_faults import FAULTS, HARDWARE
from tests.fleet_files import EVERYTHING, FIRST, HEAD
from tpuctl.cli import config_file, fleet_spec
from tpuctl.cli.fleet_spec import document
from tpuctl.model import codec, declared, exit_status


@pytest.fixture
def told(tpuctl):
    """Reads a text; gives the place and text of each fault without the path, hints behind `;`."""

    def read(text: str) -> list[str]:
        path = tpuctl.write("fleet.yaml", text)
        with pytest.raises(config_file.ConfigError) as fault:
            fleet_spec.read(path)
        error = fault.value
        first = f"{error.message}; {error.hint}" if error.hint and not error.details else error.message
        faults = [first, *error.details]
        assert all(line.startswith(f"{path}:") for line in faults), faults
        return [line.removeprefix(f"{path}:") for line in faults]

    return read


@pytest.mark.parametrize(("text", "line", "said"), FAULTS, ids=[said[:48] for _, _, said in FAULTS])
def test_a_fault_is_told_with_its_line(told, text, line, said):
    faults = told(HEAD + text)
    assert len(faults) == 1, faults
    assert faults[0].startswith(f"{FIRST + line}: "), faults
    assert said in faults[0]


@pytest.mark.parametrize(("old", "new", "line", "said"), HARDWARE)
def test_a_fault_in_the_hardware(told, old, new, line, said):
    faults = [fault for fault in told(HEAD.replace(old, new, 1)) if "unknown key 'title'" not in fault]
    assert len(faults) == 1, faults
    assert faults[0].startswith(f"{line}: {said}")


@pytest.mark.parametrize("rest", ["", "reservations:\n", "reservations: []\n", "reservations: [{name: r}]\n"])
def test_hardware_is_needed(told, rest):
    (fault,) = told(f"apiVersion: tpuctl/v1\nkind: Fleet\nname: f\n{rest}")
    assert re.match(r"[14]: (key '\w+' is missing|reservations: expected)", fault), fault


def test_a_team_without_any_teams(told):
    (fault,) = told(HEAD.replace("teams: {red: 1, blue: 2}\n", "slices: [{name: a, chips: 64, team: red}]\n"))
    assert fault == "11: team: there is no team 'red' under teams; add 'teams: {red: 1}'"


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "- a\n", "kind: Fleet\n", "apiVersion: tpuctl/v2\nkind: Fleet\nx: 1\n"]
)
def test_another_kind_of_file_is_told_as_one(told, text):
    assert told(text) == ["1: this is no fleet: it must say 'apiVersion: tpuctl/v1' and 'kind: Fleet'"]


def test_what_is_no_yaml(told, tpuctl):
    assert told(HEAD + "slices: [\n")[0].startswith(f"{FIRST + 1}: this is not YAML")
    assert told(HEAD + "---\n" + HEAD)[0].startswith(f"{FIRST}: this is not YAML")
    with pytest.raises(config_file.ConfigError, match="cannot be read: No such file"):
        fleet_spec.read(tpuctl.cwd / "missing.yaml")
    with pytest.raises(config_file.ConfigError, match="too deep to be read"):
        fleet_spec.read(tpuctl.write("deep.yaml", "[" * 5000))


def test_all_faults_are_told_in_order_of_their_lines(told):
    faults = told(
        HEAD.replace("name: b2", "nome: b2")
        + "slices:\n- {name: a, topology: 4x4x5, count: none}\n- {nam: b, chips: 1}\nprune: 1\nprune: 2\n"
    )
    assert [fault.partition(": ")[0] for fault in faults] == [
        *("10", "10"),
        *[str(FIRST + 1)] * 2,
        *[str(FIRST + 2)] * 3,
        *(str(FIRST + 3), str(FIRST + 4)),
    ]
    # With several faults each carries its own suggestion.
    assert any(fault.endswith("unknown key 'nam' under 'slices'; did you mean 'name'?") for fault in faults)


def test_several_contradictions_are_told_together(told):
    faults = told(
        HEAD
        + "slices:\n- {name: a, chips: 64, team: no}\n- {name: a, chips: 64, block: no}\n"
        + "breaker: {cubes: 1}\n"
    )
    assert [fault.partition(": ")[0] for fault in faults] == [str(FIRST + line) for line in (1, 2, 2, 3)]


def test_one_fault_has_its_suggestion_as_hint(tpuctl):
    with pytest.raises(config_file.ConfigError) as fault:
        fleet_spec.read(tpuctl.write("fleet.yaml", HEAD + "windws: []\n"))
    assert fault.value.hint == "did you mean 'windows'?"
    assert fault.value.details == ()
    assert fault.value.exit_status is exit_status.ExitStatus.USAGE


YAML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = [
    ("slices",),
    ("slices", 0, "topology"),
    ("slices", 0, "gang"),
    ("slices", 2),
    ("reservations",),
    ("reservations", 0, "blocks", 0, "pools"),
    ("teams",),
    ("windows", 0, "days"),
    ("hooks", "swap-done"),
    ("remediation", "reboot"),
    ("pruneGrace",),
]


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(PLACES), value=YAML_VALUES)
def test_any_value_is_taken_or_refused_with_a_line(tmp_path_factory, place, value):
    values = yaml.load(EVERYTHING, document._Loader)
    inner = values
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    path = tmp_path_factory.mktemp("any") / "fleet.yaml"
    path.write_text(yaml.safe_dump(values))
    try:
        found = fleet_spec.read(path)
    except config_file.ConfigError as error:
        for line in (error.message, *error.details):
            assert re.match(rf"{re.escape(str(path))}:\d+: ", line), line
    else:
        assert codec.decode(codec.encode(found.spec), declared.FleetSpec, "spec") == found.spec
