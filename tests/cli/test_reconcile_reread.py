"""A loop that runs follows its fleet file: what it takes, what it refuses, and how often it says so."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import os

import pytest

from tests.cli.conftest import Stream
from tests.cli.reconcile_scene import DEBUG, FLEET, TRAIN, document, stage_of
from tests.cli.test_terminal import err, make
from tpuctl.cli import fleet_spec, main, reconcile_reread
from tpuctl.ops import locking
from tpuctl.ops.reconciling import leadership, loop
from tpuctl.ops.reconciling import settings as loop_settings

CYCLE = '"kind":"ReconcileCycle"'
TYPO = FLEET.format(slices=TRAIN, more="prunes: true", spares=1)
BOTH = {"train": "ACTIVE", "debug": "ACTIVE"}
TICK = datetime.timedelta(seconds=loop.TICK_S)


class Watched:
    """Both streams of a loop; each edit is done as soon as its text was written for the given time since the
    edit before."""

    def __init__(self, *edits):
        self._edits = list(edits)
        self._seen = 0
        self.out, self.err = _Told(self), _Told(self)

    def look(self, text):
        if not self._edits:
            return
        times, awaited, edit = self._edits[0]
        self._seen += text.count(awaited)
        if self._seen >= times:
            self._edits.pop(0)
            self._seen = 0
            edit()

    @property
    def is_over(self):
        return not self._edits


class _Told(Stream):
    def __init__(self, watched):
        super().__init__()
        self._watched = watched

    def write(self, text):
        written = super().write(text)
        self._watched.look(text)
        return written


@dataclasses.dataclass
class Run:
    cycles: list
    err: str

    def lines(self, words):
        return [line for line in self.err.splitlines() if words in line]


@pytest.fixture
def stage(tpuctl):
    """A fleet that is as declared: with the slice `train` and no other."""
    with stage_of(tpuctl) as made:
        made.declare(TRAIN)
        made.converged()
        yield made


def looped(stage, *edits, interval="10s", deadline="90s"):
    """A loop that may act, in which the file is edited; each edit must have had its turn."""
    watched, program = Watched(*edits), stage.tpuctl
    command = ["reconcile", "run", "-f", str(stage.file), "--mode", "act"]
    command += ["--interval", interval, "--deadline", deadline]
    status = main.main(
        command, env=program.env, cwd=program.cwd, stdin=Stream(), stdout=watched.out, stderr=watched.err
    )
    told = Run([json.loads(line) for line in watched.out.getvalue().splitlines()], watched.err.getvalue())
    assert status == 0, told.err
    assert watched.is_over, told.err
    return told


def acted(run):
    return [result["id"] for cycle in run.cycles for result in cycle["results"]]


def digest(stage):
    return fleet_spec.read(stage.file).digest[:12]


def kubelet(folder, number, text):
    """Write a version of a ConfigMap as kubelet does: a new folder, then the link `..data` to it at once."""
    version = folder / f"..2026_01_05_{number}"
    version.mkdir()
    (version / "fleet.yaml").write_text(text)
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").rename(folder / "..data")


# -- what is taken ---------------------------------------------------------------------------------------


def test_a_slice_that_is_declared_while_the_loop_runs_is_formed(stage):
    before = digest(stage)
    edited = []

    def edit():
        stage.declare(TRAIN + DEBUG)
        edited.append(stage.scene.ports.clock.now())

    run = looped(stage, (1, CYCLE, edit), interval="1h")
    assert stage.slices() == BOTH
    assert acted(run) == ["form/debug"]
    said = f"declared state read anew: {stage.file} (digest {before} -> {digest(stage)})"
    assert run.lines("declared state") == [said]
    # Within seconds, though the next cycle was an hour away.
    after = [datetime.datetime.fromisoformat(cycle["observedAt"]) for cycle in run.cycles]
    assert datetime.timedelta(0) <= min(at for at in after if at > edited[0]) - edited[0] <= 3 * TICK
    told = leadership.read(stage.scene.ports)[1]
    assert told.spec_digest[:12] == digest(stage)


def test_a_configmap_that_kubelet_swaps_is_noticed(stage):
    folder = stage.tpuctl.cwd / "mounted"
    folder.mkdir()
    numbers = itertools.count()
    kubelet(folder, next(numbers), FLEET.format(slices=TRAIN, more="", spares=1))
    stage.file = folder / "fleet.yaml"
    stage.file.symlink_to("..data/fleet.yaml")
    more = FLEET.format(slices=TRAIN + DEBUG, more="", spares=1)
    run = looped(stage, (2, CYCLE, lambda: kubelet(folder, next(numbers), more)))
    assert stage.slices() == BOTH
    assert len(run.lines("declared state read anew: ")) == 1


def test_hooks_that_are_declared_while_the_loop_runs_are_run(stage):
    more = "hooks:\n  slice-formed:\n    - command: [/nowhere/notify]"
    run = looped(stage, (1, CYCLE, lambda: stage.declare(TRAIN + DEBUG, more=more)))
    assert acted(run) == ["form/debug"]
    assert len(run.lines("hook slice-formed (/nowhere/notify) could not be started")) == 1


def test_an_edit_that_declares_nothing_new_is_no_news(stage):
    text = stage.file.read_text()
    run = looped(stage, (2, CYCLE, lambda: stage.file.write_text(f"# by jo\n{text}")))
    assert (run.lines("declared state"), acted(run)) == ([], [])


# -- what is refused -------------------------------------------------------------------------------------


def test_a_fault_is_told_once_and_its_repair_is_taken(stage):
    kept = digest(stage)
    run = looped(
        stage,
        (2, CYCLE, lambda: stage.file.write_text(TYPO)),
        (4, CYCLE, lambda: stage.declare(TRAIN + DEBUG)),
    )
    [warning] = run.lines("warning: ")
    assert warning == (
        f"warning: {stage.file}:9: unknown key 'prunes'; did you mean 'prune'?; "
        f"the loop goes on with the declared state that it has (digest {kept})"
    )
    assert len(run.lines("declared state read anew: ")) == 1
    # Nothing was undone meanwhile, and no cycle failed.
    assert (acted(run), stage.slices()) == (["form/debug"], BOTH)
    assert all(cycle["full"] and cycle["failure"] is None for cycle in run.cycles)
    assert document(stage("status", "-o", "json"))["stuck"] == []


def test_each_new_fault_is_told_and_so_is_the_end_of_them(stage):
    text = stage.file.read_text()
    other = TYPO.replace("prunes: true", "prune: 3")
    run = looped(
        stage,
        (1, CYCLE, lambda: stage.file.write_text(TYPO)),
        (2, CYCLE, lambda: stage.file.write_text(other)),
        (2, CYCLE, stage.file.unlink),
        (2, CYCLE, lambda: stage.file.write_text(text)),
    )
    told = [line.partition("; ")[0] for line in run.lines("warning: ")]
    assert told == [
        f"warning: {stage.file}:9: unknown key 'prunes'",
        f"warning: {stage.file}:9: prune: expected true or false",
        f"warning: {stage.file}: cannot be read: No such file or directory",
    ]
    again = f"declared state can be read again, unchanged: {stage.file} (digest {digest(stage)})"
    assert run.lines("declared state ca") == [again]
    assert (acted(run), stage.slices()) == ([], {"train": "ACTIVE"})


def test_the_status_shows_a_file_that_cannot_be_used(stage):
    looped(stage, (1, CYCLE, lambda: stage.file.write_text(TYPO)))
    shown = document(stage("status", "-o", "json"), 11)
    assert shown["stuck"] == [f"declared state: {stage.file}:9: unknown key 'prunes'; did you mean 'prune'?"]
    assert shown["troubles"] == ["1 stuck"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: small", "name: large", "it declares fleet large now, not small"),
        ("name: small", "name: small\ncontext: prod", "it is for context prod now, not for demo"),
    ],
)
def test_another_fleet_needs_another_loop(stage, old, new, says):
    text = FLEET.format(slices=DEBUG, more="", spares=1).replace(old, new, 1)
    run = looped(stage, (2, CYCLE, lambda: stage.file.write_text(text)))
    [warning] = run.lines("warning: ")
    assert warning.startswith(f"warning: {stage.file}: {says}: restart the loop; the loop goes on with ")
    assert (acted(run), stage.slices()) == ([], {"train": "ACTIVE"})


def test_the_context_may_be_named_at_last(stage):
    text = stage.file.read_text().replace("name: small", "name: small\ncontext: demo", 1)
    run = looped(stage, (2, CYCLE, lambda: stage.file.write_text(text)))
    assert len(run.lines("declared state read anew: ")) == 1
    assert run.lines("warning: ") == []


# -- who looks, and when ---------------------------------------------------------------------------------


def test_who_stands_by_takes_over_with_the_last_state_that_could_be_read(stage):
    """The leader has taken the new state; going back to the one from before would undo its work."""
    ports = stage.scene.ports
    ports.leases.renew(ports.leases.get(leadership.NAME), "loop@elsewhere:1", locking.DURATION_S)
    run = looped(
        stage,
        (1, "standing by: ", lambda: stage.declare(TRAIN + DEBUG)),
        (1, "declared state read anew: ", lambda: stage.file.write_text(TYPO)),
        deadline="3m",
    )
    assert len(run.lines("unknown key 'prunes'")) == 1
    assert run.err.index("unknown key 'prunes'") < run.err.index("leading\n")
    assert (acted(run), stage.slices()) == (["form/debug"], BOTH)


def test_a_single_cycle_reads_once(stage, monkeypatch):
    reads = []
    read = fleet_spec.read
    monkeypatch.setattr(fleet_spec, "read", lambda path: reads.append(path) or read(path))
    stage.act()
    assert reads == [stage.file]


def test_a_file_that_stays_is_read_once(stage, monkeypatch):
    reads = []
    read = fleet_spec.read
    monkeypatch.setattr(fleet_spec, "read", lambda path: reads.append(path) or read(path))
    assert len(looped(stage).cycles) >= 5
    assert reads == [stage.file]


class Following:
    """A loop's look at its file, without the loop."""

    def __init__(self, stage, file=None):
        self.screen, found = make(), fleet_spec.read(stage.file)
        self.settings = loop_settings.Settings(spec=found.spec, spec_digest=found.digest)
        file = file or stage.file
        seen = reconcile_reread.identity(file)
        self._reread = reconcile_reread.Reread(file, seen, self.settings, self.screen)

    def __call__(self):
        self.settings = self._reread(self.settings)
        return [item.name for item in self.settings.spec.slices]

    @property
    def told(self):
        return err(self.screen)


