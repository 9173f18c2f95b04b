"""OpenAPI: that clients find in it what they look for."""

from __future__ import annotations

import importlib.resources
import json
import pathlib
import re

import pytest
import yaml

from tpuctl.sim.kube import openapi, resources, shapes

SLICES = "apis/accelerator.gke.io/v1beta1"


def _text():
    return importlib.resources.files("tpuctl.sim.kube").joinpath("slice_crd.yaml").read_text()


def _types(definition=None):
    return (*resources.BUILT_IN, *resources.from_definition(definition or yaml.safe_load(_text())))


@pytest.fixture
def types():
    return _types()


def test_the_manifest_for_users_is_the_one_that_is_served():
    manifest = pathlib.Path(__file__).parents[2] / "configs" / "kubernetes" / "slice-crd.yaml"
    assert manifest.read_text() == _text()


def test_index_lists_a_document_for_each_group_and_version(types):
    paths = openapi.index(types)["paths"]
    assert {"api/v1", "apis/batch/v1", SLICES} <= paths.keys()
    assert re.fullmatch(rf"/openapi/v3/{SLICES}\?hash=[0-9A-F]{{64}}", paths[SLICES]["serverRelativeURL"])
    assert SLICES not in openapi.index(resources.BUILT_IN)["paths"]


def test_a_changed_definition_changes_only_its_url(types):
    definition = yaml.safe_load(_text())
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Another text."
    before, after = openapi.index(types)["paths"], openapi.index(_types(definition))["paths"]
    assert before[SLICES] != after[SLICES]
    assert before["api/v1"] == after["api/v1"]


def test_slices_are_described_by_their_definition(types):
    schema = openapi.document(types, SLICES)["components"]["schemas"]["io.gke.accelerator.v1beta1.Slice"]
    kind = {"group": "accelerator.gke.io", "version": "v1beta1", "kind": "Slice"}
    assert schema["x-kubernetes-group-version-kind"] == [kind]
    spec = schema["properties"]["spec"]
    assert spec["required"] == ["type", "topology", "partitionIds"]
    assert spec["properties"]["type"]["enum"] == ["tpu7x"]
    assert spec["properties"]["topology"]["pattern"] == r"^\d+x\d+x\d+$"
    assert spec["properties"]["partitionIds"]["minItems"] == 1
    metadata = schema["properties"]["metadata"]["allOf"]
    assert metadata == [{"$ref": "#/components/schemas/io.k8s.part.ObjectMeta"}]


@pytest.mark.parametrize(
    ("place", "path", "kind"),
    [
        (SLICES, "/apis/accelerator.gke.io/v1beta1/slices/{name}", "Slice"),
        ("api/v1", "/api/v1/nodes/{name}", "Node"),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", "Pod"),
        ("apis/batch/v1", "/apis/batch/v1/namespaces/{namespace}/jobs/{name}", "Job"),
    ],
)
def test_patch_tells_its_kind_and_that_it_validates_fields(types, place, path, kind):
    patch = openapi.document(types, place)["paths"][path]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == kind
    assert {"fieldValidation", "dryRun", "fieldManager"} <= {item["name"] for item in patch["parameters"]}
    strategic = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert strategic is (kind != "Slice")


def test_paths_of_a_namespaced_type(types):
    paths = openapi.document(types, "apis/batch/v1")["paths"]
    base = "/apis/batch/v1/namespaces/{namespace}/jobs"
    found = {path for path in paths if "cronjobs" not in path}
    assert found == {base, f"{base}/{{name}}", f"{base}/{{name}}/status", "/apis/batch/v1/jobs"}
    assert set(paths[base]) == {"get", "post", "delete", "parameters"}
    assert set(paths["/apis/batch/v1/jobs"]) == {"get"}
    assert [item["name"] for item in paths[f"{base}/{{name}}"]["parameters"]] == ["name", "namespace"]


def test_reviews_can_only_be_posted(types):
    paths = openapi.document(types, "apis/authentication.k8s.io/v1")["paths"]
    assert {path: set(item) for path, item in paths.items()} == {
        "/apis/authentication.k8s.io/v1/selfsubjectreviews": {"post"}
    }


def test_every_reference_leads_somewhere_and_every_kind_is_described(types):
    for place in openapi.index(types)["paths"]:
        document = openapi.document(types, place)
        known = document["components"]["schemas"]
        used = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
        assert used <= known.keys()
        for item in types:
            if place in (f"apis/{item.api_version}", f"api/{item.version}" if not item.group else ""):
                assert any(
                    name.endswith(f".{item.kind}") and schema["description"] for name, schema in known.items()
                )


def test_lists_say_how_patches_merge_them(types):
    parts = openapi.document(types, "api/v1")["components"]["schemas"]
    pod, node = parts["io.k8s.part.PodSpec"]["properties"], parts["io.k8s.part.NodeSpec"]["properties"]
    key, strategy = "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy"
    assert (pod["containers"][key], pod["containers"][strategy]) == ("name", "merge")
    assert (pod["volumes"][key], pod["volumes"][strategy]) == ("name", "merge,retainKeys")
    assert not [name for name in node["taints"] if name.startswith("x-kubernetes-patch")]
    assert parts["io.k8s.part.ObjectMeta"]["properties"]["finalizers"][strategy] == "merge"


def test_every_description_is_of_something_that_exists():
    text = importlib.resources.files("tpuctl.sim.kube.openapi").joinpath("descriptions.yaml").read_text()
    for kind, texts in yaml.safe_load(text).items():
        assert texts.keys() - {""} <= shapes.fields_of(kind).keys(), kind


def test_documents_of_what_is_not_served(types):
    assert openapi.document(types, "apis/autoscaling/v2") is None
    assert openapi.document(types, "") is None


def test_version_2_has_all_definitions(types):
    swagger = openapi.swagger(types)
    assert swagger["swagger"] == "2.0"
    assert {"io.k8s.api.core.v1.Node", "io.gke.accelerator.v1beta1.SliceList"} <= swagger[
        "definitions"
    ].keys()
    used = set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(swagger)))
    assert used <= swagger["definitions"].keys()
    assert "#/components" not in json.dumps(swagger)


def test_forms():
    assert openapi.media_type("") == "application/json"
    assert openapi.media_type("application/json") == "application/json"
    assert openapi.media_type(
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf,application/json"
    ) == ("application/json")
    assert openapi.media_type("application/com.github.proto-openapi.spec.v2@v1.0+protobuf") is None
