#!/usr/bin/env bash
# Every model of this folder to a checkpoint on one grid, back on another, and into transformers:
# the logits must be the committed ones. Skipped (77) where Python has no transformers.
#
#     tests/golden/hf/check_reload.sh AXONN
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
axonn=$(realpath "$1")
if ! python3 -c 'import safetensors, torch, transformers' 2>/dev/null; then
    echo "skipped: python3 has no transformers"
    exit 77
fi
export OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for config in "$here"/*/config.json; do
    name=$(basename "$(dirname "$config")")
    "$axonn" convert "$here/$name" "$name.checkpoint" --grid x=2,z=2 -q >/dev/null
    "$axonn" convert "$name.checkpoint" "$name" --grid x=2,y=2 convert.shard_bytes=50k -q >/dev/null
    python3 "$here/make_hf.py" --check "$name" "$name" 2>/dev/null
done
