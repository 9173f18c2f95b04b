"""Columns of the kinds that are stored and little else: namespaces, config maps, leases, services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime


def _namespace_status(namespace: column.Object, _now: datetime.datetime) -> str:
    return str(namespace.get("status", {}).get("phase", "Active"))


def _config_map_size(config_map: column.Object, _now: datetime.datetime) -> str:
    return str(len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ()))


def _lease_holder(lease: column.Object, _now: datetime.datetime) -> str:
    return str(lease.get("spec", {}).get("holderIdentity") or "")


NAMESPACES = (column.NAME, column.Column("Status", _namespace_status, "Active or Terminating."), column.AGE)
CONFIG_MAPS = (column.NAME, column.Column("Data", _config_map_size, "Number of entries."), column.AGE)
LEASES = (column.NAME, column.Column("Holder", _lease_holder, "Who holds the lease."), column.AGE)


def _service_type(service: column.Object, _now: datetime.datetime) -> str:
    return str(service.get("spec", {}).get("type") or "ClusterIP")


def _service_ip(service: column.Object, _now: datetime.datetime) -> str:
    # "None" is how a headless service spells that it has no address; a missing one prints as <none>.
    return str(service.get("spec", {}).get("clusterIP") or column.NONE)


def _service_external(service: column.Object, _now: datetime.datetime) -> str:
    spec = service.get("spec", {})
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") == "ExternalName":
        addresses = [spec.get("externalName", "")]
    return ",".join(addresses) or column.NONE


def _service_ports(service: column.Object, _now: datetime.datetime) -> str:
    return ",".join(map(_service_port, service.get("spec", {}).get("ports") or ())) or column.NONE


def _service_port(port: column.Object) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{outside}/{port.get('protocol', 'TCP')}"


def _service_selector(service: column.Object, _now: datetime.datetime) -> str:
    return column.pairs(service.get("spec", {}).get("selector"))


SERVICES = (
    column.NAME,
    column.Column("Type", _service_type, "How the service is reached."),
    column.Column("Cluster-IP", _service_ip, "Address inside the cluster."),
    column.Column("External-IP", _service_external, "Address outside the cluster."),
    column.Column("Port(s)", _service_ports, "Ports and protocols."),
    column.AGE,
    column.Column("Selector", _service_selector, "Labels of the pods behind it.", priority=1),
)
