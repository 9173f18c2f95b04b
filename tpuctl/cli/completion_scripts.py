"""Completion scripts for bash, zsh and fish: `tpuctl completion SHELL` prints what `completions/` holds."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tpuctl.cli import commands, session

app = commands.App()

_BASH = """# bash completion for tpuctl. Load it with: source <(tpuctl completion bash)
_tpuctl() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(
        IFS=$'\\n'
        COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _TPUCTL_COMPLETE=complete_bash \\
            "${1/#\\~/$HOME}" 2>/dev/null
    )
}
complete -o default -F _tpuctl tpuctl kubectl-tpu
"""

_ZSH = """#compdef tpuctl kubectl-tpu
# zsh completion for tpuctl. Put it into a folder of $fpath as _tpuctl, or: source <(tpuctl completion zsh)
_tpuctl() {
    local line
    local -a found
    while IFS= read -r line; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done < <(
        COMP_WORDS="${(F)words}" COMP_CWORD=$((CURRENT - 1)) _TPUCTL_COMPLETE=complete_zsh \\
            "${~words[1]}" 2>/dev/null
    )
    if (( ${#found} )); then
        _describe -V tpuctl found
    else
        _files
    fi
}
if [[ $funcstack[1] == _tpuctl ]]; then
    _tpuctl "$@"
else
    compdef _tpuctl tpuctl kubectl-tpu
fi
"""

_FISH = """# fish completion for tpuctl. Put it into ~/.config/fish/completions as tpuctl.fish.
function __tpuctl_complete
    set -l before (commandline --cut-at-cursor --tokenize --current-process)
    set -l incomplete (commandline --cut-at-cursor --current-token)
    set -l words (string join \\n -- $before "$incomplete" | string collect)
    COMP_WORDS="$words" COMP_CWORD=(count $before) _TPUCTL_COMPLETE=complete_fish $before[1] 2>/dev/null
end
for program in tpuctl kubectl-tpu
    complete --command $program --no-files --arguments '(__tpuctl_complete)' \\
        --condition 'test (count (__tpuctl_complete)) -gt 0'
end
"""


class Shell(enum.StrEnum):
    """A shell that has a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}
FILES = {Shell.BASH: "tpuctl.bash", Shell.ZSH: "_tpuctl", Shell.FISH: "tpuctl.fish"}
"""Names of the scripts in `completions/`, as the shells expect them."""


@app.command("completion")
def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print the completion script for a shell.

    Slices, cubes, blocks and contexts complete from what the last commands saw; Tab never asks a cluster.

    Examples:
      source <(tpuctl completion bash)
      tpuctl completion zsh > "${fpath[1]}/_tpuctl"
      tpuctl completion fish > ~/.config/fish/completions/tpuctl.fish
    """
    session.current().terminal.out(SCRIPTS[shell].rstrip("\n"))
