#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the demo pair: target, prompts, answers, DFlash drafter, MTP head, evaluation of both.
#
#   scripts/train_demo.sh OUT        on one GPU, under 9 minutes
#   QUICK=1 scripts/train_demo.sh OUT    the same path on few samples, under a minute
#
# OUT/drafter and OUT/mtp hold weights, config, card, curves, logs. With PACK=1 OUT holds tar parts below 16 MiB
# instead (`cat OUT/drafter.tgz.* | tar xz`). VLLM_DFLASH_DEMO_GGUF names the GGUF if its package is not installed.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=${WORK:-$(mktemp -d)}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" TQDM_MININTERVAL=${TQDM_MININTERVAL:-10} PYTHONUNBUFFERED=1
export HF_HUB_OFFLINE=1

if [[ ${QUICK:-} ]]; then
    prompts=${PROMPTS:-800} common=(--answer-tokens 64 --max-length 384 --eval-samples 64 --batch-size 32 --log-every 5)
    drafter=(--steps "${DRAFTER_STEPS:-60}" --warmup 10) mtp=(--steps "${MTP_STEPS:-40}" --warmup 10)
else
    prompts=${PROMPTS:-90000} common=(--answer-tokens 256 --max-length 512 --eval-samples 1024 --log-every 20)
    drafter=(--steps "${DRAFTER_STEPS:-20000}" --max-minutes "${DRAFTER_MINUTES:-4.0}" --warmup 200)
    mtp=(--steps "${MTP_STEPS:-20000}" --max-minutes "${MTP_MINUTES:-2.1}" --warmup 200)
fi

say() { echo "== $1 (at ${SECONDS} s)"; }
deliver() {
    rm -rf "$work/$1/state/last.pt" "$work/$1/state/partial.pt"
    if [[ ${PACK:-} ]]; then
        tar cz -C "$work" "$1" | split -b 15m - "$out/$1.tgz."
    else
        rm -rf "${out:?}/$1" && cp -r "$work/$1" "$out/$1"
    fi
}

say "target"
[[ -f $work/target/config.json ]] || "$python" -c "
from pathlib import Path
from vllm_dflash.demo.target import prepare_target
prepare_target(Path('$work/target'), 'llama')"

say "drafter"
"$python" -m vllm_dflash.cli train --target "$work/target" --prompts "builtin:$prompts" --out "$work/drafter" \
    --answer-minutes "${ANSWER_MINUTES:-2.5}" "${common[@]}" "${drafter[@]}" ${DRAFTER_FLAGS:-}
mkdir -p "$work/answers" && mv "$work/drafter/state/answers.safetensors" "$work/answers/"
deliver drafter

say "MTP head"
"$python" -m vllm_dflash.cli train --method mtp --target "$work/target" --answers "$work/answers/answers.safetensors" \
    --out "$work/mtp" "${common[@]}" "${mtp[@]}" ${MTP_FLAGS:-}
deliver mtp
deliver answers
say "done"
