#!/usr/bin/env bash
# The Debian packages of this project, by what they are for, and their installation.
#
#     tools/deps.sh build             the compiler, CMake and the libraries
#     tools/deps.sh build checks      and what the checks of test.sh use
#     tools/deps.sh build fuzz        and the libFuzzer of tools/fuzz.sh
#     tools/deps.sh build book        and the text of the quickstart
#
# Installs what is missing: as root, or through sudo. Where neither is possible it prints the one
# line to run and exits 1. Silent when nothing is missing.
set -uo pipefail

# NAME|OTHER: either will do; the first is installed.
packages_of() {
    case $1 in
    build)
        echo gcc libc6-dev cmake ninja-build pkg-config libdnnl-dev libyaml-dev libjansson-dev \
            libpcre2-dev libutf8proc-dev libxxhash-dev libzstd-dev libhwloc-dev 'libopenmpi-dev|libmpich-dev' 'openmpi-bin|mpich' libcmocka-dev
        ;;
    fuzz) echo clang libclang-rt-dev ;;
    checks) echo 'g++' clang clang-format git ;;
    book) echo bible-kjv bible-kjv-text ;;
    *)
        echo "tools/deps.sh: no group '$1'; there are build, checks, fuzz and book" >&2
        return 2
        ;;
    esac
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
    local want names name found
    for want in "$@"; do
        IFS='|' read -ra names <<<"$want"
        found=
        for name in "${names[@]}"; do
            is_installed "$name" && found=yes
        done
        [ -n "$found" ] || echo "${names[0]}"
    done
}

# The words in front of apt-get, or a failure where it can not be run.
privilege() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        echo sudo
    else
        return 1
    fi
}

# Quiet, without questions, and patient: the lock may be held, and a mirror may fail once.
apt() {
    $become env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 \
        -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1
}

install_missing() {
    local log become
    log=$(mktemp)
    echo "installing: $*" >&2
    if ! become=$(privilege); then
        echo "These Debian packages are missing, and this user may not install them. Run:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $*" >&2
        return 1
    fi
    # Lists of packages that are there may be recent enough; if not, they are fetched, twice if
    # need be.
    if apt install -y --no-install-recommends "$@" ||
        { { apt update || { sleep 5 && apt update; }; } &&
            apt install -y --no-install-recommends "$@"; }; then
        rm -f "$log"
        return 0
    fi
    tail -n 20 "$log" >&2
    echo "apt-get could not install: $* (its words stand above, and in $log)" >&2
    return 1
}

main() {
    local wanted=() group list missing
    for group in "$@"; do
        list=$(packages_of "$group") || return 2
        # shellcheck disable=SC2206
        wanted+=($list)
    done
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "This is no Debian system: nothing is installed. Needed: ${wanted[*]%%|*}" >&2
        return 0
    fi
    mapfile -t missing < <(missing_of "${wanted[@]}")
    [ ${#missing[@]} -eq 0 ] || install_missing "${missing[@]}"
}

main "$@"
