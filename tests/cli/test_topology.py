"""`tpuctl topology`: arithmetic that people do at a terminal."""

from __future__ import annotations

import json

import pytest

from tpuctl.model import topology


def test_explain(tpuctl):
    result = tpuctl("topology", "explain", "8x16x16")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "Topology:          8x16x16\n"
        "Kind:              a slice of whole cubes\n"
        "Chips:             2,048 (4,096 cores)\n"
        "Hosts:             512 (VMs, one pod on each)\n"
        "Cubes:             32\n"
        "Accelerator type:  tpu7x-4096 (TPU_ACCELERATOR_TYPE; it counts cores)\n"
        "Slice resource:    spec.type: tpu7x\n"
        "                   spec.topology: 8x16x16\n"
        "                   spec.partitionIds: 32 partition ids, one for each cube\n"
        "Pods:              parallelism and completions: 512\n"
        "                   resources.limits google.com/tpu: 4\n"
        "                   nodeSelector cloud.google.com/gke-tpu-topology: 8x16x16\n"
        "Form it:           tpuctl slice form NAME --topology 8x16x16\n"
    )


@pytest.mark.parametrize(
    ("shape", "chips", "hosts", "cubes", "accelerator", "kind"),
    [
        ("2x2x1", 4, 1, 1, "tpu7x-8", "sub-slice"),
        ("2x4x4", 32, 8, 1, "tpu7x-64", "sub-slice"),
        ("4x4x4", 64, 16, 1, "tpu7x-128", "slice"),
        ("12x12x12", 1728, 432, 27, "tpu7x-3456", "slice"),
        ("16x24x24", 9216, 2304, 144, "tpu7x-18432", "slice"),
    ],
)
def test_explain_for_programs(tpuctl, shape, chips, hosts, cubes, accelerator, kind):
    document = json.loads(tpuctl("topology", "explain", shape, "-o", "json").out)
    assert document == {
        "apiVersion": "tpuctl/v1",
        "kind": "Topology",
        "topology": shape,
        "type": kind,
        "chips": chips,
        "cores": chips * 2,
        "hosts": hosts,
        "pods": hosts,
        "cubes": cubes,
        "partitionIds": cubes,
        "acceleratorType": accelerator,
        "observedAt": None,
        "partial": False,
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("4x8x4", "topology 4x8x4 is not allowed: dimensions must not decrease", "4x4x8"),
        ("4x4", "topology 4x4 is not allowed: three dimensions are needed, 2 given", "4x4x4"),
        ("4x4x4junk", "'4x4x4junk' is not a topology", "4x4x4"),
        ("100x100x100", "topology 100x100x100 is not allowed: 1,000,000 chips", ""),
        ("04x4x4", "'04x4x4' is not a topology: no leading zeros", "4x4x4"),
        ("4X4X4", "'4X4X4' is not a topology: write a small x", "4x4x4"),
        ("", "a topology is needed", "4x4x8"),
    ],
)
def test_illegal_shapes(tpuctl, text, message, hint):
    result = tpuctl("topology", "explain", text)
    assert (result.status, result.out) == (64, "")
    assert result.err.startswith(f"error: {message}")
    assert hint in result.err.partition("hint: ")[2]


def test_a_shape_that_looks_like_an_option(tpuctl):
    for arguments in (("-4x4x4",), ("--", "-4x4x4")):
        result = tpuctl("topology", "explain", *arguments)
        assert result.status == 64
        assert "cannot be negative" in result.err


def test_list(tpuctl):
    lines = tpuctl("topology", "list").out.splitlines()
    assert lines[:3] == [
        "TOPOLOGY  CHIPS  HOSTS  CUBES      ACCELERATOR-TYPE",
        "2x2x1     4      1      part of 1  tpu7x-8",
        "2x2x2     8      2      part of 1  tpu7x-16",
    ]
    assert len(lines) == 1 + len(topology.SUB_SLICE_SHAPES) + len(topology.cube_shapes())
    assert lines[-1].split() == ["4x4x576", "9,216", "2,304", "144", "tpu7x-18432"]


def test_list_by_cubes(tpuctl):
    assert tpuctl("topology", "list", "--cubes", "8", "-o", "name").out == (
        "topology/8x8x8\ntopology/4x8x16\ntopology/4x4x32\n"
    )
    document = json.loads(tpuctl("topology", "list", "--cubes", "144", "-o", "json").out)
    assert {item["chips"] for item in document["items"]} == {9216}
    assert tpuctl("topology", "list", "--cubes", "145").status == 64
