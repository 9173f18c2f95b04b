"""Alerts and dashboard ask for numbers that the loop exports, by labels and words that it uses."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
import yaml
from prometheus_client import parser

from tests import builders
from tpuctl.cli import metrics
from tpuctl.model import declared, health, reconciling, repairs

FOLDER = pathlib.Path(__file__).parents[2] / "configs" / "kubernetes"
NAME = re.compile(r"\b(tpuctl_\w+)(?:\{([^}]*)\})?")
CONDITION = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
BY = re.compile(r"by \(([^)]*)\)")


@pytest.fixture(scope="module")
def exported():
    """Name -> label -> the words it can have, as Prometheus itself reads them."""
    made = metrics.Metrics(health.DEFAULT_POLICY, lambda: 0.0)
    decision = reconciling.Decision(actions=(), guards=(), memory=reconciling.Memory(), sentence="")
    results = [(kind, "done") for kind in reconciling.ActionKind]
    made.note(
        metrics.Cycle(
            at=builders.NOW,
            seen_s=0.0,
            duration_s=1.0,
            spec=declared.FleetSpec(name="f"),
            snapshot=builders.fleet_of(builders.cube("a")),
            decision=decision,
            results=[*results, (reconciling.ActionKind.FORM, "failed")],
            repairs={str(state): 0 for state in repairs.State},
        )
    )
    found = {}
    for family in parser.text_string_to_metric_families(made.exposition("text/plain")[0].decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, word in sample.labels.items():
                labels.setdefault(label, set()).add(word)
    return found


def alerts():
    document = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


def panels():
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]


def expressions():
    yield from ((rule["alert"], rule["expr"]) for rule in alerts())
    yield from ((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"])


@pytest.mark.parametrize(("where", "expression"), [*expressions()])
def test_what_is_asked_for_is_exported(exported, where, expression):
    asked = NAME.findall(expression)
    assert asked, where
    for name, conditions in asked:
        assert name in exported, (where, name)
        for label, operator, words in CONDITION.findall(conditions):
            for word in words.split("|") if "~" in operator else [words]:
                assert word in exported[name][label], (where, label, word)
    known = {label for name, _ in asked for label in exported[name]}
    for labels in BY.findall(expression):
        assert {label.strip() for label in labels.split(",")} <= known, where
    assert expression.count("(") == expression.count(")")


def test_every_alert_says_what_to_do():
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names) >= 8
    for rule in alerts():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]


def test_panels_do_not_overlap():
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_the_port_and_paths_are_the_same_everywhere():
    pods = yaml.safe_load((FOLDER / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    [container] = pods["containers"]
    [port] = container["ports"]
    assert f"--metrics-addr=0.0.0.0:{port['containerPort']}" in container["args"]
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())["spec"]
    assert monitor["podMetricsEndpoints"][0]["port"] == port["name"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
    assert probes == [{"path": "/healthz", "port": "metrics"}, {"path": "/readyz", "port": "metrics"}]
