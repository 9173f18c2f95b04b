"""Broken files that declare a fleet: what is added, on which line after it the fault is, and what is said."""

from tests.fleet_files import FIRST

WINDOW = "{name: w, days: [mon], from: 02:00, for: 1h}"
FAULTS = [
    # Keys.
    ("prunne: true\n", 0, "unknown key 'prunne'; did you mean 'prune'?"),
    ("prune: true\nprune: true\n", 1, f"key 'prune' is here twice (see line {FIRST})"),
    (
        "slices:\n- name: a\n  topolgy: 4x4x4\n",
        2,
        "unknown key 'topolgy' under 'slices'; did you mean 'topology'?",
    ),
    (
        "budgets:\n  chips: 1\n",
        1,
        "unknown key 'chips' under 'budgets'; keys here are: cubesInRepairPerBlock, ",
    ),
    ("hooks:\n  slice-form: []\n", 1, "unknown key 'slice-form' under 'hooks'; did you mean 'slice-formed'?"),
    ("? [a]\n: 1\n", 0, "a key must be a text"),
    ("<<: {prune: true}\n", 0, "unknown key '<<'"),
    # Kinds of values.
    ("prune: yes\n", 0, "prune: expected true or false"),
    ("prune:\n", 0, "prune: expected true or false"),
    ("context:\n", 0, "context: expected a name"),
    ("sparesBelow: 1.0\n", 0, "sparesBelow: expected a whole number"),
    ("sparesBelow: true\n", 0, "sparesBelow: expected a whole number"),
    ("sparesBelow: 99999999999999999999999999\n", 0, "sparesBelow: expected a whole number"),
    ("prune: !!int soon\n", 0, "a value that cannot be read: 'soon'"),
    ("prune: !!python/name:os.system a\n", 0, "tag 'python/name:os.system' means nothing here"),
    ("slices: &all\n- *all\n", 0, "a value that holds itself"),
    ("slices: {a: 4x4x4}\n", 0, "slices: expected a list"),
    ("slices: [4x4x4]\n", 0, "slices: expected keys"),
    ("budgets: 5\n", 0, "budgets: expected keys"),
    ("pruneGrace: soon\n", 0, "pruneGrace: 'soon' is not a span of time; write for example 90s"),
    ("pruneGrace: -5m\n", 0, "pruneGrace: '-5m' is not a span of time"),
    ("pruneGrace: 99999d\n", 0, "pruneGrace: expected from 0s to 3650d"),
    # Slices.
    ("slices:\n- topology: 4x4x4\n", 1, "key 'name' is missing under 'slices'"),
    ("slices:\n- {name: Big, topology: 4x4x4}\n", 1, "name: slice name 'Big' is not allowed: small letters"),
    (f"slices:\n- {{name: {'a' * 50}, chips: 64}}\n", 1, f"name: slice name '{'a' * 50}' has 50 characters"),
    (
        f"slices:\n- name: {'a' * 48}\n  chips: 64\n  count: 2\n",
        3,
        f"count: slice name '{'a' * 48}-1' has 50",
    ),
    ("slices:\n- name: a\n", 1, "slice 'a': say either topology or chips"),
    ("slices:\n- name: a\n  topology: 4x4x4\n  chips: 64\n", 3, "slice 'a': say either topology or chips"),
    (
        "slices:\n- name: a\n  topology: 4x4x6\n",
        2,
        "topology: topology 4x4x6 is not allowed: every dimension must be",
    ),
    ("slices:\n- {name: a, topology: 8x4x4}\n", 1, "(nearest legal shapes: 4x4x8"),
    (
        "slices:\n- {name: a, chips: 100}\n",
        1,
        "chips: no slice has exactly 100 chips (the nearest are 64 and 128)",
    ),
    (
        "slices:\n- name: a\n  chips: 64\n  fallback:\n  - 2x4x4\n  - 2x2x3\n",
        5,
        "fallback: topology 2x2x3 is not",
    ),
    (
        "slices:\n- name: a\n  topology: 4x4x8\n  fallback:\n  - 4x4x4\n  - 4x4x4\n",
        5,
        "fallback: 4x4x4 has 64 chips, not fewer than 4x4x4 before it (64)",
    ),
    (
        "slices:\n- {name: a, chips: 64, fallback: [4x4x8]}\n",
        1,
        "fallback: 4x4x8 has 128 chips, not fewer than 4x4x4",
    ),
    ("slices:\n- {name: a, chips: 64, count: 0}\n", 1, "count: expected at least 1"),
    ("slices:\n- {name: a, chips: 4, count: 100001}\n", 1, "count: expected at most 100,000"),
    ("slices:\n- {name: a, chips: 64, health: helthy}\n", 1, "did you mean 'healthy'?"),
    (
        "slices:\n- {name: a, chips: 64, onDeletion: never}\n",
        1,
        "onDeletion: expected one of recommend, reform",
    ),
    ("slices:\n- {name: a, chips: 64, gang: 5}\n", 1, "gang: expected true (a gang of its own), or a word"),
    # Names and references.
    (
        "slices:\n- {name: a, chips: 64}\n- {name: a, chips: 64}\n",
        2,
        f"slice 'a' is wanted twice (see line {FIRST + 1})",
    ),
    (
        "slices:\n- {name: a, chips: 64, count: 3}\n- {name: a-2, chips: 64}\n",
        2,
        f"slice 'a-2' is wanted twice (a is numbered from 0) (see line {FIRST + 1})",
    ),
    (
        "slices:\n- {name: a, chips: 64, block: b3}\n",
        1,
        "block: there is no block 'b3' under reservations; blocks are: b1, b2",
    ),
    (
        "slices:\n- {name: a, chips: 64, team: rde}\n",
        1,
        "team: there is no team 'rde' under teams; did you mean 'red'?",
    ),
    ("slices:\n- {name: a, chips: 64, team: green}\n", 1, "; teams are: blue, red"),
    # Gangs.
    (
        "slices:\n- {name: a, chips: 64, count: 2, sameBlock: true}\n",
        1,
        "sameBlock: only a gang can be held together",
    ),
    (
        "slices:\n- {name: a, chips: 64, gang: g, sameBlock: true}\n",
        1,
        "sameBlock: gang 'g' has one slice only",
    ),
    (
        "slices:\n- {name: a, chips: 64, gang: g, block: b1}\n- {name: b, chips: 64, gang: g, block: b2}\n",
        2,
        f"block: the entries of gang 'g' must say the same, 'a' and 'b' do not (see line {FIRST + 1})",
    ),
    (
        "slices:\n- {name: a, chips: 64, gang: g}\n- {name: b, chips: 64, gang: g, priority: 3}\n",
        2,
        "priority: the entries of gang 'g' must say the same",
    ),
    (
        "slices:\n- {name: a, chips: 64, gang: g, sameBlock: true}\n- {name: b, chips: 64, gang: g}\n",
        2,
        "sameBlock: the entries of gang 'g' must say the same",
    ),
    (
        "slices:\n- {name: a, chips: 64, count: 2, gang: true}\n- {name: b, chips: 64, gang: a}\n",
        2,
        "gang: 'a' is also the name of an entry that is a gang of its own",
    ),
    # What can never fit: b1 has 64 cubes with 2 spares, b2 32.
    (
        "slices:\n- name: a\n  topology: 16x16x16\n",
        2,
        "slice 'a' can never be formed as 16x16x16 of 64 cubes: block 'b1' has 64, 2 of them spares",
    ),
    (
        "slices:\n- name: a\n  block: b2\n  chips: 2304\n",
        3,
        "can never be formed as 12x12x16 of 36 cubes: block 'b2' has 32",
    ),
    (
        "budgets: {disruptedChipsPerHour: 0}\nslices:\n- name: a\n  chips: 9216\n  fallback: [4x4x4]\n",
        3,
        "can never be formed as 16x24x24 of 144 cubes: block 'b1' has 64",
    ),
    (
        "slices:\n- {name: a, topology: 8x16x16, count: 3}\n",
        1,
        "count: never more than 2 slices of 8x16x16 fit",
    ),
    (
        "slices:\n- {name: a, topology: 2x4x4, count: 65, block: b2}\n",
        1,
        "count: never more than 64 slices of 2x4x4 fit",
    ),
    (
        "slices:\n- {name: a, topology: 8x16x16, count: 2, gang: true, sameBlock: true}\n",
        1,
        "gang 'a' needs 64 cubes at least, in one block, and can never be formed",
    ),
    (
        "slices:\n- {name: a, chips: 2048, gang: g}\n- {name: b, chips: 4, gang: g, count: 1000}\n",
        1,
        "gang 'g' needs 95 cubes at least, in all of it, and can never be formed",
    ),
    # Limits.
    ("breaker: {percent: 0}\n", 0, "percent: expected more than 0"),
    ("breaker: {percent: 100.5}\n", 0, "percent: expected at most 100"),
    ("breaker: {percent: .nan}\n", 0, "percent: expected a number"),
    ("breaker:\n  cubes: 2\n  minimumCubes: 3\n", 2, "minimumCubes: 3 is more than cubes (2)"),
    ("budgets: {disruptedChipsPerHour: -1}\n", 0, "disruptedChipsPerHour: expected at least 0"),
    (
        "budgets:\n  disruptedChipsPerHour: 100\nslices: [{name: a, chips: 128}]\n",
        1,
        f"100 chips never suffice for slice 'a', which has 128 (see line {FIRST + 2}); say 128 or more",
    ),
    # Windows.
    ("windows: [{name: w, days: [], from: 02:00, for: 1h}]\n", 0, "days: expected at least 1"),
    ("windows: [{name: w, days: [monday], from: 02:00, for: 1h}]\n", 0, "did you mean 'mon'?"),
    ("windows: [{name: w, days: [mon, mon], from: 02:00, for: 1h}]\n", 0, "day 'mon' is here twice"),
    ("windows: [{name: w, days: [mon], from: 2am, for: 1h}]\n", 0, "from: expected a time of day in UTC"),
    ("windows: [{name: w, days: [mon], from: 24:00, for: 1h}]\n", 0, "from: expected a time of day in UTC"),
    ("windows: [{name: w, days: [mon], from: 02:00, for: 0h}]\n", 0, "for: expected from 1m to 7d"),
    ("windows: [{name: w, days: [mon], from: 02:00, for: 8d}]\n", 0, "for: expected from 1m to 7d"),
    ("windows: [{name: w, days: [mon], from: 02:00}]\n", 0, "key 'for' is missing under 'windows'"),
    (
        f"windows:\n- {WINDOW}\n- {WINDOW}\n",
        2,
        f"window 'w' is here twice (see line {FIRST + 1})",
    ),
    # Remediation and hooks.
    (
        "remediation: {remove: alow}\n",
        0,
        "remove: expected one of recommend, allow, off; did you mean 'allow'?",
    ),
    ("remediation: {remove: false}\n", 0, "remove: expected one of recommend, allow, off"),
    ("remediation: {attempts: 0}\n", 0, "attempts: expected at least 1"),
    ("remediation: {expiry: 0s}\n", 0, "expiry: expected from 1s to 3650d"),
    (
        "hooks:\n  slice-formed:\n  - command: notify --all\n",
        2,
        "command: expected a list: the program, then its",
    ),
    ("hooks:\n  slice-formed:\n  - command: []\n", 2, "command: expected at least 1"),
    ("hooks:\n  slice-formed:\n  - command:\n    - notify\n    - 5\n", 4, "command: expected a text"),
    ("hooks:\n  slice-formed:\n  - command: [a]\n    timeout: 1h\n", 3, "timeout: expected from 1s to 10m"),
]

