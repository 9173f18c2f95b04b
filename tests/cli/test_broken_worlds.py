"""Worlds that lie, refuse or fall silent: one message, the right code, nothing half done, no traceback."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest
from starlette import responses

from tpuctl.cli import rehearsal, wiring
from tpuctl.model import fleet
from tpuctl.sim import simulator

SLICES = "slices.accelerator.gke.io"


@pytest.fixture
def scene():
    """Two cubes ready for use."""
    settings = simulator.Settings(cubes=2, ready_cubes=2, slice_controller=True)
    with rehearsal.rehearse(settings) as made:
        yield made


@contextlib.contextmanager
def answering(scene, match, answer):
    """The Kubernetes API answers requests that `match` with `answer` (a response, or a function for one)."""
    seen = []

    async def interceptor(request, proceed):
        if not match(request):
            return None
        seen.append(request)
        return answer if isinstance(answer, responses.Response) else await answer(request, proceed)

    scene.simulator.call(lambda: scene.simulator.world.kube.intercept.append(interceptor))
    try:
        yield seen
    finally:
        scene.simulator.call(lambda: scene.simulator.world.kube.intercept.remove(interceptor))


def status_body(code, reason):
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason}
    return responses.JSONResponse({**body, "code": code}, status_code=code)


def is_list(plural):
    return lambda request: request.method == "GET" and request.url.path.endswith(f"/{plural}")


def check(result, status, *texts):
    assert result.status == status, result.err
    assert result.err.count("error:") == 1
    assert "Traceback" not in result.err
    for text in texts:
        assert text in result.err


COMMANDS = [
    ("slice", "list"),
    ("cube", "list"),
    ("slice", "form", "s", "--topology", "4x4x4"),
    ("fleet", "status"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_no_leave_is_never_an_empty_list(tpuctl, scene, command, code, reason):
    with answering(scene, is_list("slices"), status_body(code, reason)):
        result = tpuctl(*command)
    check(result, 4)
    assert result.out == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_slice_resource_the_way_to_get_it_is_named(tpuctl, command):
    with rehearsal.rehearse(simulator.Settings(cubes=1, ready_cubes=1, slice_controller=False)):
        result = tpuctl(*command)
    check(result, 5, "gcloud container clusters update sim", "--enable-slice-controller")


def test_a_list_that_expires_in_the_middle_again_and_again_is_no_list(tpuctl, scene):
    def second_page(request):
        return is_list("nodes")(request) and "continue" in request.query_params

    with answering(scene, is_list("nodes"), smaller_pages()):
        assert len(json.loads(tpuctl("cube", "list", "-o", "json").out)["items"]) == 2
    with (
        answering(scene, second_page, status_body(410, "Expired")) as seen,
        answering(scene, is_list("nodes"), smaller_pages()),
    ):
        result = tpuctl("cube", "list")
    check(result, 1, "expired")
    assert result.out == ""
    assert len(seen) > 1


def smaller_pages():
    """Make the server hand out pages of 10, so that two cubes need several."""

    async def answer(request, proceed):
        if request.query_params.get("limit") != "10":
            query = {**request.query_params, "limit": "10"}
            request.scope["query_string"] = "&".join(f"{k}={v}" for k, v in query.items()).encode()
            del request._query_params
        return await proceed()

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        responses.Response('{"items": [', media_type="application/json"),
        responses.Response("<html>login</html>", media_type="text/html"),
        responses.JSONResponse([]),
        responses.JSONResponse({"kind": "SliceList", "metadata": {}}),
        responses.JSONResponse({"kind": "Status", "status": "Failure", "code": 500, "message": "inside"}),
    ],
    ids=["cut", "html", "list", "no items", "error under 200"],
)
def test_nonsense_is_an_error_and_not_an_empty_fleet(tpuctl, scene, answer):
    with answering(scene, is_list("slices"), answer):
        result = tpuctl("slice", "list")
    check(result, 1)
    assert result.out == ""


@pytest.mark.parametrize("code", [500, 503])
def test_a_server_in_trouble_is_asked_again_and_then_given_up(tpuctl, scene, code):
    with answering(scene, is_list("slices"), status_body(code, "InternalError")) as seen:
        result = tpuctl("slice", "list")
    check(result, 1)
    assert len(seen) > 1


def test_a_server_that_is_down(tpuctl, scene):
    dead = dataclasses.replace(
        scene.context, kubeconfig=None, kubeconfig_context=None, endpoint_kubernetes="http://127.0.0.1:1"
    )
    with wiring.using(wiring.connect(dead, rehearsal.DrivenClock(scene.simulator)), dead):
        result = tpuctl("slice", "list")
    check(result, 1, "127.0.0.1:1")


def test_a_create_whose_answer_is_lost_is_not_made_twice(tpuctl, scene):
    async def commit_and_break(request, proceed):
        await proceed()
        return status_body(504, "Timeout")

    def is_create(request):
        return request.method == "POST" and request.url.path.endswith("/slices")

    with answering(scene, is_create, commit_and_break) as seen:
        result = tpuctl("slice", "form", "s", "--topology", "4x4x4")
    assert result.status == 0, result.err
    assert len(seen) == 1
    assert tpuctl("slice", "list", "-o", "name").out == "slice/s\n"


def test_a_tpu_node_without_labels_is_told_and_everything_else_works(tpuctl, scene):
    store = scene.simulator.world.store
    name = scene.simulator.call(lambda: store.list("nodes")[0]["metadata"]["name"])

    def strip(node):
        node["metadata"]["labels"] = {"kubernetes.io/hostname": name}

    scene.simulator.call(lambda: store.mutate("nodes", None, name, strip))
    result = tpuctl("cube", "list", "-o", "json")
    assert result.status == 0
    assert f"node {name} belongs to no cube" in result.err
    verdicts = sorted(cube["verdict"] for cube in json.loads(result.out)["items"])
    assert verdicts == ["healthy", "incomplete"]


@pytest.mark.parametrize("word", ["WARPED", "healthy", ""])
def test_a_state_word_of_tomorrow_is_unknown_and_not_usable(tpuctl, scene, word):
    store = scene.simulator.world.store
    label = "cloud.google.com/gke-tpu-partition-4x4x4-state"

    def rename(node):
        node["metadata"]["labels"][label] = word

    def rename_all():
        for node in store.list("nodes"):
            store.mutate("nodes", None, node["metadata"]["name"], rename)

    scene.simulator.call(rename_all)
    cubes = json.loads(tpuctl("cube", "list", "-o", "json").out)["items"]
    assert {cube["verdict"] for cube in cubes} == {"unknown"}
    check(tpuctl("slice", "form", "s", "--topology", "4x4x4"), 8, "2 state unknown")


def test_a_slice_state_of_tomorrow_is_shown_as_it_is_and_not_ready(tpuctl, scene):
    tpuctl("slice", "form", "s", "--topology", "4x4x4")
    store = scene.simulator.world.store

    def rename(item):
        for condition in item["status"]["conditions"]:
            condition.update(reason="QUANTUM", status="False")

    scene.simulator.call(lambda: store.mutate(SLICES, None, "s", rename))
    [item] = json.loads(tpuctl("slice", "list", "-o", "json").out)["items"]
    assert (item["state"], item["reason"]) == ("UNKNOWN", "QUANTUM")
    check(tpuctl("slice", "wait", "s", "--timeout", "5s"), 10, "QUANTUM")


def test_no_secret_is_ever_shown(tpuctl, scene):
    with answering(scene, is_list("slices"), status_body(500, "InternalError")):
        result = tpuctl("slice", "list", "--debug", "-vv")
    assert scene.simulator.token not in result.out + result.err
    dumped = tpuctl("fleet", "dump")
    assert scene.simulator.token not in dumped.out
    assert fleet.SourceName.SLICES in dumped.out
