"""What the services call a request is passed on with its failure, since support asks for it."""

from __future__ import annotations

import pytest

from tests.cloud import scripted
from tpuctl.cloud import connect, google_errors
from tpuctl.model import errors

STATUS = {"kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}
INFO = {"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": "0x8f7c6b5a"}


def ports_of(server, directory):
    return connect.connect(scripted.context(server.url, directory), clock=scripted.FakeClock())


def test_the_audit_id_of_a_kubernetes_answer(tmp_path):
    """hyperpod-cli#269, #335: everything was shown, then nothing."""
    reply = scripted.Reply(403, STATUS, {"Audit-Id": "5f0c54a1-d2b3\x1b[31m"})
    with (
        scripted.Server(lambda _: reply) as server,
        pytest.raises(errors.NotPermitted) as refused,
    ):
        ports_of(server, tmp_path).slices.listing()
    assert refused.value.details == ("request id: 5f0c54a1-d2b3 [31m",)
    assert "5f0c" not in refused.value.message


def test_the_request_info_of_a_google_answer(tmp_path):
    body = {"error": {"code": 403, "message": "Required permission", "details": [{"@type": "x"}, INFO]}}
    with (
        scripted.Server(lambda _: scripted.Reply(403, body)) as server,
        pytest.raises(errors.NotPermitted) as refused,
    ):
        ports_of(server, tmp_path).pools.list()
    assert refused.value.details == ("request id: 0x8f7c6b5a",)


@pytest.mark.parametrize(
    "document", [None, {}, {"details": None}, {"details": "x"}, {"details": [None, {"requestId": 7}]}]
)
def test_an_answer_without_one(document):
    assert google_errors.request_id(document) == ""


def test_nothing_is_made_up(tmp_path):
    with scripted.Server(lambda _: scripted.Reply(403, STATUS)) as server:
        ports = ports_of(server, tmp_path)
        for call in (ports.slices.listing, ports.pools.list):
            with pytest.raises(errors.NotPermitted) as refused:
                call()
            assert refused.value.details == ()