HARDWARE = [
    (
        "name: r1",
        "name: r1!",
        5,
        "name: expected a reservation: its name, or projects/PROJECT/reservations/NAME",
    ),
    ("- name: b1", "- title: b1", 7, "key 'name' is missing under 'blocks'"),
    ("name: b2", "name: B2", 10, "name: expected a name of at most 63 small letters, digits and '-'"),
    ("name: b2", "name: b1", 10, "block 'b1' is here twice (see line 7)"),
    ("spares: 2", "spares: 64", 9, "spares: 64 of 64 cubes leave none for slices"),
    ("spares: 2", "spares: -1", 9, "spares: expected at least 0"),
    ("cubes: 64", "cubes: 145", 8, "cubes: expected at most 144"),
    ("cubes: 64", "cubes: 0", 8, "cubes: expected at least 1"),
    (
        "cubes: 64",
        "pools: {autoUpgrade: true}",
        8,
        "autoUpgrade: must be false or left out: an upgrade of nodes under",
    ),
    (
        "cubes: 64",
        "pools: {autoRepair: false}",
        8,
        "autoRepair: it is turned off together with autoUpgrade only",
    ),
    ("cubes: 64", "pools: {maxSurge: 1}", 8, "maxSurge: must be 0: a cube has no host to spare"),
    ("cubes: 64", "pools: {maxUnavailable: 17}", 8, "maxUnavailable: expected at most 16"),
    ("cubes: 64", "pools: {maxUnavailable: 0}", 8, "maxUnavailable: expected at least 1"),
    (
        "cubes: 64",
        "pools: {namePrefix: My_Pool}",
        8,
        "namePrefix: expected a beginning of at most 20 small letters",
    ),
    ("cubes: 64", "pools: {namePrefix: cube-}", 8, "namePrefix: expected a beginning"),
    ("cubes: 64", "pools: {policy: a_b}", 8, "policy: expected a name of at most 63"),
    ("red: 1", "red: 0", 11, "teams.red: expected more than 0"),
    ("red: 1", "red: .inf", 11, "teams.red: expected a number"),
    ("red: 1", "red: 1, red: 2", 11, "key 'red' is here twice (see line 11)"),
    ("teams", "- name: r1\n  blocks: [{name: b3}]\nteams", 11, "reservation 'r1' is here twice (see line 5)"),
    ("name: f", "name: f/1", 3, "name: expected a name of letters, digits"),
]
