"""The health policy: what a file may say, where it comes from, and how a fault in it is told."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests import builders
from tpuctl.cli import config_file, health_policy, main
from tpuctl.model import codec, health, states

CONFIGS = pathlib.Path(main.__file__).parents[2] / "configs"
HEAD = "apiVersion: tpuctl/v1\nkind: HealthPolicy\n"


def test_the_file_in_configs_is_the_built_in_policy():
    assert health_policy.read(CONFIGS / "policies/health.yaml") == health.DEFAULT_POLICY


def test_every_key(tpuctl):
    path = tpuctl.write(
        "p.yaml",
        HEAD
        + "settleAfterBoot: 90s\nnotReadyGrace: 5m\ndegradedTolerance: 1h\nmaintenanceLead: 3d\n"
        + "latchedAfter: 12h\nfailOn: unhealthy\n"
        + "conditions:\n  Mine: unhealthy\n  DiskPressure: ignored\n  KernelDeadlock: degraded\n",
    )
    found = health_policy.read(path)
    times = (found.settle_s, found.not_ready_grace_s, found.degraded_tolerance_s, found.maintenance_lead_s)
    assert times == (90.0, 300.0, 3600.0, 3 * 86_400.0)
    assert (found.latched_after_s, found.fail_on) == (43_200.0, health.FailOn.UNHEALTHY)
    meanings = dict(found.conditions)
    assert meanings["Mine"] is states.Verdict.UNHEALTHY
    assert meanings["KernelDeadlock"] is states.Verdict.DEGRADED
    assert "DiskPressure" not in meanings
    assert meanings["ReadonlyFilesystem"] is states.Verdict.UNHEALTHY


def test_what_is_not_said_is_built_in(tpuctl):
    path = tpuctl.write("p.yaml", HEAD + "notReadyGrace: 0\nconditions:\n")
    assert health_policy.read(path) == health.HealthPolicy(not_ready_grace_s=0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("settleAfterBot: 1m\n", ":3: unknown key 'settleAfterBot'"),
        ("settleAfterBoot: soon\n", ":3: settleAfterBoot: expected a span of time"),
        ("settleAfterBoot: -1m\n", ":3: settleAfterBoot: expected a span of time"),
        ("settleAfterBoot: yes\n", ":3: settleAfterBoot: expected a span of time"),
        ("settleAfterBoot: [1m]\n", ":3: settleAfterBoot: expected a span of time"),
        ("failOn: 1m\nfailOn: degraded\n", ":3: failOn: expected one of degraded, unhealthy"),
        ("failOn: degraded\nfailOn: degraded\n", ":4: key 'failOn' is here twice"),
        ("conditions:\n  Mine: bad\n", ":4: conditions.Mine: expected one of unhealthy, degraded, ignored"),
        ("conditions: [Mine]\n", ":3: expected keys under 'conditions'"),
        ("{\n", ":4: this is not YAML"),
    ],
)
def test_faults_name_the_line(tpuctl, text, said):
    path = tpuctl.write("p.yaml", HEAD + text)
    with pytest.raises(config_file.ConfigError) as fault:
        health_policy.read(path)
    assert fault.value.message.startswith(f"{path}{said}"), fault.value.message


def test_a_typo_is_answered_with_the_key_meant(tpuctl):
    path = tpuctl.write("p.yaml", HEAD + "settleAfterBot: 1m\n")
    with pytest.raises(config_file.ConfigError) as fault:
        health_policy.read(path)
    assert fault.value.hint == "did you mean 'settleAfterBoot'?"


@pytest.mark.parametrize("text", ["", "kind: HealthPolicy\n", "apiVersion: tpuctl/v1\n"])
def test_another_kind_of_file_is_refused(tpuctl, text):
    with pytest.raises(config_file.ConfigError, match="this is no health policy"):
        health_policy.read(tpuctl.write("p.yaml", text))


def dump(program):
    """A fleet whose only trouble is a host that has not been ready for 30 s."""
    since = builders.NOW.replace(hour=7, minute=59, second=30)
    cube = builders.changed(builders.cube("c1"), 3, ready=False, ready_since=since)
    return str(program.write("fleet.json", json.dumps(codec.dump(builders.fleet_of(cube)))))


STRICT = HEAD + "notReadyGrace: 10s\n"


def verdict_of(program, *options, env=None):
    result = program("cube", "list", "--fleet", dump(program), "--no-headers", *options, env=env)
    assert result.status == 0, result.err
    return result.out.split()[4]


def test_the_context_names_the_policy_relative_to_its_file(prod):
    assert verdict_of(prod) == "unknown"
    prod.write("~/.config/tpuctl/strict.yaml", STRICT)
    config = prod.home / ".config/tpuctl/config.yaml"
    config.write_text(config.read_text() + "    policyFile: strict.yaml\n")
    assert verdict_of(prod) == "unhealthy"
    assert f"{prod.home}/.config/tpuctl/strict.yaml" in prod("context", "show", "-o", "json").out


def test_the_variable_and_the_option_are_stronger(prod):
    prod.write("strict.yaml", STRICT)
    assert verdict_of(prod, env={"TPUCTL_POLICY_FILE": "strict.yaml"}) == "unhealthy"
    mild = str(prod.write("mild.yaml", HEAD))
    env = {"TPUCTL_POLICY_FILE": "strict.yaml"}
    found = prod("health", "check", "--fleet", dump(prod), "--policy", mild, "--no-headers", env=env)
    assert found.status == 11
    assert "unknown" in found.out


def test_a_dump_needs_no_context_and_no_policy(tpuctl):
    assert verdict_of(tpuctl) == "unknown"


def test_a_policy_file_that_is_not_there_is_a_usage_error(tpuctl):
    result = tpuctl("health", "check", "--fleet", dump(tpuctl), "--policy", "nowhere.yaml")
    assert result.status == 64
    assert "nowhere.yaml" in result.err
