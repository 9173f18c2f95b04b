"""Create, update, patch and apply: what the API server does with an object before it is stored."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import (
    admission,
    apply,
    bodies,
    defaults,
    errors,
    managed,
    patch,
    resources,
    shapes,
    validation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.sim.kube import auth, targets

Json = dict[str, Any]

CREATE_ON_UPDATE = frozenset({"leases.coordination.k8s.io", "events"})
"""Types that an update creates if they are missing."""
NEEDS_REVISION = frozenset({"leases.coordination.k8s.io", resources.CRD_KEY})
"""Built-in types whose update must name the resourceVersion; custom types all do."""
NAME_ATTEMPTS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """A write to a resource, as it came in."""

    resource: resources.ResourceType
    target: targets.Target
    options: targets.WriteOptions
    user: auth.Identity


@dataclasses.dataclass(frozen=True)
class Answer:
    """What to tell the client."""

    code: int
    obj: Json
    warnings: tuple[str, ...] = ()


class Writer:
    """Writes to the store as clients of the API do."""

    def __init__(self, store: stores.Store, hooks: Sequence[admission.Hook]) -> None:
        self._store = store
        self._hooks = hooks

    # Create

    def create(self, call: Call, body: bodies.Body) -> Answer:
        """POST."""
        decoded = bodies.decode(body, call.resource, call.options.field_validation)
        return Answer(201, self._create(call, decoded.obj, applied=False), decoded.warnings)

    def _create(self, call: Call, obj: Json, *, applied: bool) -> Json:
        """Store a new object; `applied` says that it comes from an apply and carries its managedFields."""
        resource = call.resource
        self._place(call, obj)
        self._check_terminating(call)
        obj = self._prepared(call, obj)
        validation.check_create(resource, obj)
        self.admit(call, "CREATE", None, obj)
        existing = self._store.get(resource.key, obj["metadata"].get("namespace"), obj["metadata"]["name"])
        if existing is not None:
            deleting = "deletionTimestamp" in existing["metadata"]
            raise errors.already_exists(resource, obj["metadata"]["name"], deleting=deleting)
        if not applied:
            self._record({}, obj, call, "Update")
        return obj if call.options.dry_run else self._store.create(resource.key, obj, initialised=True)

    def _place(self, call: Call, obj: Json) -> None:
        """Set the namespace of a new object, and check that it may live there."""
        metadata, namespace = obj["metadata"], call.target.namespace
        if not call.resource.namespaced:
            metadata.pop("namespace", None)
            return
        if metadata.setdefault("namespace", namespace) != namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        found = self._store.get("namespaces", None, namespace)
        if found is None:
            raise errors.not_found(resources.NAMESPACES, namespace)
        if "deletionTimestamp" in found["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = errors.Cause("NamespaceTerminating", f"namespace {namespace} is being terminated")
            error = errors.forbidden(call.resource, metadata.get("name", ""), why)
            details = {**(error.details or {}), "causes": [cause.to_json()]}
            raise errors.ApiError(error.code, error.reason, error.message, details=details)

    def _check_terminating(self, call: Call) -> None:
        definition = call.resource.definition
        if definition is not None and "deletionTimestamp" in definition["metadata"]:
            message = "create not allowed while custom resource definition is terminating"
            raise errors.ApiError(405, "MethodNotAllowed", message, details={})

    def _prepared(self, call: Call, obj: Json) -> Json:
        """The object with everything that the server fills in."""
        resource, metadata = call.resource, obj["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._free_name(resource, metadata)
        self._store.initialise(resource.key, obj)
        obj = defaults.fill(resource, obj)
        defaults.prepare_new(resource, obj)
        return obj

    def _free_name(self, resource: resources.ResourceType, metadata: Json) -> str:
        for _attempt in range(NAME_ATTEMPTS):
            name = f"{metadata['generateName']}{self._store.new_suffix()}"
            if self._store.get(resource.key, metadata.get("namespace"), name) is None:
                return name
        raise errors.already_exists(resource, metadata["generateName"])

    # Update

    def update(self, call: Call, body: bodies.Body) -> Answer:
        """PUT."""
        resource, target = call.resource, call.target
        decoded = bodies.decode(body, resource, call.options.field_validation)
        new, metadata = decoded.obj, decoded.obj["metadata"]
        if metadata.setdefault("name", target.name) != target.name:
            raise _other_name(metadata["name"], target.name)
        old = self._store.get(resource.key, target.namespace, target.name)
        if old is None:
            if resource.key not in CREATE_ON_UPDATE or target.subresource:
                raise errors.not_found(resource, target.name)
            return Answer(201, self._create(call, new, applied=False), decoded.warnings)
        if not metadata.get("resourceVersion") and (resource.custom or resource.key in NEEDS_REVISION):
            text = "Invalid value: 0: must be specified for an update"
            cause = errors.Cause("FieldValueInvalid", text, "metadata.resourceVersion")
            raise errors.invalid_update(resource, target.name, [cause])
        return Answer(200, self._replace(call, old, new), decoded.warnings)

    def patch(self, call: Call, body: bodies.Body) -> Answer:
        """PATCH, but for apply."""
        resource, target = call.resource, call.target
        old = self._store.get(resource.key, target.namespace, target.name)
        if old is None:
            raise errors.not_found(resource, target.name)
        try:
            document = body.parse()
        except ValueError as error:
            raise errors.bad_request(f"error decoding patch: {error}") from None
        current = {**old, "apiVersion": resource.api_version, "kind": resource.kind}
        patched = _patched(current, document, body.content_type, shapes.of(resource))
        decoded = bodies.conforming(stores.copy(patched), resource, call.options.field_validation)
        if decoded.obj["metadata"].get("name") != target.name:
            cause = errors.Cause("FieldValueInvalid", "Invalid value: field is immutable", "metadata.name")
            raise errors.invalid(resource, target.name, [cause])
        return Answer(200, self._replace(call, old, decoded.obj), decoded.warnings)

    def _replace(self, call: Call, old: Json, new: Json, *, applied: bool = False) -> Json:
        """Store a new state of an object."""
        resource = call.resource
        self._check_same(resource, old, new)
        validation.keep_metadata(old, new)
        new = _isolated(resource, call.target.subresource, old, new)
        new = defaults.fill(resource, new)
        if resource.custom:
            new["apiVersion"] = old["apiVersion"]
        validation.check_update(resource, old, new)
        self.admit(call, "UPDATE", old, new)
        if not applied:
            self._record(old, new, call, "Update")
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if call.options.dry_run:
            return self._store.preview(resource.key, new)
        return self._store.replace(resource.key, new)

    def _check_same(self, resource: resources.ResourceType, old: Json, new: Json) -> None:
        """The client must mean this object, and this state of it."""
        name, uid = old["metadata"]["name"], new["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            stored = old["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
            raise errors.conflict(resource, name, why)
        revision = new["metadata"].get("resourceVersion")
        if revision and revision != old["metadata"]["resourceVersion"]:
            raise errors.conflict(resource, name)

    # Apply

    def apply(self, call: Call, body: bodies.Body) -> Answer:
        """PATCH with an apply configuration: create the object or merge into it."""
        resource, target, options = call.resource, call.target, call.options
        config = self._configuration(call, body)
        shape, time = shapes.of(resource), stores.timestamp(self._store.clock.now())
        manager = self._manager(call, "Apply")
        old = self._store.get(resource.key, target.namespace, target.name)
        if old is None:
            if target.subresource:
                raise errors.not_found(resource, target.name)
            new = apply.create(config.obj, shape, manager, time)
            return Answer(201, self._create(call, new, applied=True), config.warnings)
        merged = apply.update(old, config.obj, shape, manager, time=time, force=options.force)
        if merged is old:
            return Answer(200, old, config.warnings)
        return Answer(200, self._replace(call, old, stores.copy(merged), applied=True), config.warnings)

    def _configuration(self, call: Call, body: bodies.Body) -> bodies.Decoded:
        resource, target = call.resource, call.target
        try:
            document = body.parse(as_yaml=True)
        except ValueError as error:
            raise errors.bad_request(f"error decoding YAML: {error}") from None
        decoded = bodies.conforming(document, resource, call.options.field_validation)
        config, metadata = decoded.obj, decoded.obj["metadata"]
        if metadata.setdefault("name", target.name) != target.name:
            raise _other_name(metadata["name"], target.name)
        if resource.namespaced:
            metadata.setdefault("namespace", target.namespace)
        if target.subresource == "status":
            config = {name: config[name] for name in ("apiVersion", "kind", "status") if name in config}
            kept = {
                name: metadata[name] for name in ("name", "namespace", "resourceVersion") if name in metadata
            }
            config["metadata"] = kept
        elif resource.has_status:
            config.pop("status", None)
        return bodies.Decoded(config, decoded.warnings)

    # Both

    def admit(self, call: Call, operation: admission.Operation, old: Json | None, new: Json | None) -> None:
        """Ask the admission hooks. Raises what they raise."""
        about: Json = new or old or {"metadata": {}}
        request = admission.AdmissionRequest(
            operation=operation,
            resource=call.resource,
            namespace=about["metadata"].get("namespace", ""),
            name=about["metadata"].get("name", ""),
            subresource=call.target.subresource,
            old=old,
            new=new,
            user=call.user,
            dry_run=call.options.dry_run,
        )
        for hook in tuple(self._hooks):
            hook(request)

    def _record(self, old: Json, new: Json, call: Call, operation: str) -> None:
        manager, time = self._manager(call, operation), stores.timestamp(self._store.clock.now())
        managed.record_update(old, new, shapes.of(call.resource), manager, time)

    def _manager(self, call: Call, operation: str) -> managed.Manager:
        return managed.Manager(
            name=call.options.manager,
            operation=operation,
            api_version=call.resource.api_version,
            subresource=call.target.subresource,
        )


def _other_name(name: str, expected: str) -> errors.ApiError:
    return errors.bad_request(
        f"the name of the object ({name}) does not match the name on the URL ({expected})"
    )


def _patched(current: Json, document: Any, content_type: str, shape: shapes.Shape) -> Json:
    if content_type == bodies.JSON_PATCH:
        return patch.json_patch(current, document)
    if content_type == bodies.MERGE_PATCH:
        return patch.merge_patch(current, document)
    return patch.strategic_merge_patch(current, document, shape)


def _isolated(resource: resources.ResourceType, subresource: str, old: Json, new: Json) -> Json:
    """The main resource does not change status, and `/status` changes nothing else.

    For custom types that includes metadata; built-in ones let labels and annotations pass.
    """
    if not resource.has_status:
        return new
    if subresource != "status":
        return _with(new, "status", old.get("status"))
    if resource.custom:
        metadata = {**old["metadata"], "managedFields": new["metadata"].get("managedFields")}
        if metadata["managedFields"] is None:
            del metadata["managedFields"]
        isolated: Json = stores.copy({**_with(old, "status", new.get("status")), "metadata": metadata})
        return isolated
    return _with(new, "spec", old.get("spec"))


def _with(obj: Json, field: str, value: Any) -> Json:
    rest = {name: item for name, item in obj.items() if name != field}
    return rest if value is None else {**rest, field: stores.copy(value)}