def test_a_file_that_changes_while_it_is_read_is_read_again(stage, monkeypatch):
    look = Following(stage)
    read = fleet_spec.read

    def torn(path):
        found = read(path)
        stage.declare(TRAIN + DEBUG + DEBUG.replace("debug", "other"))
        monkeypatch.setattr(fleet_spec, "read", read)
        return found

    stage.declare(DEBUG)
    monkeypatch.setattr(fleet_spec, "read", torn)
    assert (look(), look.told) == (["train"], "")
    assert look() == ["train", "debug", "other"]
    assert look.told.count("declared state read anew: ") == 1


def test_what_the_disk_refuses_is_tried_again_though_the_file_is_the_same(stage, monkeypatch):
    look = Following(stage)
    stage.declare(TRAIN + DEBUG)
    read = type(stage.file).read_text

    def refused(path, **options):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(stage.file), "read_text", refused)
    assert [look(), look()] == [["train"], ["train"]]
    assert look.settings.trouble == f"{stage.file}: cannot be read: Input/output error"
    monkeypatch.setattr(type(stage.file), "read_text", read)
    assert look() == ["train", "debug"]
    assert look.settings.trouble == ""
    assert look.told.count("Input/output error") == 1


def test_a_pipe_is_read_once_and_a_file_that_became_one_is_not_waited_for(stage):
    pipe = stage.tpuctl.cwd / "pipe"
    os.mkfifo(pipe)
    look, piped = Following(stage), Following(stage, pipe)
    assert (piped(), piped.told, piped.settings.trouble) == (["train"], "", "")
    pipe.rename(stage.file)
    assert (look(), look.settings.trouble) == (["train"], f"{stage.file}: this is no file any more")


def test_settings_of_before_get_the_newest_state(stage):
    """Whoever lost the lead and has it again begins with the settings of the very beginning."""
    look = Following(stage)
    first = look.settings
    stage.declare(TRAIN + DEBUG)
    assert look() == ["train", "debug"]
    look.settings = first
    assert look() == ["train", "debug"]
    assert look.told.count("declared state read anew: ") == 1
