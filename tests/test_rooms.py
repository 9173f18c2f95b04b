"""The import contracts of pyproject hold, and a broken one would be noticed."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent


def lint_imports(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        *arguments,
    ]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


def test_rooms_import_only_what_the_design_allows(tmp_path: Path) -> None:
    done = lint_imports("--no-cache")
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_a_forbidden_import_is_found(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").write_text("import house.outer\n")
    (package / "outer.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        textwrap.dedent(
            """\
            [tool.importlinter]
            root_packages = ["house"]
            [[tool.importlinter.contracts]]
            name = "inner knows nothing"
            type = "forbidden"
            source_modules = ["house.inner"]
            forbidden_modules = ["house.outer"]
            """
        )
    )
    done = lint_imports("--no-cache", cwd=tmp_path)
    assert done.returncode == 1
    assert "house.inner -> house.outer" in done.stdout
