"""Files that declare a fleet, for tests."""

HEAD = """\
apiVersion: tpuctl/v1
kind: Fleet
name: f
reservations:
- name: r1
  blocks:
  - name: b1
    cubes: 64
    spares: 2
  - {name: b2, cubes: 32}
teams: {red: 1, blue: 2}
"""
FIRST = HEAD.count("\n") + 1
"""The line after the head."""

EVERYTHING = """\
hooks:
  swap-done:
  - command: [/bin/page, "on call"]
    timeout: 2m
  slice-formed:
  - command: [/bin/notify]
  - command: [/bin/log, formed]
kind: Fleet
apiVersion: tpuctl/v1
name: all
context: prod
reservations:
- name: projects/owner/reservations/r1
  blocks:
  - name: b1
    cubes: 100
    spares: 3
    pools:
      namePrefix: tpu
      policy: my-policy
      autoRepair: false
      autoUpgrade: false
      maxSurge: 0
      maxUnavailable: 8
      incompleteGrace: 2d
      errorGrace: 90m
- name: r2
  blocks: [{name: b2}]
slices:
- name: big
  topology: 8x8x16
  fallback: [8x8x8, 4x8x8, 2x4x4]
  count: 2
  block: b1
  priority: 7
  team: red
  preemptible: true
  minRunTime: 1.5h
  health: usable
  onDeletion: reform
- {name: pair, chips: 512, count: 2, gang: true, sameBlock: true}
- {name: left, chips: 16, gang: both}
- {name: right, topology: 2x2x1, gang: both}
teams: {red: 2, blue: 0.5}
sparesBelow: 5
adoptForeign: true
prune: false
pruneGrace: 10
budgets: {disruptedChipsPerHour: 2048, cubesInRepairPerBlock: 0, poolOperationsInFlight: 9}
breaker: {percent: 12.5, cubes: 5, minimumCubes: 3}
windows:
- {name: night, days: [sun, mon], from: 23:30, for: 4h}
remediation:
  reboot: allow
  reprovision: off
  failover: recommend
  remove: off
  cooldown: 1h
  attempts: 3
  expiry: 2h
  secondApprover: true
consolidation: {enabled: false, moveCost: 10m, horizon: 12h, settle: 0s}
"""
