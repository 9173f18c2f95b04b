"""Label and field selectors, resource quantities, and paths."""

import decimal

import pytest

from tpuctl.sim.kube import errors, quantities, resources, selectors, targets

LABELS = {"pool": "p0", "idx": "3", "empty": ""}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("pool=p0", True),
        ("pool==p0", True),
        ("pool = p0 , idx != 4", True),
        ("pool!=p0", False),
        ("gone!=p0", True),
        ("pool in (p0,p9)", True),
        ("pool in(p9)", False),
        ("pool notin (p9)", True),
        ("gone notin (p9)", True),
        ("pool", True),
        ("gone", False),
        ("!gone", True),
        ("!pool", False),
        ("idx>2", True),
        ("idx<3", False),
        ("pool>1", False),
        ("empty=", True),
        ("empty", True),
        ("pool=", False),
        ("empty in (,x)", True),
    ],
)
def test_labels(text, selected):
    assert selectors.labels(text)({"metadata": {"labels": LABELS}}) is selected


def test_an_empty_selector_restricts_nothing():
    assert selectors.labels("") is None
    assert selectors.combined(None, None) is None


@pytest.mark.parametrize(
    "text",
    ["pool in", "pool in p0", "pool in (p0", "=x", "a=b,", "a=b c", "a>x", "-a", "a=-b", "!", "a in (b c)"],
)
def test_bad_label_selectors(text):
    with pytest.raises(errors.ApiError) as caught:
        selectors.labels(text)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


def field(text, obj, resource):
    return selectors.fields(selectors.field_terms(text, resource), resource)(obj)


def test_fields_that_are_absent_have_their_default():
    node = {"metadata": {"name": "n"}, "spec": {}}
    assert field("spec.unschedulable=false", node, resources.NODES)
    assert not field("spec.unschedulable=true", node, resources.NODES)
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {}, "status": {"phase": "Pending"}}
    assert field("spec.nodeName=,status.phase!=Running,metadata.namespace=default", pod, resources.PODS)


def test_fields_of_another_type_are_refused():
    with pytest.raises(errors.ApiError):
        selectors.field_terms("metadata.namespace=x", resources.NODES)


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", "4"), ("500m", "0.5"), ("6Gi", 6 * 2**30), ("1k", 1000), ("1e3", 1000), ("2.5", "2.5"), (3, 3)],
)
def test_quantities(text, value):
    assert quantities.parse(text) == decimal.Decimal(value)


def test_what_is_no_quantity():
    assert [quantities.parse(text) for text in ("", "x", "4 Gi", "1.2.3", "4gi")] == [None] * 5


def test_chips_are_an_extended_resource():
    assert quantities.is_extended("google.com/tpu")
    assert not quantities.is_extended("cpu")
    assert not quantities.is_extended("kubernetes.io/x")
    assert quantities.is_whole("4")
    assert not quantities.is_whole("500m")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/nodes", ("", "nodes", "", "", "")),
        ("/api/v1/nodes/n/status", ("", "nodes", "", "n", "status")),
        ("/api/v1/namespaces/x", ("", "namespaces", "", "x", "")),
        ("/api/v1/namespaces/x/status", ("", "namespaces", "", "x", "status")),
        ("/api/v1/namespaces/x/pods/p/binding", ("", "pods", "x", "p", "binding")),
        ("/apis/batch/v1/namespaces/x/jobs", ("batch", "jobs", "x", "", "")),
        ("/apis/batch/v1/jobs/", ("batch", "jobs", "", "", "")),
    ],
)
def test_paths(path, expected):
    target = targets.parse_path(path)
    found = (target.group, target.plural, target.namespace, target.name, target.subresource)
    assert found == expected


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis/batch/v1", "/version", "/apis/batch/v1/a/b/c/d"])
def test_paths_of_no_resource(path):
    assert targets.parse_path(path) is None
