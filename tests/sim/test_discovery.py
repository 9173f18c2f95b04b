"""Discovery documents, compared with what a real server answers for the same types."""

from __future__ import annotations

import importlib.resources

import pytest
import yaml

from tpuctl.sim.kube import discovery, resources

SLICE_GROUP = "accelerator.gke.io"


def _slices():
    text = importlib.resources.files("tpuctl.sim.kube").joinpath("slice_crd.yaml").read_text()
    return next(resources.from_definition(yaml.safe_load(text)))


@pytest.fixture
def types():
    return (*resources.BUILT_IN, _slices())


def _entries(document):
    return {entry["name"]: entry for entry in document["resources"]}


def test_resources_of_the_slice_group(types):
    document = discovery.resource_list(types, SLICE_GROUP, "v1beta1")
    assert (document["kind"], document["groupVersion"]) == ("APIResourceList", "accelerator.gke.io/v1beta1")
    found = _entries(document)
    assert list(found) == ["slices", "slices/status"]
    verbs = set(found["slices"].pop("verbs"))
    assert verbs == {"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
    assert found["slices"] == {
        "name": "slices",
        "singularName": "slice",
        "namespaced": False,
        "kind": "Slice",
    }
    assert found["slices/status"] == {
        "name": "slices/status",
        "singularName": "",
        "namespaced": False,
        "kind": "Slice",
        "verbs": ["get", "patch", "update"],
    }


def test_without_its_definition_the_slice_group_is_not_there():
    names = [entry["name"] for entry in discovery.groups(resources.BUILT_IN)["groups"]]
    assert SLICE_GROUP not in names
    assert "batch" in names
    assert discovery.group(resources.BUILT_IN, SLICE_GROUP) is None
    assert discovery.resource_list(resources.BUILT_IN, SLICE_GROUP, "v1beta1") is None


def test_unknown_versions_and_the_core_group_are_no_groups(types):
    assert discovery.resource_list(types, "batch", "v2") is None
    assert discovery.group(types, "") is None


def test_a_group_names_its_versions(types):
    version = {"groupVersion": "accelerator.gke.io/v1beta1", "version": "v1beta1"}
    assert discovery.group(types, SLICE_GROUP) == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": SLICE_GROUP,
        "versions": [version],
        "preferredVersion": version,
    }
    assert discovery.core_versions()["versions"] == ["v1"]


def test_core_resources(types):
    found = _entries(discovery.resource_list(types, "", "v1"))
    assert found["nodes"]["shortNames"] == ["no"]
    assert found["nodes"]["namespaced"] is False
    assert found["pods"]["categories"] == ["all"]
    assert found["pods/binding"]["kind"] == "Binding"
    assert found["pods/binding"]["verbs"] == ["create"]


def test_reviews_can_only_be_created(types):
    found = _entries(discovery.resource_list(types, "authorization.k8s.io", "v1"))
    assert found["selfsubjectaccessreviews"]["verbs"] == ["create"]


def test_aggregated_groups(types):
    document = discovery.aggregated(types, core=False)
    assert (document["kind"], document["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    groups = {item["metadata"]["name"]: item for item in document["items"]}
    assert "" not in groups
    (version,) = groups[SLICE_GROUP]["versions"]
    assert (version["version"], version["freshness"]) == ("v1beta1", "Current")
    (slices,) = version["resources"]
    assert (slices["resource"], slices["singularResource"], slices["scope"]) == ("slices", "slice", "Cluster")
    assert slices["responseKind"] == {"group": SLICE_GROUP, "version": "v1beta1", "kind": "Slice"}
    assert slices["subresources"] == [
        {
            "subresource": "status",
            "responseKind": slices["responseKind"],
            "verbs": ["get", "patch", "update"],
        }
    ]


def test_aggregated_core(types):
    (core,) = discovery.aggregated(types, core=True)["items"]
    assert core["metadata"] == {}
    found = {entry["resource"]: entry for entry in core["versions"][0]["resources"]}
    assert found["pods"]["scope"] == "Namespaced"
    assert [entry["subresource"] for entry in found["pods"]["subresources"]] == ["status", "binding"]
    assert found["pods"]["subresources"][1]["responseKind"]["kind"] == "Binding"


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("", discovery.JSON),
        ("*/*", discovery.JSON),
        ("application/json", discovery.JSON),
        (discovery.AGGREGATED, discovery.AGGREGATED),
        (f"application/json;q=0.5, {discovery.AGGREGATED}", discovery.JSON),
        (
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
            discovery.JSON,
        ),
        (
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
            + discovery.AGGREGATED,
            discovery.AGGREGATED,
        ),
        ("application/vnd.kubernetes.protobuf", None),
        ("text/html", None),
    ],
)
def test_form_follows_the_accept_header(accept, answer):
    assert discovery.media_type(accept) == answer
