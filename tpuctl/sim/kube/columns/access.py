"""Columns of service accounts and of bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime


def _secrets(account: column.Object, _now: datetime.datetime) -> int:
    return len(account.get("secrets") or ())


def _role(binding: column.Object, _now: datetime.datetime) -> str:
    ref = binding.get("roleRef") or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _subjects(kind: str) -> column.Cell:
    def cell(binding: column.Object, _now: datetime.datetime) -> str:
        chosen = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
        shown = ("/".join(filter(None, (one.get("namespace"), one.get("name")))) for one in chosen)
        return ", ".join(shown)

    return cell


SERVICE_ACCOUNTS = (
    column.NAME,
    column.Column("Secrets", _secrets, "Secrets that the account lists.", type="integer"),
    column.AGE,
)
BINDINGS = (
    column.NAME,
    column.Column("Role", _role, "The role that is granted."),
    column.AGE,
    column.Column("Users", _subjects("User"), "Users who get it.", priority=1),
    column.Column("Groups", _subjects("Group"), "Groups who get it.", priority=1),
    column.Column("ServiceAccounts", _subjects("ServiceAccount"), "Service accounts who get it.", priority=1),
)
