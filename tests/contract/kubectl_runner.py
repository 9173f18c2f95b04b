"""What the kubectl tests share: the real kubectl, and a simulated fleet with node pools for it.

kubectl is a client nobody here wrote: it decides on discovery, OpenAPI, patch types, paging and watches by
itself. One simulator serves a whole module, its clock stands still unless a test moves it, and each test
uses names of its own.
"""

from __future__ import annotations

import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading

import yaml

from tpuctl.sim import simulator

TIMEOUT_S = 20
PARTITION = "cloud.google.com/gke-tpu-partition-4x4x4-id"
POOL = "cloud.google.com/gke-nodepool"

KUBECTL = shutil.which("kubectl", path=pathlib.Path(sys.executable).parent)


class Running:
    """A kubectl that is still at work; its output is read by threads, so that waiting has a limit."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._lines = {name: queue.SimpleQueue() for name in ("stdout", "stderr")}
        for name, lines in self._lines.items():
            threading.Thread(target=self._read, args=(getattr(self.process, name), lines)).start()

    @staticmethod
    def _read(stream, lines):
        with stream:
            for line in stream:
                lines.put(line.rstrip("\n"))
        lines.put(None)

    def until(self, pattern, stream="stdout"):
        """The next line that matches; fails if the output ends or pauses first."""
        while True:
            line = self._lines[stream].get(timeout=TIMEOUT_S)
            assert line is not None, f"output ended without {pattern!r}"
            if re.search(pattern, line):
                return line

    def end(self):
        """Wait for its exit code."""
        return self.process.wait(timeout=TIMEOUT_S)

    def stop(self):
        self.process.kill()
        self.process.wait(timeout=TIMEOUT_S)


class Kubectl:
    """Runs kubectl with a home and caches of its own."""

    def __init__(self, kubeconfig, home):
        self._environment = {
            "HOME": str(home),
            "KUBECACHEDIR": str(home / "cache"),
            "KUBECONFIG": str(kubeconfig),
            "PATH": os.environ["PATH"],
        }
        self._running = []

    def run(self, *arguments, stdin=None, code=0):
        """Run to the end and return the completed process; fails unless it exits with `code`."""
        done = subprocess.run(
            [KUBECTL, *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def __call__(self, *arguments, stdin=None):
        return self.run(*arguments, stdin=stdin).stdout

    def fail(self, *arguments, stdin=None):
        """Run what must end with exit code 1 and return what it says about it."""
        return self.run(*arguments, stdin=stdin, code=1).stderr

    def start(self, *arguments):
        self._running.append(Running([KUBECTL, *arguments], self._environment))
        return self._running[-1]

    def stop(self):
        for running in self._running:
            running.stop()


def table(text):
    """Rows of a table by column name. Columns are separated by three spaces, as kubectl prints them."""
    head, *rows = [re.split(r" {3,}", line.rstrip()) for line in text.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


def simulated(pools):
    """A simulator with so many cubes, each with its node pool, and the slice controller on."""
    return simulator.Simulator(simulator.Settings(cubes=pools, ready_cubes=pools, slice_controller=True))


def nodes(sim):
    return sim.call(lambda: sim.world.store.list("nodes"))


def cubes(sim):
    """Partition ids of all cubes that have nodes, sorted."""
    return sorted({node["metadata"]["labels"][PARTITION] for node in nodes(sim)})


def manifest(name, partitions, topology="4x4x8", **metadata):
    """An example Slice, as a user writes it."""
    text = f"""\
# Two cubes, joined into a slice of 128 chips.
apiVersion: accelerator.gke.io/v1beta1
kind: Slice
metadata:
  name: {name}
spec:
  type: tpu7x
  topology: {topology}
  partitionIds:
"""
    document = yaml.safe_load(text + "".join(f"  - {partition}\n" for partition in partitions))
    document["metadata"] |= metadata
    return yaml.safe_dump(document)
