"""Slice resources: the Slices port on the Kubernetes API.

Everything is found again by its name: a create that was interrupted is finished by looking, and one that is
repeated finds what is there and compares it.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from tpuctl.cloud import documents, kube_errors, objects
from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube as kube_module
from tpuctl.model import errors, fleet

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence

    from tpuctl.ops import context as context_module
    from tpuctl.ops import ports

GROUP = "accelerator.gke.io"
VERSION = "v1beta1"
"""The only version that is written; others are read if their slices look the same."""
FIELD_MANAGER = "tpuctl"
MAX_EVENTS = 20


class KubeSlices:
    """The Slices port."""

    def __init__(self, context: context_module.Context, kube: kube_module.Kube) -> None:
        self._context = context
        self._kube = kube

    def get(self, name: str) -> fleet.Slice | None:
        """The slice; None if there is none of that name. Raises NotFound if Slices are not served at all."""
        what = f"read slice {name}"
        path = f"{self.path}/{name}"
        with self._explained():
            answer = self._kube.find(path, name, what=what)
        return None if answer is None else _read(answer.document, answer.observed_at, what)

    def create(self, spec: ports.SliceSpec, *, validate_only: bool = False) -> fleet.Slice:
        self._check_version()
        what = f"create slice {spec.name}"
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if validate_only:
            query["dryRun"] = "All"

        def attempt() -> fleet.Slice:
            try:
                answer = self._kube.request("POST", self.path, query=query, body=_manifest(spec))
            except cloud_errors.Refused as refused:
                if refused.status == cloud_errors.CONFLICT and _reason(refused) == "AlreadyExists":
                    return self._same_as(spec)
                raise
            return _read(answer.document, answer.observed_at, what)

        with self._explained():
            return self._kube.write(attempt, look=lambda: self._existing(spec), what=what)

    def delete(self, name: str, *, uid: str) -> None:
        self._check_version()
        path = f"{self.path}/{name}"
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}

        def attempt() -> bool:
            try:
                self._kube.request("DELETE", path, body=options)
            except cloud_errors.Refused as refused:
                if kube_errors.is_missing_object(refused, name):
                    return True
                if refused.status == cloud_errors.CONFLICT:
                    raise errors.Conflict(
                        f"slice {name} was replaced by another one of the same name; nothing was deleted"
                    ) from refused
                raise
            return True

        def look() -> bool | None:
            found = self._look(name)
            return True if found is None or found.uid != uid or found.deleting else None

        with self._explained():
            self._kube.write(attempt, look=look, what=f"delete slice {name}")

    def labelled_hosts(self, name: str) -> int:
        listing = self._kube.listing(
            "/api/v1/nodes",
            lambda document: bool(document["metadata"]["name"]),
            what=f"list the nodes of slice {name}",
            query={"labelSelector": f"{documents.SLICE_LABEL}={name}"},
            accept=kube_module.METADATA_ONLY,
        )
        return len(listing.items)

    def events(self, name: str, *, uid: str) -> Sequence[str]:
        listing = self._kube.listing(
            "/api/v1/events",
            documents.event,
            what=f"list events of slice {name}",
            query={"fieldSelector": f"involvedObject.kind=Slice,involvedObject.uid={uid}"},
        )
        return tuple(text for _, text in sorted(listing.items)[-MAX_EVENTS:])

    def listing(self) -> kube_module.Listing[fleet.Slice]:
        """All slices of the cluster, with revision and time."""
        path, version = self.path, self.version
        with self._explained():
            found = self._kube.listing(path, lambda document: document, what="list slices")
        if version != VERSION:
            _check_readable(found.items, version)
        read = [_read(document, found.observed_at, "list slices") for document in found.items]
        read.sort(key=lambda item: item.name)
        return kube_module.Listing(read, found.revision, found.observed_at)

    @functools.cached_property
    def version(self) -> str:
        """The version of the resource to use: VERSION if the server has it, else what it prefers."""
        with self._explained():
            document = self._kube.get(f"/apis/{GROUP}", what="find out the version of Slices").document
        served = [item.get("version") for item in document.get("versions") or () if isinstance(item, dict)]
        preferred = document.get("preferredVersion")
        if VERSION in served:
            return VERSION
        found = preferred.get("version") if isinstance(preferred, dict) else None
        if not isinstance(found, str) or not found:
            raise errors.Unavailable(f"the server does not say which versions of {GROUP} it serves")
        return found

    @property
    def path(self) -> str:
        return f"/apis/{GROUP}/{self.version}/slices"

    def _check_version(self) -> None:
        if self.version != VERSION:
            raise errors.UsageError(
                f"the cluster does not serve {GROUP}/{VERSION}, the only version that this tpuctl writes "
                f"(it prefers {self.version})",
                hint="use a newer tpuctl",
            )

    def _look(self, name: str) -> fleet.Slice | None:
        """One read, for use inside of a write."""
        answer = objects.look(self._kube, self.path, name)
        return None if answer is None else _read(answer.document, answer.observed_at, f"read slice {name}")

    def _existing(self, spec: ports.SliceSpec) -> fleet.Slice | None:
        """The slice of that name if it is what `spec` says, None if there is none; raises Conflict."""
        found = self._look(spec.name)
        if found is None:
            return None
        if found.deleting:
            raise errors.Conflict(
                f"slice {spec.name} is still being deleted",
                hint=f"wait until it is gone (tpuctl slice show {spec.name}), then run the command again",
            )
        differences = tuple(_differences(found, spec))
        if differences:
            raise errors.Conflict(
                f"slice {spec.name} exists and is another one",
                hint=f"choose another name, or first: tpuctl slice deform {spec.name}",
                details=differences,
            )
        return found

    def _same_as(self, spec: ports.SliceSpec) -> fleet.Slice:
        found = self._existing(spec)
        if found is None:
            raise errors.Conflict(
                f"slice {spec.name} existed and vanished meanwhile", hint="run the command again"
            )
        return found

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Inside, a missing object is an answer; "not found" as an error means that Slices are not served."""
        try:
            yield
        except errors.NotFound as missing:
            cluster, location = self._context.cluster, self._context.location
            raise errors.NotFound(
                f"cluster {cluster} has no Slice resource: the slice controller is off, or GKE is too old",
                hint="turn it on with: "
                f"gcloud container clusters update {cluster} --location={location} --enable-slice-controller"
                "\n(tpuctl nodepool setup does it too)",
            ) from missing


