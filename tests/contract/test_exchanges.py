"""Runs the scenarios of the YAML files beside this one."""

import pytest

from tests.contract import conftest, exchanges

ALL = list(exchanges.scenarios())


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            scenario,
            id=f"{name}: {scenario['title']}",
            marks=pytest.mark.skipif(
                bool(conftest.KUBECONFIG) and scenario.get("sim_only", False), reason="needs the simulator"
            ),
        )
        for name, scenario in ALL
    ],
)
def test_scenario(cluster, scenario):
    runner = exchanges.Runner(cluster)
    try:
        runner.run(scenario["steps"])
    finally:
        for path in scenario.get("cleanup", ()):
            url = f"{cluster.url}{path}"
            cluster.session.delete(url, headers=cluster.headers("admin"), timeout=exchanges.TIMEOUT_S)


def test_titles_are_unique():
    titles = [(name, scenario["title"]) for name, scenario in ALL]
    assert len(titles) == len(set(titles))
