"""Protobuf bodies: what kubectl 1.37 really sent, and what nobody should send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.sim.kube import errors, protobuf

CONFIG_MAP = (
    "6b3873000a0f0a0276311209436f6e6669674d617012210a170a076a6f75726e616c12001a0022002a00320038004200"
    "12060a01611201311a002200"
)
SERVICE = (
    "6b3873000a0d0a02763112075365727669636512630a1b0a017312001a0022002a003200380042005a080a036170701201"
    "7312400a1b0a0738302d38303830120354435018502207080010903f1a00280012080a036170701201731a002209436c75"
    "7374657249503a00420052005a00600068001a020a001a002200"
)
ACCESS_REVIEW = (
    "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a6563744163636573"
    "7352657669657712530a100a0012001a0022002a0032003800420012350a330a0764656661756c74120663726561746"
    "51a12616363656c657261746f722e676b652e696f22002a06736c6963657332003a001a08080012001a0020001a002200"
)
PATH_REVIEW = (
    "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a6563744163636573"
    "73526576696577122f0a100a0012001a0022002a003200380042001211120f0a082f6d65747269637312036765741a0808"
    "0012001a0020001a002200"
)
WHO_AM_I = (
    "6b3873000a2d0a1861757468656e7469636174696f6e2e6b38732e696f2f7631121153656c665375626a65637452657669"
    "6577121a0a100a0012001a0022002a0032003800420012060a040a0012001a002200"
)


def _decode(data):
    return protobuf.decode(data, ["application/json"])


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (
            CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "journal"},
                "data": {"a": "1"},
            },
        ),
        (
            SERVICE,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "s", "labels": {"app": "s"}},
                "spec": {
                    "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080}],
                    "selector": {"app": "s"},
                    "type": "ClusterIP",
                },
            },
        ),
        (
            ACCESS_REVIEW,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {
                    "resourceAttributes": {
                        "namespace": "default",
                        "verb": "create",
                        "group": "accelerator.gke.io",
                        "resource": "slices",
                    }
                },
            },
        ),
        (
            PATH_REVIEW,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
            },
        ),
        (WHO_AM_I, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
    ],
)
def test_bodies_recorded_from_kubectl(recorded, expected):
    assert _decode(bytes.fromhex(recorded)) == expected


def _block(number, data):
    """A field with bytes in it; short ones only, so that their length is one byte."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def _envelope(kind, raw):
    return protobuf.MAGIC + _block(1, _block(1, b"v1") + _block(2, kind)) + _block(2, raw)


def test_zero_that_means_something_is_kept():
    options = b"\x08\x00" + _block(2, _block(1, b"some-uid")) + b"\x18\x00" + _block(5, b"All")
    assert _decode(_envelope(b"DeleteOptions", options)) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "some-uid"},
        "orphanDependents": False,
        "dryRun": ["All"],
    }


def test_negative_numbers_times_and_bytes():
    never = b"\x08" + b"\xff" * 9 + b"\x01"
    assert _decode(_envelope(b"DeleteOptions", never))["gracePeriodSeconds"] == -1
    created = _block(1, _block(8, b"\x08\x3c"))
    binary = _block(3, _block(1, b"k") + _block(2, b"\x00\xff"))
    found = _decode(_envelope(b"ConfigMap", created + binary))
    assert found["metadata"] == {"creationTimestamp": "1970-01-01T00:01:00Z"}
    assert found["binaryData"] == {"k": "AP8="}


def test_a_port_by_name():
    target = _block(4, b"\x08\x01" + _block(3, b"http"))
    found = _decode(_envelope(b"Service", _block(2, _block(1, target))))
    assert found["spec"] == {"ports": [{"targetPort": "http"}]}


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"{}", 400, "envelope"),
        (_envelope(b"Pod", b""), 415, "application/json"),
        (_envelope(b"ConfigMap", _block(9, b"x")), 400, "field 9 of ConfigMap is not supported"),
        (_envelope(b"ConfigMap", b"\x08\x01"), 400, "expected bytes"),
        (_envelope(b"DeleteOptions", _block(1, b"x")), 400, "expected a number"),
        (_envelope(b"ConfigMap", b"\x0a\x7f"), 400, "unexpected end of the body"),
        (_envelope(b"ConfigMap", b"\x80"), 400, "unexpected end of a number"),
        (_envelope(b"ConfigMap", b"\x0b"), 400, "wire type 3"),
        (_envelope(b"ConfigMap", _block(1, _block(1, b"\xff"))), 400, "cannot be read"),
    ],
)
def test_what_is_refused(data, code, text):
    with pytest.raises(errors.ApiError, match=text) as caught:
        _decode(data)
    assert caught.value.code == code


@given(
    st.sampled_from([CONFIG_MAP, SERVICE, ACCESS_REVIEW]),
    st.integers(min_value=4, max_value=120),
    st.binary(max_size=6),
)
def test_damaged_bodies_are_read_or_refused_and_never_worse(recorded, position, noise):
    data = bytes.fromhex(recorded)
    damaged = data[:position] + noise + data[position + len(noise) :]
    assert _outcome(damaged) in {"400", "415", *protobuf.KINDS}


def _outcome(data):
    """Kind of the object, or the code of the refusal."""
    try:
        return _decode(data)["kind"]
    except errors.ApiError as error:
        return str(error.code)
