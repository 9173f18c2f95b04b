"""The API beyond single exchanges: hooks, faults, limits, versions, watches that come and go."""

import json
import time

import pytest
from starlette import responses

from tests.contract import api_servers
from tpuctl.sim.kube import auth, errors

NODES = "/api/v1/nodes"
SLICES = "/apis/accelerator.gke.io/v1beta1/slices"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {"type": "tpu7x", "topology": "4x4x4", "partitionIds": ["one"]}


@pytest.fixture
def sim():
    place = api_servers.Simulated().start()
    yield place
    place.stop()


def send(sim, method, path, body=None, *, user="admin", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body)
    kind = {"Content-Type": "application/json"} if data else {}
    return sim.session.request(
        method, sim.url + path, data=data, headers={**sim.headers(user), **kind, **named}, timeout=20
    )


def a_slice(name, version="v1beta1"):
    return {
        "apiVersion": f"accelerator.gke.io/{version}",
        "kind": "Slice",
        "metadata": {"name": name},
        "spec": SPEC,
    }


# Admission


def test_a_hook_sees_every_write_and_can_refuse_it(sim):
    seen = []

    def hook(request):
        seen.append(
            (request.operation, request.resource.key, request.name, request.subresource, request.dry_run)
        )
        if request.new is not None and request.new["metadata"].get("labels"):
            raise errors.denied("slices.test", "no labels here")

    sim.api.admit.append(hook)
    assert send(sim, "POST", SLICES, a_slice("a")).status_code == 201
    refused = send(
        sim,
        "PATCH",
        f"{SLICES}/a",
        {"metadata": {"labels": {"x": "y"}}},
        Content_Type="application/merge-patch+json",
    )
    assert refused.status_code == 403
    assert refused.json()["reason"] == "Forbidden"
    assert refused.json()["message"] == 'admission webhook "slices.test" denied the request: no labels here'
    assert "labels" not in send(sim, "GET", f"{SLICES}/a").json()["metadata"]
    assert send(sim, "DELETE", f"{SLICES}/a?dryRun=All").status_code == 200
    assert send(sim, "DELETE", f"{SLICES}/a").status_code == 200
    assert seen == [
        ("CREATE", "slices.accelerator.gke.io", "a", "", False),
        ("UPDATE", "slices.accelerator.gke.io", "a", "", False),
        ("DELETE", "slices.accelerator.gke.io", "a", "", True),
        ("DELETE", "slices.accelerator.gke.io", "a", "", False),
    ]


def test_a_hook_can_complete_an_object_and_knows_who_asks(sim):
    def hook(request):
        request.new["metadata"]["annotations"] = {"by": request.user.user}

    sim.api.admit.append(hook)
    created = send(sim, "POST", NODES, {"metadata": {"name": "n"}}).json()
    assert created["metadata"]["annotations"] == {"by": "admin"}


# Faults


def test_an_interceptor_can_answer_or_stand_aside(sim):
    async def slow_down(request, _proceed):
        if request.method == "POST":
            return responses.JSONResponse({"kind": "Status"}, 429, {"Retry-After": "7"})
        return None

    sim.api.intercept.append(slow_down)
    refused = send(sim, "POST", NODES, {"metadata": {"name": "n"}})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "7")
    assert send(sim, "GET", f"{NODES}/n").status_code == 404


def test_an_interceptor_can_lose_the_answer_of_a_write_that_was_done(sim):
    async def lose(request, proceed):
        if request.method != "POST":
            return None
        await proceed()
        return responses.PlainTextResponse("gateway timeout", 504)

    sim.api.intercept.append(lose)
    assert send(sim, "POST", NODES, {"metadata": {"name": "n"}}).status_code == 504
    assert send(sim, "GET", f"{NODES}/n").status_code == 200


# Limits and refusals


