"""How the simulated service behaves: every duration, limit and disputed rule in one table.

Each field says where its value comes from. "Published" means Google's documentation, its API types or the
source of one of its clients says so. "Assumed" means nothing published was found: the value is a guess of the
right order, and a program that depends on it is wrong. Times are simulated seconds.
"""

from __future__ import annotations

import dataclasses
import math

DAY_S = 86_400.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Behaviour:
    """The table. Make another with `dataclasses.replace` or keyword arguments."""

    # Slices

    slice_accept_s: float = 1.0
    """From the creation of a Slice to its finalizer and first condition. Assumed: not published."""

    slice_check_s: float = 2.0
    """SliceNotCreated lasts this long: the controller checks its inputs. Assumed: not published."""

    formation_base_s: float = 20.0
    """ACTIVATING for one cube or a part of one. Assumed: published is only "in seconds"."""

    formation_doubling_s: float = 4.2
    """Added to ACTIVATING for each doubling of cubes, so 32 cubes take 41 s. Assumed: not published."""

    formation_timeout_s: float = 180.0
    """A slice that cannot finish ACTIVATING becomes FAILED. Assumed: the real limit is not published."""

    deformation_s: float = 15.0
    """DEACTIVATING, for any size. Assumed: not published."""

    incomplete_s: float = 5.0
    """INCOMPLETE, the last phase before the object goes away. Assumed: only the phase is published."""

    settle_s: float = 15.0
    """For so long after a deletion, a new slice on the same partitions gets SliceCreationFailed.
    Assumed from one field note that waits 15 s; not published."""

    retry_interval_s: float = 10.0
    """Between attempts of a slice that asked for retry-on-failure. Assumed: not published."""

    slice_spec_updates_allowed: bool = False
    """If true, the webhook lets a Slice's spec change. Assumed false: the fields are described as immutable,
    but whether the webhook enforces it is not published."""

    slice_label_latency_s: float = 1.0
    """From a slice's change of state to the labels on its nodes. Assumed: not published."""

    partition_label_latency_s: float = 10.0
    """From a hardware event to the partition -state labels. Assumed: not published."""

    slice_break_s: float = 5.0
    """From a host failure to the reaction of the slice on it. Assumed: not published."""

    chip_error_state: str = "UNHEALTHY"
    """Label of the partitions whose chips have an error while their nodes stay Ready. Published is only that
    such a host can be reported (CHIP_ERROR); how GKE shows it by itself is assumed. HEALTHY: not at all."""

    chip_error_breaks_slices: bool = True
    """If true, a chip error is a critical failure of the slice it happens under. Assumed: published is that
    critical failures take a slice apart, not which failures are."""

    hung_guest_is_unseen: bool = False
    """If true, a guest that hangs on a machine in order makes its node silent and nothing else: the -state
    labels stay as they were, and so does a slice on it. Assumed: published is that failures of hosts show,
    not whether a guest that no longer reports is one."""

    dismantle_retry_s: float = 60.0
    """From a dismantling that failed to the next attempt. Assumed: neither failure nor retry is published."""

    block_mismatch_s: float = 5.0
    """From ACTIVATING to FAILED if the partitions are not of one block and reservation. The result is
    published; the time is assumed."""

    failed_slices_hold_partitions: bool = True
    """If true, a FAILED slice keeps its partitions from others until it is deleted. Assumed: published is
    only that nodes "already used by another slice" are refused."""

    broken_slices_deactivate: bool = True
    """If true, a host failure takes an active slice through DEACTIVATING (without a deletionTimestamp) to
    FAILED; if false, straight to FAILED. Both words are published for critical failures; the order is
    assumed."""

    pods_fail_with_their_slice: bool = False
    """If true, running pods fail when their slice is taken apart. Published is that nothing blocks the
    deletion and that it cuts the ICI under them; what their processes do then is assumed: they hang."""

    slice_name_max_length: int = 49
    """Longest Slice name the webhook accepts. Published: 49 in newer documents, 54 in an older one."""

    duplicate_partitions_allowed: bool = False
    """If true, the webhook lets a partition be named twice. Assumed: not published."""

    # Nodes and VMs

    vm_boot_s: float = 60.0
    """From VM start to a Ready node, before stagger. Assumed: not published."""

    vm_boot_spread_s: float = 45.0
    """The hosts of one pool become Ready spread over so much time. Assumed: not published."""

    node_unready_s: float = 40.0
    """From a host's death to Ready=Unknown on its node: Kubernetes' node-monitor-grace-period, published as
    40 s for a long time and 50 s in newer releases."""

    pod_start_s: float = 3.0
    """From binding to Running. Assumed: image pulls are not simulated."""

    pod_stop_s: float = 2.0
    """From the deletion of a running pod to its end, if its grace period is not shorter. Assumed: the
    container ends soon after the signal."""

    schedule_s: float = 0.1
    """From a pod's creation to the scheduler's decision. Assumed: small, and not zero."""

    pod_run_s: float | None = None
    """How long a container runs before it exits 0; None means it runs until it is deleted. Assumed."""

    # Node pools and the cluster

    pool_vm_request_s: float = 60.0
    """From the create call until its VMs start. Assumed: not published."""

    pool_finish_s: float = 30.0
    """From the last node's Ready until the create operation is DONE. Assumed: not published. With boot times
    a creation takes about 3 minutes; clients are known to allow 30."""

    pool_stockout_s: float = 120.0
    """Until a creation that gets no VM at all ends in error. Assumed: not published."""

    pool_delete_s: float = 180.0
    """From the delete call until the pool is gone. Assumed: not published."""

    pool_drain_s: float = 60.0
    """From the delete or shrink call until the VMs, and the nodes, go away. Assumed: not published."""

    pool_resize_s: float = 120.0
    """A setSize operation takes at least so long. Assumed: not published."""

    cluster_update_s: float = 240.0
    """Switching the slice controller on or off. Assumed: not published."""

    operations_in_flight: int = 20
    """Node-pool operations that may run at once in one cluster; more get 429. Assumed: no limit is published;
    one known client starts up to 100 calls at once, another keeps to 3."""

    channel_demands_management: bool = True
    """If true, a pool with auto-upgrade or auto-repair off is refused, because the cluster is in a release
    channel. Text and rule are known from error reports of public clients (RAPID and REGULAR); assumed is that
    they hold for these versions, and the text where auto-repair alone is off."""

    node_upgrades_excluded: bool = True
    """If true, the cluster comes with a maintenance exclusion that keeps node upgrades away until the end of
    support. Published examples for dynamic slicing add one; that clusters here have it is our choice, since
    nothing is upgraded in either case. The fields are published."""

    partial_pool_status: str = "RUNNING_WITH_ERROR"
    """Status of a pool that came up with fewer nodes than asked. Assumed: the word is published for "created
    and only partly usable", but not which status incremental provisioning shows."""

    partial_pool_operation_fails: bool = False
    """If true, the operation that created a partial pool ends with an error. Assumed: not published."""

    error_pool_fills_in: bool = True
    """If true, a pool in ERROR for want of healthy hosts gets nodes when hosts are repaired; its status stays
    ERROR. Assumed from one field note on the same mechanism."""

    pool_delete_blocked_by_slices: bool = True
    """If true, deleting or shrinking a pool under a Slice is a FAILED_PRECONDITION. That active slices block
    deletion is published by a partner; the code, the text and the rule for shrinking are assumed."""

    controller_off_blocked_by_slices: bool = True
    """If true, the slice controller cannot be switched off while Slices exist. Assumed: published is only the
    order to follow (no Slices first), not what happens otherwise."""

    operation_memory_s: float = 3_650 * DAY_S
    """For so long after its end an operation can be read. Assumed: that operations expire is known from
    clients that stumbled over it, after what time is not published; ten years keep any rehearsal readable."""

    # Compute Engine

    policy_operation_s: float = 2.0
    """Creating or deleting a resource policy. Assumed: not published."""

    reset_operation_s: float = 5.0
    """The reset operation itself; the node is away for the boot time. Assumed: not published."""

    report_faulty_s: float = 660.0
    """The reportHostAsFaulty operation. Published: 10 to 12 minutes."""

    repair_start_s: float = 60.0
    """From the end of an IMMEDIATE report to the start of the repair. Published: about 1 minute."""

    future_repair_start_s: float = DAY_S
    """The same for a FUTURE report. Assumed: published is only "later"."""

    repair_s: float = 5 * DAY_S
    """A host's repair after a report. Published: 3 to 14 days, or longer."""

    maintenance_notice_s: float = 90 * DAY_S
    """Planned maintenance is announced so long before. Published: about 90 days."""

    maintenance_s: float = 4 * 3_600.0
    """Length of a maintenance window if nobody says otherwise. Assumed: not published."""

    maintenance_drain_s: float = 60.0
    """From the opening of the window, which taints the nodes, to the stop of their VMs. Assumed: published is
    that nodes are tainted before they stop, and that pods may ask for up to an hour."""

    group_settle_s: float = 5.0
    """The instance group stays unstable so long after its last change. Assumed: not published."""

    gke_version: str = "1.36.0-gke.3712000"
    """Version of the control plane and the nodes. Published: the first one with sub-slicing."""

    def formation_s(self, cubes: int) -> float:
        """Return how long a slice of `cubes` cubes stays ACTIVATING (a sub-slice counts as one cube)."""
        return self.formation_base_s + self.formation_doubling_s * math.log2(max(cubes, 1))
