"""GKE's validating webhook for Slices, and the rules it is made of."""

from __future__ import annotations

import pytest

from tpuctl.sim import rules
from tpuctl.sim.controllers import jobs, pod_admission, webhook
from tpuctl.sim.kube import admission, auth, errors, resources

SLICES = resources.ResourceType(
    group="accelerator.gke.io",
    version="v1beta1",
    plural="slices",
    singular="slice",
    kind="Slice",
    namespaced=False,
    custom=True,
)


def partitions(count: int) -> list[str]:
    return [f"{number:032x}" for number in range(count)]


def slice_object(name="a", topology="4x4x8", ids=None, tpu_type="tpu7x") -> dict:
    spec = {"type": tpu_type, "topology": topology, "partitionIds": partitions(2) if ids is None else ids}
    return {"metadata": {"name": name}, "spec": spec}


def review(new, old=None, *, operation=None, enabled=True, **settings) -> str | None:
    """What the webhook says, or None if it lets the write pass."""
    hook = webhook.SliceWebhook(webhook.Rules(**settings), enabled=lambda: enabled)
    request = admission.AdmissionRequest(
        operation=operation or ("UPDATE" if old else "CREATE"),
        resource=SLICES,
        namespace="",
        name="a",
        subresource="",
        old=old,
        new=new,
        user=auth.admin(),
        dry_run=False,
    )
    try:
        hook.review(request)
    except errors.ApiError as error:
        refusal = error
    else:
        return None
    assert (refusal.code, refusal.reason) == (403, "Forbidden")
    prefix, _, problem = refusal.message.partition(" denied the request: ")
    assert prefix == f'admission webhook "{webhook.NAME}"'
    return problem


COUNTS = [
    ("4x4x4", 1), ("4x4x8", 2), ("4x4x12", 3), ("4x8x8", 4), ("8x8x8", 8), ("4x12x16", 12), ("8x8x16", 16),
    ("12x12x12", 27), ("8x16x16", 32), ("16x24x24", 144),
    ("2x2x1", 1), ("2x2x2", 1), ("2x2x4", 1), ("2x4x4", 1),
]  # fmt: skip


@pytest.mark.parametrize(("topology", "count"), COUNTS)
def test_legal_shapes_take_their_number_of_partitions(topology, count):
    assert review(slice_object(topology=topology, ids=partitions(count))) is None
    problem = review(slice_object(topology=topology, ids=partitions(count + 1)))
    assert problem == f"topology '{topology}' needs exactly {count} partitionIds, not {count + 1}"
    assert "needs exactly" in review(slice_object(topology=topology, ids=[]))


@pytest.mark.parametrize(
    ("topology", "rule"),
    [
        ("4x8x4", "non-decreasing"),
        ("8x4x4", "non-decreasing"),
        ("4x4x6", "multiple of 4"),
        ("2x4x8", "multiple of 4"),
        ("2x2x8", "multiple of 4"),
        ("1x2x2", "multiple of 4"),
        ("4x4x2", "multiple of 4"),
        ("0x4x4", "multiple of 4"),
        ("4x4", "form AxBxC"),
        ("4x4x4x4", "form AxBxC"),
        ("-4x4x4", "form AxBxC"),
        ("4x4x4junk", "form AxBxC"),
        ("4X4X4", "form AxBxC"),
        ("", "form AxBxC"),
        ("\u0664x4x4", "form AxBxC"),
        ("4x4x4\n", "form AxBxC"),
        ("04x4x4", "leading zeros"),
        ("16x24x28", "at most 9216"),
        ("100x100x100", "at most 9216"),
    ],
)
def test_illegal_shapes_name_the_rule(topology, rule):
    assert rule in review(slice_object(topology=topology))


@pytest.mark.parametrize("name", ["a", "train-a", "a" * 49, "a0-1"])
def test_legal_names(name):
    assert review(slice_object(name)) is None


@pytest.mark.parametrize("name", ["A", "1a", "-a", "a-", "a.b", "a_b", "", "a" * 50])
def test_illegal_names(name):
    assert review(slice_object(name)).startswith(f"name '{name}'")


def test_the_older_limit_of_names_can_be_set():
    assert review(slice_object("a" * 54), max_name_length=54) is None
    assert "at most 54" in review(slice_object("a" * 55), max_name_length=54)


@pytest.mark.parametrize("tpu_type", ["v6e", "TPU7X", ""])
def test_only_one_type_is_accepted(tpu_type):
    assert "only supported type is 'tpu7x'" in review(slice_object(tpu_type=tpu_type))


def test_repeated_partitions():
    twice = slice_object(ids=partitions(1) * 2)
    assert review(twice) == f"partitionIds are repeated: {partitions(1)[0]}"
    assert review(twice, allow_duplicates=True) is None


def test_a_spec_does_not_change_unless_set_so():
    old, new = slice_object(), slice_object(topology="4x4x4", ids=partitions(1))
    assert "immutable" in review(new, old)
    assert review(new, old, allow_spec_updates=True) is None
    assert "needs exactly" in review(slice_object(topology="4x4x4"), old, allow_spec_updates=True)


def test_other_changes_pass():
    old = slice_object()
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert review(new, old) is None
    assert review(None, old, operation="DELETE") is None


def test_without_controller_there_is_no_webhook():
    assert review(slice_object(topology="4x8x4"), enabled=False) is None


@pytest.mark.parametrize(
    ("places", "problem"),
    [
        ([("r", "b"), ("r", "b")], None),
        ([("r", "b"), ("r", "c")], "partitions belong to different reservation blocks"),
        ([("r", "b"), ("s", "c")], "partitions belong to different reservations"),
    ],
)
def test_slices_stay_in_one_block(places, problem):
    assert rules.place_problem(places) == problem


def job_request(**spec) -> admission.AdmissionRequest:
    job_type = next(item for item in resources.BUILT_IN if item.key == "jobs.batch")
    new = {"metadata": {"name": "j", "namespace": "default"}, "spec": spec}
    return admission.AdmissionRequest(
        operation="CREATE",
        resource=job_type,
        namespace="default",
        name="j",
        subresource="",
        old=None,
        new=new,
        user=auth.admin(),
        dry_run=False,
    )


def test_jobs_that_want_what_is_not_simulated_are_refused():
    jobs.review(job_request(completions=4, podReplacementPolicy="TerminatingOrFailed", manualSelector=False))
    with pytest.raises(errors.ApiError) as caught:
        jobs.review(job_request(successPolicy={}, podReplacementPolicy="Failed"))
    assert caught.value.code == 422
    fields = [cause["field"] for cause in caught.value.status()["details"]["causes"]]
    assert fields == ["spec.successPolicy", "spec.podReplacementPolicy"]


@pytest.mark.parametrize(("chips", "expected"), [("4", True), (None, False)])
def test_gke_lets_tpu_pods_tolerate_the_taint_of_tpu_nodes(chips, expected):
    limits = {"google.com/tpu": chips} if chips else {"cpu": "1"}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    request = admission.AdmissionRequest(
        operation="CREATE",
        resource=resources.PODS,
        namespace="default",
        name="p",
        subresource="",
        old=None,
        new=pod,
        user=auth.admin(),
        dry_run=False,
    )
    pod_admission.review(request)
    pod_admission.review(request)
    keys = [toleration["key"] for toleration in pod["spec"].get("tolerations", [])]
    assert keys == (["google.com/tpu"] if expected else [])