def test_a_body_can_be_too_large(sim):
    body = {"metadata": {"name": "big", "namespace": "default"}, "data": {"x": "y" * 3 * 1024 * 1024}}
    answer = send(sim, "POST", "/api/v1/namespaces/default/configmaps", body)
    assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


def test_what_is_not_implemented_says_so(sim):
    answer = send(sim, "GET", NODES, Impersonate_User="someone", Impersonate_Uid="1")
    assert (answer.status_code, answer.json()["reason"]) == (501, "NotImplemented")


def test_a_token_can_be_taken_back(sim):
    identities = auth.Auth({"one": auth.admin()})
    assert identities.identify("Bearer one").user == "admin"
    del identities.tokens["one"]
    with pytest.raises(errors.ApiError) as caught:
        identities.identify("Bearer one")
    assert caught.value.code == 401


# Versions of a type


def test_an_object_is_answered_in_the_version_asked_for(sim):
    definition = sim.store.get(
        "customresourcedefinitions.apiextensions.k8s.io", None, "slices.accelerator.gke.io"
    )
    older = {**definition["spec"]["versions"][0], "name": "v1alpha1", "storage": False}
    patched = send(
        sim,
        "PATCH",
        f"{CRDS}/slices.accelerator.gke.io",
        [{"op": "add", "path": "/spec/versions/-", "value": older}],
        Content_Type="application/json-patch+json",
    )
    assert patched.status_code == 200
    assert send(sim, "POST", SLICES, a_slice("a")).status_code == 201
    old = "/apis/accelerator.gke.io/v1alpha1/slices"
    assert send(sim, "GET", f"{old}/a").json()["apiVersion"] == "accelerator.gke.io/v1alpha1"
    assert send(sim, "GET", old).json()["items"][0]["apiVersion"] == "accelerator.gke.io/v1alpha1"
    merged = send(
        sim,
        "PATCH",
        f"{old}/a",
        {"metadata": {"labels": {"x": "y"}}},
        Content_Type="application/merge-patch+json",
    )
    assert merged.json()["apiVersion"] == "accelerator.gke.io/v1alpha1"
    assert send(sim, "GET", f"{SLICES}/a").json()["apiVersion"] == "accelerator.gke.io/v1beta1"


# Watches


def watch(sim, path):
    return sim.session.get(sim.url + path, headers=sim.headers("admin"), stream=True, timeout=20)


def wait_until(sim, watches):
    """The server notices a client that left by itself, a moment later."""
    end = time.monotonic() + 10
    while sim.call(lambda: sim.api.watches.count) != watches:
        assert time.monotonic() < end


def test_a_watch_that_the_client_leaves_is_forgotten(sim):
    stream = watch(sim, f"{NODES}?watch=1")
    wait_until(sim, 1)
    stream.close()
    wait_until(sim, 0)


def test_closing_ends_every_watch(sim):
    with watch(sim, f"{NODES}?watch=1") as stream:
        wait_until(sim, 1)
        sim.call(sim.api.watches.close)
        assert list(stream.iter_lines()) == []


def test_writes_of_controllers_reach_watches_and_lists(sim):
    def add(name):
        sim.call(
            lambda: sim.store.create(
                "nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}
            )
        )

    add("before")
    with watch(sim, f"{NODES}?watch=1") as stream:
        lines = stream.iter_lines()
        assert json.loads(next(lines))["object"]["metadata"]["name"] == "before"
        add("after")
        assert json.loads(next(lines))["object"]["metadata"]["name"] == "after"
    items = send(sim, "GET", NODES).json()["items"]
    assert [sorted(item) for item in items] == [["metadata"], ["metadata"]]


def test_a_list_can_be_yaml(sim):
    send(sim, "POST", NODES, {"metadata": {"name": "n"}})
    answer = send(sim, "GET", NODES, Accept="application/yaml")
    assert answer.headers["Content-Type"].startswith("application/yaml")
    assert "kind: NodeList" in answer.text
    assert "name: n" in answer.text
