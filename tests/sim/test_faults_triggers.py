"""Which calls a fault hits: by API, verb, resource and path, by number, by chance, by turns."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest

from tests.sim.fault_clients import CLUSTER, CONFIGMAPS, NODES, POLICIES, ask, config_map, names
from tpuctl.sim import api_faults, simulator

if TYPE_CHECKING:
    from collections.abc import Iterator

POOLS = f"{CLUSTER}/nodePools"
ZONE = "/compute/v1/projects/sim-project/zones/us-central1-a"


@pytest.fixture(scope="module")
def sim() -> Iterator[simulator.Simulator]:
    with simulator.Simulator(simulator.Settings(cubes=1, ready_cubes=1, slice_controller=True)) as running:
        yield running


def codes(sim, count, path=NODES):
    return [ask(sim, "GET", path).status for _ in range(count)]


CALLS = [
    ("GET", NODES, {"api": "kubernetes", "verb": "list", "resource": "nodes"}),
    ("GET", f"{NODES}/x", {"api": "kubernetes", "verb": "get", "resource": "nodes"}),
    ("GET", f"{NODES}?watch=1", {"api": "kubernetes", "verb": "watch", "resource": "nodes"}),
    ("POST", CONFIGMAPS, {"api": "kubernetes", "verb": "create", "resource": "configmaps"}),
    ("PUT", f"{CONFIGMAPS}/x", {"verb": "update", "resource": "configmaps"}),
    ("PATCH", f"{NODES}/x", {"verb": "patch", "resource": "nodes"}),
    ("DELETE", f"{CONFIGMAPS}/x", {"verb": "delete", "resource": "configmaps"}),
    ("DELETE", CONFIGMAPS, {"verb": "deletecollection", "resource": "configmaps"}),
    ("POST", "/api/v1/namespaces/default/pods/p/binding", {"verb": "create", "resource": "pods/binding"}),
    ("GET", "/apis/accelerator.gke.io/v1beta1/slices", {"verb": "list", "resource": "slices"}),
    ("GET", "/version", {"api": "kubernetes", "path": "^/version$"}),
    ("GET", CLUSTER, {"api": "container", "verb": "get", "resource": "clusters"}),
    ("PUT", CLUSTER, {"api": "container", "verb": "update", "resource": "clusters"}),
    ("GET", POOLS, {"api": "container", "verb": "list", "resource": "nodepools"}),
    ("POST", POOLS, {"api": "container", "verb": "create", "resource": "nodePools"}),
    ("POST", f"{POOLS}/p:setSize", {"api": "container", "verb": "setSize", "resource": "nodePools"}),
    ("DELETE", f"{POOLS}/p", {"api": "container", "verb": "delete", "resource": "nodePools"}),
    (
        "GET",
        "/v1/projects/sim-project/locations/us-central1/operations/o",
        {"api": "container", "verb": "get", "resource": "operations"},
    ),
    ("GET", POLICIES, {"api": "compute", "verb": "list", "resource": "resourcePolicies"}),
    ("POST", POLICIES, {"api": "compute", "verb": "create", "method": "POST"}),
    (
        "GET",
        f"{ZONE}/reservations/r/reservationBlocks/b/reservationSubBlocks",
        {"api": "compute", "verb": "list", "resource": "reservationSubBlocks"},
    ),
    ("POST", f"{ZONE}/instances/i/reset", {"api": "compute", "verb": "reset", "resource": "instances"}),
    (
        "POST",
        f"{ZONE}/instances/i/reportHostAsFaulty",
        {"verb": "reportHostAsFaulty", "resource": "instances"},
    ),
    ("POST", f"{ZONE}/operations/o/wait", {"api": "compute", "verb": "wait", "resource": "operations"}),
]


@pytest.mark.parametrize(("method", "path", "selection"), CALLS)
def test_calls_are_selected_by_what_they_ask(sim, method, path, selection):
    with api_faults.injected(sim, api_faults.Error(503), **selection) as fault:
        assert ask(sim, method, path, {} if method in {"POST", "PUT", "PATCH"} else None).status == 503
        assert ask(sim, "GET", "/healthz").status == 200
    assert (fault.calls, fault.hits) == (1, 1)


def test_each_call_of_the_table_is_selected_by_nothing_else(sim):
    """No two entries select each other's calls, but where one says less."""
    for method, path, selection in CALLS:
        others = [one for other, at, one in CALLS if (other, at) != (method, path) and len(one) == 3]
        with contextlib.ExitStack() as stack:
            faults = [
                stack.enter_context(api_faults.injected(sim, api_faults.Observe(), **one)) for one in others
            ]
            own = stack.enter_context(api_faults.injected(sim, api_faults.Error(503), **selection))
            assert ask(sim, method, path, {} if method in {"POST", "PUT", "PATCH"} else None).status == 503
            assert own.hits == 1
            assert [fault.calls for fault in faults] == [0] * len(faults)


