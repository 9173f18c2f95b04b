"""Every command of the README's tour works as written, and its tables are the program's own."""

import re
import shlex
import shutil
from pathlib import Path

from tests.e2e.conftest import Admin
from tpuctl.model import exit_status

CLONE = Path(__file__).parent.parent.parent
README = (CLONE / "README.md").read_text()


def tour() -> list[tuple[list[str], int]]:
    """Commands of the tour with the exit code that the README promises."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            command, _, remark = line.removeprefix("$ ").partition("#")
            code = re.search(r"exit code (\d+)", remark)
            found.append((shlex.split(command), int(code[1]) if code else 0))
    return found


def test_the_tour(admin: Admin) -> None:
    commands = tour()
    shutil.copytree(CLONE / "configs", admin.home / "configs")
    assert len(commands) >= 15
    for (program, *arguments), code in commands:
        assert program == "tpuctl"
        done = admin.run(*arguments)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert done.stdout or done.stderr, arguments
    touched = {str(path.relative_to(admin.home)) for path in admin.home.rglob("*") if path.is_file()}
    allowed = ("state/tpuctl/", "cache/tpuctl/", "fleet.yaml", "configs/")
    assert all(path.startswith(allowed) for path in touched), touched


def test_the_table_of_exit_codes_is_the_programs_own(admin: Admin) -> None:
    written = dict(re.findall(r"^\| (\d+) \| (.*?) \|$", README, re.MULTILINE))
    assert written == {str(status.value): status.meaning for status in exit_status.ExitStatus}
    printed = admin.ok("help", "exit-codes")
    assert all(
        str(status.value) in printed and status.meaning in printed for status in exit_status.ExitStatus
    )


def test_the_two_commands_are_the_ones_that_ci_runs() -> None:
    script = (CLONE / ".ci" / "run").read_text()
    command = next(line for line in README.splitlines() if "pytest" in line)
    for part in command.split(" && "):
        words = part.split()
        assert words[0].removeprefix(".venv/bin/") in script
        assert words[-1].strip("'") in script
