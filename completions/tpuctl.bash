# bash completion for tpuctl. Load it with: source <(tpuctl completion bash)
_tpuctl() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(
        IFS=$'\n'
        COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _TPUCTL_COMPLETE=complete_bash \
            "${1/#\~/$HOME}" 2>/dev/null
    )
}
complete -o default -F _tpuctl tpuctl kubectl-tpu
