"""The real program in processes of its own, against a detached simulator of its own."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TIMEOUT_S = 120
SHORT_SPEED = "600"


@dataclasses.dataclass
class Admin:
    """Somebody with an empty home directory and no configuration."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tpuctl", *arguments],
            env={**self.env, **(env or {})},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run to the end; no traceback is ever right."""
        with self.start(*arguments) as process:
            stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        assert "Traceback" not in stderr, stderr
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def items(self, *arguments: str) -> list[dict]:
        found: list[dict] = json.loads(self.ok(*arguments, "-o", "json"))["items"]
        return found


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    somebody = Admin(tmp_path)
    yield somebody
    somebody.run("sim", "stop")


@pytest.fixture
def fleet_of_four(admin: Admin) -> Admin:
    """Four cubes ready for use."""
    admin.ok("sim", "start", "--detach", "--cubes", "4", "--ready-cubes", "4", "--speed", SHORT_SPEED)
    return admin