def test_at_a_chosen_call_and_so_often(sim):
    with api_faults.injected(sim, api_faults.Error(503), call=3):
        assert codes(sim, 5) == [200, 200, 503, 200, 200]
    with api_faults.injected(sim, api_faults.Error(503), call=2, times=2) as fault:
        assert codes(sim, 5) == [200, 503, 503, 200, 200]
        assert fault.spent
    with api_faults.injected(sim, api_faults.Error(503), times=1):
        assert codes(sim, 3) == [503, 200, 200]
    with api_faults.injected(sim, api_faults.Error(503)):
        assert codes(sim, 3) == [503] * 3
    assert codes(sim, 1) == [200]


def test_by_chance_with_a_seed(sim):
    def run(seed, **more):
        with api_faults.injected(sim, api_faults.Error(503), path=NODES, probability=0.3, seed=seed, **more):
            return codes(sim, 40)

    first = run(1)
    assert run(1) == first
    assert run(2) != first
    assert 2 <= first.count(503) <= 25
    assert run(1, times=2).count(503) == 2


def test_at_every_call_in_turn(sim):
    def scenario():
        """Three calls, one of which is no creation."""
        found = [ask(sim, "POST", CONFIGMAPS, config_map(name)).status for name in "ab"]
        found.append(ask(sim, "GET", CONFIGMAPS).status)
        for name in names(sim):
            sim.call(lambda name=name: sim.world.store.delete("configmaps", "default", name))
        return found

    runs = []
    for fault in api_faults.each_call(sim, api_faults.Error(500), api="kubernetes"):
        runs.append(scenario())
        assert fault.calls == 3
    assert runs == [[500, 201, 200], [201, 500, 200], [201, 201, 500], [201, 201, 200]]


def test_next_call_by_hand(sim):
    with api_faults.injected(sim, api_faults.Error(503), call=1) as fault:
        for turn in itertools.count():
            found = codes(sim, 3)
            assert found.count(503) == fault.hits
            if not fault.hits:
                break
            assert found.index(503) == turn
            sim.call(fault.next_call)
    assert turn == 3


def test_faults_are_nested_in_the_order_they_came(sim):
    with (
        api_faults.injected(sim, api_faults.ClockSkew(60)) as skew,
        api_faults.injected(sim, api_faults.Error(503), call=2) as error,
        api_faults.injected(sim, api_faults.Observe()) as behind,
    ):
        assert codes(sim, 3) == [200, 503, 200]
    # What an error keeps from the work is not seen by the faults behind it.
    assert (skew.hits, error.calls, behind.calls) == (3, 3, 2)


def test_the_simulators_own_api_is_never_hit(sim):
    with api_faults.injected(sim, api_faults.Error(503)):
        assert ask(sim, "GET", "/sim/v1/status").status == 200


@pytest.mark.parametrize(
    ("effect", "options", "text"),
    [
        (api_faults.Error(503), {"api": "kube"}, "unknown API 'kube'"),
        (api_faults.Error(503), {"verb": "lst"}, "unknown verb 'lst'"),
        (api_faults.Error(503), {"api": "container", "verb": "watch"}, "unknown verb 'watch'"),
        (api_faults.Error(503), {"method": "get"}, "unknown method 'get'"),
        (api_faults.Error(503), {"path": "("}, "no regular expression"),
        (api_faults.Error(503), {"page": 0}, "from 1"),
        (api_faults.Error(503), {"page": 1, "verb": "get"}, "lists only"),
        (api_faults.Error(503), {"call": 0}, "from 1"),
        (api_faults.Error(503), {"times": 0}, "at least 1"),
        (api_faults.Error(503), {"probability": 0}, "above 0"),
        (api_faults.Error(503), {"probability": 1.5}, "at most 1"),
        (api_faults.Expired(), {"api": "compute"}, "for kubernetes only"),
        (api_faults.SilentWatch(), {"verb": "list"}, "for watch only"),
    ],
)
def test_selections_that_make_no_sense_are_refused(sim, effect, options, text):
    with pytest.raises(ValueError, match=text), api_faults.injected(sim, effect, **options):
        pytest.fail("it was accepted")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: api_faults.Error(418), "code must be one of"),
        (lambda: api_faults.Error(503, when="during"), "when must be one of"),
        (lambda: api_faults.Timeout(hold_s=1e9), "hold_s must be"),
        (lambda: api_faults.Slow(-1), "delay_s must be"),
        (lambda: api_faults.Truncated("twice"), "how must be"),
        (lambda: api_faults.Expired("letter"), "form must be"),
        (lambda: api_faults.SilentWatch(-1), "events"),
    ],
)
def test_effects_that_make_no_sense_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
