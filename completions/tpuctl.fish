# fish completion for tpuctl. Put it into ~/.config/fish/completions as tpuctl.fish.
function __tpuctl_complete
    set -l before (commandline --cut-at-cursor --tokenize --current-process)
    set -l incomplete (commandline --cut-at-cursor --current-token)
    set -l words (string join \n -- $before "$incomplete" | string collect)
    COMP_WORDS="$words" COMP_CWORD=(count $before) _TPUCTL_COMPLETE=complete_fish $before[1] 2>/dev/null
end
for program in tpuctl kubectl-tpu
    complete --command $program --no-files --arguments '(__tpuctl_complete)' \
        --condition 'test (count (__tpuctl_complete)) -gt 0'
end