def _manifest(spec: ports.SliceSpec) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": spec.name, "labels": {documents.MANAGED_BY: documents.OURS}}
    if spec.priority:
        metadata["annotations"] = {documents.PRIORITY_ANNOTATION: str(spec.priority)}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Slice",
        "metadata": metadata,
        "spec": {
            "type": documents.ACCELERATOR,
            "topology": str(spec.topology),
            # In a fixed order: some clients compare the list with its order.
            "partitionIds": sorted(spec.partition_ids),
        },
    }


def _differences(found: fleet.Slice, spec: ports.SliceSpec) -> Iterator[str]:
    if found.topology != spec.topology:
        yield f"its topology is {found.raw_topology or 'not set'}, wanted is {spec.topology}"
    has, wants = set(found.partition_ids), set(spec.partition_ids)
    if has != wants:
        yield f"it has {len(has)} partitions, {len(has & wants)} of the {len(wants)} wanted ones among them"


def _reason(refused: cloud_errors.Refused) -> str:
    return str((refused.document or {}).get("reason") or "")


def _read(document: dict[str, Any], observed_at: datetime.datetime, what: str) -> fleet.Slice:
    """Raises Unavailable for an answer that is no Slice."""
    try:
        return documents.slice_(document, observed_at)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise errors.Unavailable(f"cannot {what}: the server's answer is no Slice") from error


def _check_readable(items: Sequence[dict[str, Any]], version: str) -> None:
    """Without its partitions a slice would look as if it held nothing, and its cubes as if they were free."""
    for item in items:
        spec = item.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("partitionIds"), list):
            raise errors.Unavailable(
                f"slices of version {GROUP}/{version} do not look as expected; nothing was assumed",
                hint="use a newer tpuctl",
            )
