"""How much a failure tells: one line, what to do, what support asks for; all with --debug; never a secret."""

from __future__ import annotations

import json

import pytest
from starlette import responses

from tests.cli import test_broken_worlds as worlds
from tpuctl.sim import api_faults

scene = worlds.scene
SECRET = "eyJhbGciOi.eyJzdWIi.c2ln"


def refusal(code, reason, message):
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return responses.JSONResponse(
        {**body, "code": code}, status_code=code, headers={"Audit-Id": "4f1c-audit", "X-Secret": SECRET}
    )


def test_one_line_the_next_step_and_what_support_asks_for(tpuctl, scene):
    """hyperpod-cli#269, #335: raw dumps for a failed sign-in; then no detail at all."""
    answer = refusal(401, "Unauthorized", f"Unauthorized: Bearer {SECRET} has expired")
    with worlds.answering(scene, worlds.is_list("slices"), answer):
        plain = tpuctl("slice", "list")
        debug = tpuctl("slice", "list", "--debug")
        document = json.loads(tpuctl("slice", "list", "-o", "json").out)
    assert (plain.status, plain.out) == (4, "")
    error, request, hint = plain.err.splitlines()
    assert error.startswith("error: cannot list slices: Unauthorized")
    assert request == "  request id: 4f1c-audit"
    assert hint.startswith("hint: check the credentials of the kubeconfig")
    assert "Traceback (most recent call last):" in debug.err
    assert debug.err.endswith(plain.err)
    assert debug.out == ""
    assert (document["kind"], document["details"]) == ("Error", ["request id: 4f1c-audit"])
    assert SECRET not in plain.err + debug.err + json.dumps(document)


def test_what_the_api_said_last_is_what_the_user_reads(tpuctl, scene):
    """tenacity#24, #544: RetryError hid the cause."""
    answer = refusal(503, "ServiceUnavailable", "etcd has no leader")
    with worlds.answering(scene, worlds.is_list("slices"), answer) as seen:
        plain = tpuctl("slice", "list")
        debug = tpuctl("slice", "list", "--debug")
    assert len(seen) > 2
    assert plain.status == 1
    assert "etcd has no leader (HTTP 503)" in plain.err
    assert "Retry" not in plain.err
    assert "RetryError" not in debug.err


READS = {
    "kubernetes": ("slice", "list"),
    "container": ("nodepool", "list"),
    "compute": ("health", "check", "--no-headers"),
}


@pytest.mark.parametrize("api", READS)
def test_every_api_is_given_up_with_its_own_words(tpuctl, scene, api):
    with api_faults.injected(scene.simulator, api_faults.Error(503), api=api) as fault:
        given_up = tpuctl(*READS[api])
    assert fault.hits > 2
    assert given_up.status == 1
    assert given_up.err.count("error:") == 1
    assert "503" in given_up.err
