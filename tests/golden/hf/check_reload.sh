#!/usr/bin/env bash
# Every model of this folder to a checkpoint on one grid, back on another, and into transformers: the
# logits must be the committed ones. Then each is trained, exported, and scored by both: the loss must
# be the same. Skipped (77) where Python has no transformers.
#
#     tests/golden/hf/check_reload.sh AXONN
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
axonn=$(realpath "$1")
if ! python3 -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ["safetensors", "torch", "transformers"])))'; then
    echo "skipped: python3 has no transformers"
    exit 77
fi
export OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for i in $(seq 60); do echo "line $i of a text, $((i * i * 7919 % 1009))"; done >text
for config in "$here"/*/config.json; do
    name=$(basename "$(dirname "$config")")
    "$axonn" convert "$here/$name" "$name.checkpoint" --grid x=2,z=2 -q >/dev/null
    "$axonn" convert "$name.checkpoint" "$name" --grid x=2,y=2 convert.shard_bytes=50k -q >/dev/null
    echo "logits $name $name" >>checks
    "$axonn" convert "$name" "$name.again" convert.dtype=fp32 --ranks 3 -q >/dev/null
    echo "logits $name.again $name" >>checks
    "$axonn" train "model.init=$here/$name" data.train=text train.out="$name.run" train.steps=4 \
        train.batch=8 train.lr=1e-2 train.precision=fp32 --grid x=2,z=2 -q
    "$axonn" convert "$name.run" "$name.trained" --ranks 2 -q >/dev/null
    loss=$("$axonn" eval model.init="$name.run" data.valid=text train.precision=fp32 --json -q |
        sed 's/.*"valid_loss":\([^,]*\),.*/\1/')
    echo "loss $name.trained text $loss" >>checks
done
python3 "$here/make_hf.py" --check checks 2>errors || { cat errors; exit 1; }
