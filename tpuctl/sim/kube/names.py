"""Rules for names, labels and annotations, with the texts an API server gives for a breach.

Each function returns what is wrong, or None.
"""

from __future__ import annotations

import re

DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
QUALIFIED_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

MAX_SUBDOMAIN, MAX_LABEL = 253, 63


def too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def subdomain_problem(name: str) -> str | None:
    """Names of most objects."""
    if len(name) > MAX_SUBDOMAIN:
        return too_long(MAX_SUBDOMAIN)
    if not re.fullmatch(DNS_SUBDOMAIN, name):
        return (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            f"validation is '{DNS_SUBDOMAIN}')"
        )
    return None


def label_problem(name: str) -> str | None:
    """Names of namespaces and containers."""
    if len(name) > MAX_LABEL:
        return too_long(MAX_LABEL)
    if not re.fullmatch(DNS_LABEL, name):
        return (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
            "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
            f"validation is '{DNS_LABEL}')"
        )
    return None


def service_problem(name: str) -> str | None:
    """Names of services."""
    if len(name) > MAX_LABEL:
        return too_long(MAX_LABEL)
    if not re.fullmatch(DNS_1035_LABEL, name):
        return (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
            "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
            f"regex used for validation is '{DNS_1035_LABEL}')"
        )
    return None


RBAC_KINDS = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")


def path_segment_problem(name: str) -> str | None:
    """Names of roles and bindings, such as `system:discovery`: whatever fits between two slashes."""
    if name in {".", ".."}:
        return f"may not be '{name}'"
    return next((f"may not contain '{mark}'" for mark in "/%" if mark in name), None)


def label_value_problem(value: str) -> str | None:
    if len(value) > MAX_LABEL:
        return too_long(MAX_LABEL)
    if not re.fullmatch(LABEL_VALUE, value):
        return (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
            f"'12345', regex used for validation is '{LABEL_VALUE}')"
        )
    return None


def qualified_problem(name: str) -> str | None:
    """Keys of labels, annotations and finalizers: an optional DNS prefix, "/", a name."""
    prefix, slash, rest = name.rpartition("/")
    if slash and (not prefix or not re.fullmatch(DNS_SUBDOMAIN, prefix) or len(prefix) > MAX_SUBDOMAIN):
        return f"prefix part {subdomain_problem(prefix) or 'must be non-empty'}"
    if len(rest) > MAX_LABEL:
        return f"name part {too_long(MAX_LABEL)}"
    if not re.fullmatch(QUALIFIED_NAME, rest):
        return (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
            "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            f"validation is '{QUALIFIED_NAME}')"
        )
    return None
