"""The reconcile loop: keep a fleet at its declared state, unattended.

settings      what a loop is told: declared state, policies, hooks
views         the whole world at one moment, or an error
memory        what the loop knows from earlier cycles
pauses        a person's word that it shall not act
leadership    one loop acts at a time
gates         checks before every write
acting        actions one by one, each by the operation that a person would use
cycle         observe, decide, act, remember
loop          cycle after cycle
plans         a plan as a file
status, history   what it does, for people
"""
