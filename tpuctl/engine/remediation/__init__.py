"""What to do about faults: one review over what is seen, what is proposed and what is under way.

world        what a review knows
rules        the table from what is wrong to the remedies, mildest first
findings     what is wrong with hosts and node pools, and how sure that is
failovers    cubes that must leave a slice before anything else is done to them
ladder       attempts, cooldowns, refusals: which rung comes next
cases        findings made into cases that a person can decide on
beginning    which of them begin now, and what the others wait for
progress     what has become of repairs that were begun
reviewing    all of it: propose, withdraw, escalate, expire, begin
"""

from tpuctl.engine.remediation.cases import examine
from tpuctl.engine.remediation.findings import suspects
from tpuctl.engine.remediation.progress import Signs
from tpuctl.engine.remediation.reviewing import Changes, review
from tpuctl.engine.remediation.rules import RULES, Rule
from tpuctl.engine.remediation.world import World

__all__ = ["RULES", "Changes", "Rule", "Signs", "World", "examine", "review", "suspects"]
