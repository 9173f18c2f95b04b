"""Label and field selectors of lists and watches."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors, names

if TYPE_CHECKING:
    from tpuctl.sim.kube import resources

Json = dict[str, Any]
Selector = Callable[[Json], bool]
"""Whether an object is selected."""

TOKEN = re.compile(r"\s*(!=|==|=|!|\(|\)|,|>|<|[^\s=!(),<>]+)")

PUNCTUATION = frozenset({"=", "==", "!", "!=", "(", ")", ",", "<", ">"})

FIELDS: dict[str, tuple[str, ...]] = {
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "jobs.batch": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "services": ("spec.clusterIP", "spec.type"),
}
"""Fields that a built-in type can be selected by, beside its name and namespace."""

DEFAULTS = {
    ("nodes", "spec.unschedulable"): "false",
    ("pods", "spec.hostNetwork"): "false",
    ("jobs.batch", "status.successful"): "0",
}
"""What a field counts as when the object does not have it; the empty string otherwise."""

PLACES = {"source": ("source", "component"), "status.successful": ("status", "succeeded")}
"""Selectable fields that are stored under another path."""


@dataclasses.dataclass(frozen=True)
class Requirement:
    """One condition on a label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Json) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
        return _compares(value, self.operator, next(iter(self.values)))


def _compares(value: str | None, operator: str, bound: str) -> bool:
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) > int(bound) if operator == ">" else int(value) < int(bound)


class _Parser:
    """Reads a label selector as apimachinery does: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`."""

    def __init__(self, text: str) -> None:
        self._tokens = TOKEN.findall(text)
        self._place = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek():
            found.append(self._requirement())
            if self._peek() == ",":
                self._next()
                if not self._peek():
                    raise self._unexpected("identifier after ','")
            elif self._peek():
                raise self._unexpected("',' or 'end of string'")
        return found

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._place += 1
        return token

    def _unexpected(self, expected: str) -> errors.ApiError:
        found = self._peek()
        return errors.bad_request(f"unable to parse requirement: found '{found}' expected: {expected}")

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        if not self._peek() or self._peek() in PUNCTUATION:
            raise self._unexpected("identifier")
        key = self._key()
        if absent or self._peek() in {"", ","}:
            return Requirement(key, "!" if absent else "exists")
        return self._comparison(key)

    def _key(self) -> str:
        key = self._next()
        problem = names.qualified_problem(key)
        if problem:
            message = f'unable to parse requirement: <nil>: Invalid value: "{key}": {problem}'
            raise errors.bad_request(message)
        return key

    def _comparison(self, key: str) -> Requirement:
        operator = self._next()
        if operator in {"in", "notin"}:
            return Requirement(key, operator, self._set())
        if operator in {"=", "==", "!="}:
            value = "" if self._peek() in {"", ","} else self._value()
            return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))
        if operator in {">", "<"}:
            return Requirement(key, operator, frozenset({self._number(key)}))
        self._place -= 1
        raise self._unexpected("in, notin, =, ==, !=, gt, lt")

    def _value(self) -> str:
        value = self._next()
        problem = names.label_value_problem(value)
        if problem:
            message = f'unable to parse requirement: values[0]: Invalid value: "{value}": {problem}'
            raise errors.bad_request(message)
        return value

    def _number(self, key: str) -> str:
        value = self._value()
        if not re.fullmatch(r"-?\d+", value):
            message = f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": '
            raise errors.bad_request(message + "for 'Gt', 'Lt' operators, the value must be an integer")
        return value

    def _set(self) -> frozenset[str]:
        if self._next() != "(":
            self._place -= 1
            raise self._unexpected("'('")
        values = set()
        while True:
            values.add("" if self._peek() in {",", ")"} else self._value())
            separator = self._next()
            if separator == ")":
                return frozenset(values)
            if separator != ",":
                self._place -= 1
                raise self._unexpected("',' or ')'")


def labels(text: str) -> Selector | None:
    """Parse a label selector; None if it selects everything. Raises `ApiError` (400)."""
    requirements = _Parser(text).requirements()
    if not requirements:
        return None

    def selected(obj: Json) -> bool:
        found = obj["metadata"].get("labels") or {}
        return all(requirement.holds(found) for requirement in requirements)

    return selected


def supported_fields(resource: resources.ResourceType) -> frozenset[str]:
    """Fields that a type can be selected by."""
    if resource.definition is not None:
        version = next(
            item for item in resource.definition["spec"]["versions"] if item["name"] == resource.version
        )
        declared = (item["jsonPath"].lstrip(".") for item in version.get("selectableFields") or ())
        return frozenset({"metadata.name", "metadata.namespace", *declared})
    names_ = ("metadata.name",) if resource.plural in {"nodes", "namespaces"} else NAMES
    return frozenset({*names_, *FIELDS.get(resource.key, ())})


NAMES = ("metadata.name", "metadata.namespace")


@dataclasses.dataclass(frozen=True)
class FieldTerm:
    """One condition on a field."""

    field: str
    equal: bool
    value: str


def field_terms(text: str, resource: resources.ResourceType) -> tuple[FieldTerm, ...]:
    """Parse a field selector. Raises `ApiError` (400) for bad syntax or an unsupported field."""
    terms = []
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]*)(!=|==|=)(.*)", part)
        if not found:
            raise errors.bad_request(f"invalid field selector: '{part}'; can't understand '{part}'")
        field, operator, value = found.groups()
        if field not in supported_fields(resource):
            raise errors.bad_request(f"field label not supported: {field}")
        terms.append(FieldTerm(field, operator != "!=", value))
    return tuple(terms)


def fields(terms: tuple[FieldTerm, ...], resource: resources.ResourceType) -> Selector | None:
    """The selector of those terms; None if it selects everything."""
    if not terms:
        return None

    def selected(obj: Json) -> bool:
        return all((_field(obj, term.field, resource.key) == term.value) is term.equal for term in terms)

    return selected


def _field(obj: Json, field: str, key: str) -> str:
    value: Any = obj
    for part in PLACES.get(field, tuple(field.split("."))):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return DEFAULTS.get((key, field), "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def combined(first: Selector | None, second: Selector | None) -> Selector | None:
    """Both selectors at once; None if neither restricts anything."""
    if first is None or second is None:
        return first or second
    return lambda obj: first(obj) and second(obj)
