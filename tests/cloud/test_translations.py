"""Errors of the libraries that no server on this machine can provoke."""

from __future__ import annotations

import google.auth.exceptions
import pytest
import requests
import urllib3.exceptions
from google.api_core import exceptions as api_exceptions

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import google_errors, kube_errors, retry
from tpuctl.model import errors


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (google.auth.exceptions.DefaultCredentialsError("none found"), errors.NotPermitted, "none found"),
        (google.auth.exceptions.RefreshError("invalid_grant: expired"), errors.NotPermitted, "invalid_grant"),
        (google.auth.exceptions.TransportError("no route"), errors.Unavailable, "sign-in service"),
        (api_exceptions.ServiceUnavailable("later"), errors.Unavailable, "later"),
        (api_exceptions.Forbidden("not you"), errors.NotPermitted, "not you"),
        (api_exceptions.RetryError("gave up", None), errors.Unavailable, "gave up"),
        (requests.exceptions.SSLError("certificate verify failed"), errors.Unavailable, "certificate"),
        (requests.exceptions.ConnectTimeout(), errors.Unavailable, "in time"),
    ],
)
def test_google(error, kind, words):
    with pytest.raises(errors.TpuctlError) as caught, google_errors.translated("list pools"):
        raise error
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        google.auth.exceptions.DefaultCredentialsError("none"),
        google.auth.exceptions.RefreshError("expired"),
    ],
)
def test_credentials_come_with_the_command_for_them(error):
    with pytest.raises(errors.NotPermitted) as caught, google_errors.translated("list pools"):
        raise error
    assert caught.value.hint == google_errors.LOGIN_HINT


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (requests.exceptions.SSLError(), retry.FINAL),
        (requests.exceptions.ProxyError(), retry.FINAL),
        (requests.exceptions.ConnectTimeout(), retry.Fault(again=True)),
        (requests.exceptions.ReadTimeout(), retry.Fault(again=True, ambiguous=True)),
        (requests.exceptions.ConnectionError("reset"), retry.Fault(again=True, ambiguous=True)),
        (
            requests.exceptions.ConnectionError(urllib3.exceptions.NewConnectionError(None, "refused")),
            retry.Fault(again=True),
        ),
        (cloud_errors.Malformed("html"), retry.Fault(ambiguous=True)),
        (errors.Unavailable("a zone is missing"), retry.Fault(again=True)),
        (errors.Conflict("x"), retry.FINAL),
        (ValueError(), retry.FINAL),
    ],
)
def test_what_a_google_fault_means_for_the_next_attempt(error, fault):
    assert google_errors.classify(error) == fault


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (urllib3.exceptions.NameResolutionError("h", None, OSError("x")), "name of h:1 cannot be resolved"),
        (urllib3.exceptions.SSLError("self-signed certificate"), "no secure connection to h:1: self-signed"),
        (urllib3.exceptions.ConnectTimeoutError(), "h:1 cannot be reached"),
        (urllib3.exceptions.ReadTimeoutError(None, "/x", "slow"), "h:1 did not answer in time"),
        (urllib3.exceptions.ProtocolError("broken"), "connection to h:1 broke: broken"),
    ],
)
def test_kubernetes_transport(error, words):
    with pytest.raises(errors.Unavailable) as caught, kube_errors.translated("list nodes", "h:1"):
        raise error
    assert words in caught.value.message
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (urllib3.exceptions.SSLError("x"), retry.FINAL),
        (urllib3.exceptions.NewConnectionError(None, "refused"), retry.Fault(again=True)),
        (urllib3.exceptions.ConnectTimeoutError(), retry.Fault(again=True)),
        (urllib3.exceptions.ReadTimeoutError(None, "/x", "slow"), retry.Fault(again=True, ambiguous=True)),
        (urllib3.exceptions.ProtocolError("reset"), retry.Fault(again=True, ambiguous=True)),
        (cloud_errors.Refused(410, None, None), retry.FINAL),
        (cloud_errors.Refused(429, None, 3.0), retry.Fault(again=True, after_s=3.0)),
        (errors.Conflict("x"), retry.FINAL),
    ],
)
def test_what_a_kubernetes_fault_means_for_the_next_attempt(error, fault):
    assert kube_errors.classify(error) == fault


def test_an_open_write_says_that_its_outcome_is_not_known():
    with pytest.raises(errors.Unavailable) as caught, kube_errors.translated("create s", "h", writing=True):
        raise urllib3.exceptions.ReadTimeoutError(None, "/x", "slow")
    assert "not known" in caught.value.hint
    with pytest.raises(errors.Unavailable) as caught, google_errors.translated("create p", writing=True):
        raise requests.exceptions.ReadTimeout
    assert "not known" in caught.value.hint
