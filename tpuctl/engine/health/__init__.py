"""Health: one judgement per cube, partition and slice, fused from every source there is.

hosts          nodes: readiness, chips, conditions, taints, maintenance
labels         partition state labels of all five shapes
pools          node pools, and whether all nodes are there
reservations   the Compute API: health, topologies, maintenance
slices         Ready conditions of Slices
fusing         the worst counts, contradictions are named
judging        who is asked about what
"""

from tpuctl.engine.health.judging import judge, judge_part, judge_slice
from tpuctl.model.health import Judgement

__all__ = ["Judgement", "judge", "judge_part", "judge_slice"]
