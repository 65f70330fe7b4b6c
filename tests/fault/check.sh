# shellcheck shell=bash
# One check of a test: its name, then the command that must succeed. Where it does not, the words in
# the file `log` (or $log, where a test moves about) are shown, and `failed` counts it.
failed=0

check() { # NAME CONDITION...
    local name=$1
    shift
    if "$@"; then echo "ok      $name"; else
        echo "FAILED  $name"
        sed 's/^/        /' "${log:-log}"
        failed=$((failed + 1))
    fi
}
