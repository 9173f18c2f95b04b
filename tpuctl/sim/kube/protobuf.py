"""Kubernetes' binary encoding of the few kinds that kubectl sends in no other form.

kubectl's built-in commands (`create configmap`, `auth can-i`, `drain`) write protobuf whatever the server
prefers, and read JSON. An envelope names version and kind; what follows are numbered fields. Kinds and fields
that are not in the table are refused.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclasses.dataclass(frozen=True)
class _Field:
    """One line of the table, written `name:type`.

    The type is a scalar or another message, behind `[]` if it repeats and `{}` if it is a map from strings.
    Fields that are empty or zero count as not set unless a `?` follows.
    """

    name: str
    type: str
    repeated: bool
    mapped: bool
    keeps_zero: bool

    @classmethod
    def parse(cls, text: str) -> _Field:
        name, declared = text.split(":")
        kind = declared.strip("[]{}?")
        return cls(name, kind, "[]" in declared, "{}" in declared, declared.endswith("?"))


_MESSAGES: dict[str, dict[int, str]] = {
    "Unknown": {1: "typeMeta:TypeMeta", 2: "raw:raw", 3: "contentEncoding:string", 4: "contentType:string"},
    "TypeMeta": {1: "apiVersion:string", 2: "kind:string"},
    "ObjectMeta": {
        1: "name:string",
        2: "generateName:string",
        3: "namespace:string",
        4: "selfLink:string",
        5: "uid:string",
        6: "resourceVersion:string",
        7: "generation:int",
        8: "creationTimestamp:time",
        9: "deletionTimestamp:time",
        10: "deletionGracePeriodSeconds:int?",
        11: "labels:{}string",
        12: "annotations:{}string",
        13: "ownerReferences:[]OwnerReference",
        14: "finalizers:[]string",
    },
    "OwnerReference": {
        1: "kind:string",
        3: "name:string",
        4: "uid:string",
        5: "apiVersion:string",
        6: "controller:bool?",
        7: "blockOwnerDeletion:bool?",
    },
    "ConfigMap": {
        1: "metadata:ObjectMeta",
        2: "data:{}string",
        3: "binaryData:{}bytes",
        4: "immutable:bool?",
    },
    "Namespace": {1: "metadata:ObjectMeta", 2: "spec:NamespaceSpec", 3: "status:NamespaceStatus"},
    "NamespaceSpec": {1: "finalizers:[]string"},
    "NamespaceStatus": {1: "phase:string"},
    "Service": {1: "metadata:ObjectMeta", 2: "spec:ServiceSpec", 3: "status:ServiceStatus"},
    "ServiceSpec": {
        1: "ports:[]ServicePort",
        2: "selector:{}string",
        3: "clusterIP:string",
        4: "type:string",
        5: "externalIPs:[]string",
        7: "sessionAffinity:string",
        8: "loadBalancerIP:string",
        9: "loadBalancerSourceRanges:[]string",
        10: "externalName:string",
        11: "externalTrafficPolicy:string",
        12: "healthCheckNodePort:int",
        13: "publishNotReadyAddresses:bool",
        17: "ipFamilyPolicy:string",
        18: "clusterIPs:[]string",
        19: "ipFamilies:[]string",
    },
    "ServicePort": {
        1: "name:string",
        2: "protocol:string",
        3: "port:int",
        4: "targetPort:intOrString",
        5: "nodePort:int",
        6: "appProtocol:string",
    },
    "ServiceStatus": {1: "loadBalancer:LoadBalancerStatus"},
    "LoadBalancerStatus": {},
    "SelfSubjectReview": {1: "metadata:ObjectMeta", 2: "status:SelfSubjectReviewStatus"},
    "SelfSubjectReviewStatus": {1: "userInfo:UserInfo"},
    "UserInfo": {1: "username:string", 2: "uid:string", 3: "groups:[]string"},
    "SelfSubjectAccessReview": {
        1: "metadata:ObjectMeta",
        2: "spec:SelfSubjectAccessReviewSpec",
        3: "status:SubjectAccessReviewStatus",
    },
    "SelfSubjectAccessReviewSpec": {
        1: "resourceAttributes:ResourceAttributes",
        2: "nonResourceAttributes:NonResourceAttributes",
    },
    "ResourceAttributes": {
        1: "namespace:string",
        2: "verb:string",
        3: "group:string",
        4: "version:string",
        5: "resource:string",
        6: "subresource:string",
        7: "name:string",
    },
    "NonResourceAttributes": {1: "path:string", 2: "verb:string"},
    "SubjectAccessReviewStatus": {
        1: "allowed:bool",
        2: "reason:string",
        3: "evaluationError:string",
        4: "denied:bool",
    },
    "SelfSubjectRulesReview": {
        1: "metadata:ObjectMeta",
        2: "spec:SelfSubjectRulesReviewSpec",
        3: "status:SubjectRulesReviewStatus",
    },
    "SelfSubjectRulesReviewSpec": {1: "namespace:string"},
    "SubjectRulesReviewStatus": {3: "incomplete:bool", 4: "evaluationError:string"},
    "ServiceAccount": {1: "metadata:ObjectMeta", 4: "automountServiceAccountToken:bool?"},
    "TokenRequest": {1: "metadata:ObjectMeta", 2: "spec:TokenRequestSpec", 3: "status:TokenRequestStatus"},
    "TokenRequestSpec": {1: "audiences:[]string", 4: "expirationSeconds:int?"},
    "TokenRequestStatus": {1: "token:string", 2: "expirationTimestamp:time"},
    "Role": {1: "metadata:ObjectMeta", 2: "rules:[]PolicyRule"},
    "ClusterRole": {1: "metadata:ObjectMeta", 2: "rules:[]PolicyRule"},
    "PolicyRule": {
        1: "verbs:[]string",
        2: "apiGroups:[]string",
        3: "resources:[]string",
        4: "resourceNames:[]string",
        5: "nonResourceURLs:[]string",
    },
    "RoleBinding": {1: "metadata:ObjectMeta", 2: "subjects:[]Subject", 3: "roleRef:RoleRef"},
    "ClusterRoleBinding": {1: "metadata:ObjectMeta", 2: "subjects:[]Subject", 3: "roleRef:RoleRef"},
    "Subject": {1: "kind:string", 2: "apiGroup:string", 3: "name:string", 4: "namespace:string"},
    "RoleRef": {1: "apiGroup:string", 2: "kind:string", 3: "name:string"},
    "DeleteOptions": {
        1: "gracePeriodSeconds:int?",
        2: "preconditions:Preconditions",
        3: "orphanDependents:bool?",
        4: "propagationPolicy:string",
        5: "dryRun:[]string",
    },
    "Preconditions": {1: "uid:string", 2: "resourceVersion:string"},
}
"""Fields by number, from the published `generated.proto` files."""

_TABLE = {
    message: {number: _Field.parse(text) for number, text in fields.items()}
    for message, fields in _MESSAGES.items()
}
KINDS = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "DeleteOptions",
        "Namespace",
        "Role",
        "RoleBinding",
        "SelfSubjectAccessReview",
        "SelfSubjectReview",
        "SelfSubjectRulesReview",
        "Service",
        "ServiceAccount",
        "TokenRequest",
    }
)
"""Kinds that are understood."""


def decode(data: bytes, accepted: list[str]) -> Json:
    """The object in a request body.

    Raises `ApiError`: 400 if the bytes are damaged or hold an unknown field, 415 for a kind that is not
    understood here; its text offers the `accepted` media types.
    """
    if not data.startswith(MAGIC):
        raise errors.bad_request("the body is not in Kubernetes' protobuf envelope")
    try:
        envelope = _message("Unknown", data[len(MAGIC) :])
        head = envelope.get("typeMeta", {})
        if head.get("kind") not in KINDS:
            raise errors.unsupported_media_type(accepted)
        return {**head, **_message(head["kind"], envelope.get("raw", b""))}
    except (ValueError, OverflowError) as error:
        raise errors.bad_request(f"the protobuf body cannot be read: {error}") from None


def _message(name: str, data: bytes) -> Json:
    found: Json = {}
    for number, value in _fields(data):
        field = _TABLE[name].get(number)
        if field is None:
            raise ValueError(f"field {number} of {name} is not supported in protobuf")
        if field.mapped:
            key, item = _entry(field, value)
            found.setdefault(field.name, {})[key] = item
        elif field.repeated:
            found.setdefault(field.name, []).append(_value(field.type, value))
        else:
            found[field.name] = _value(field.type, value)
    kept = {field.name for field in _TABLE[name].values() if field.keeps_zero}
    return {key: value for key, value in found.items() if value or key in kept}


def _entry(field: _Field, data: int | bytes) -> tuple[str, Any]:
    pair = dict(_fields(_as_bytes(data)))
    return _value("string", pair.get(1, b"")), _value(field.type, pair.get(2, b""))


def _value(kind: str, value: int | bytes) -> Any:
    match kind:
        case "int":
            number = _as_int(value)
            return number - (1 << 64) if number >> 63 else number
        case "bool":
            return bool(_as_int(value))
        case "raw":
            return _as_bytes(value)
        case "string":
            return _as_bytes(value).decode()
        case "bytes":
            return base64.b64encode(_as_bytes(value)).decode()
        case "time":
            return _time(_as_bytes(value))
        case "intOrString":
            return _int_or_string(_as_bytes(value))
    return _message(kind, _as_bytes(value))


def _time(data: bytes) -> str | None:
    """RFC 3339; None for the empty message that stands for no time at all."""
    parts = dict(_fields(data))
    if 1 not in parts:
        return None
    moment = datetime.datetime.fromtimestamp(_value("int", parts[1]), datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    if _as_int(parts.get(1, 0)):
        return str(_value("string", parts.get(3, b"")))
    return int(_value("int", parts.get(2, 0)))


def _as_int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("expected a number")  # noqa: TRY004 - a damaged body, not a misuse
    return value


def _as_bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("expected bytes")  # noqa: TRY004 - a damaged body, not a misuse
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and raw values of the fields of a message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        if tag & 7 == _VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        length, position = _length(data, position, tag & 7)
        if position + length > len(data):
            raise ValueError("unexpected end of the body")
        yield tag >> 3, data[position : position + length]
        position += length


def _length(data: bytes, position: int, wire_type: int) -> tuple[int, int]:
    """How many bytes the value at `position` has, and where it begins."""
    if wire_type == _BYTES:
        return _varint(data, position)
    fixed = {_FIXED64: 8, _FIXED32: 4}.get(wire_type)
    if fixed is None:
        raise ValueError(f"wire type {wire_type} is unknown")
    return fixed, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:  # noqa: PLR2004 - numbers have 64 bits
            raise ValueError("unexpected end of a number")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the high bit says that more follows
            return value, position
