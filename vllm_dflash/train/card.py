# SPDX-License-Identifier: Apache-2.0
"""The model card of a trained drafter."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

TITLES = {"dflash": "DFlash drafter", "mtp": "MTP head (MiMo layout, one layer)"}


def write_card(out: Path, record: dict[str, Any], evaluation: dict[str, Any]) -> None:
    """OUT/README.md: data, options, loss curve, held-out acceptance, the command."""
    (out / "README.md").write_text("\n".join(_lines(record, evaluation)) + "\n")


def _lines(record: dict[str, Any], evaluation: dict[str, Any]) -> Iterator[str]:
    data, options = record["data"], record["options"]
    yield f"# {TITLES[record['method']]}"
    yield ""
    yield "Trained with `vllm-dflash train` on the target's own greedy answers."
    yield ""
    yield "```"
    yield record["command"]
    yield "```"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in record["drafter"].items():
        yield f"| {name.replace('_', ' ')} | {value} |"
    yield f"| weights | {record['bytes']:,} bytes, bfloat16 |"
    yield f"| target fingerprint | {record['target_fingerprint']} |"
    yield (
        f"| training data | {data['training_sequences']:,} sequences, "
        f"{data['training_answer_tokens']:,} answer tokens, {data['mean_answer_tokens']} an answer |"
    )
    yield f"| categories | {', '.join(f'{name} {count:,}' for name, count in data['categories'].items())} |"
    yield f"| held out | {data['held_out_sequences']:,} sequences |"
    if data["held_out_templates"]:
        yield f"| held-out templates | {', '.join(data['held_out_templates'])} |"
    yield (
        f"| steps | {record['steps']:,} of {options['steps']:,} (ended by {record['stopped_by']}), "
        f"{record['training_seconds']:.0f} s |"
    )
    yield f"| seed | {options['seed']} |"
    yield f"| batch | {options['batch_size']} sequences |"
    yield f"| learning rate | {options['learning_rate']}, warm-up {options['warmup']} steps, cosine |"
    yield f"| loss | {options['loss_target']}, position weights {options['loss']} |"
    yield ""
    yield "![training curves](curves.png)"
    if evaluation:
        yield ""
        yield "## Held-out acceptance"
        yield ""
        yield (
            f"Greedy decoding of {evaluation['sequences']:,} held-out prompts. Length: accepted drafts + 1 "
            "a step, mean over steps. Rates: share of steps that accept draft position 1, 2, ..."
        )
        yield from _acceptance(evaluation["drafters"])


def _acceptance(drafters: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield "| drafter | length | rate by position |"
    yield "|---|---|---|"
    for name, one in drafters.items():
        rates = ", ".join(f"{rate:.3f}" for rate in one["acceptance_by_position"])
        yield f"| {name} | {one['acceptance_length']:.3f} | {rates} |"
    yield ""
    yield f"| category | {' | '.join(drafters)} |"
    yield "|---" * (len(drafters) + 1) + "|"
    for category in sorted({c for one in drafters.values() for c in one["by_category"]}):
        lengths = [one["by_category"].get(category, {}).get("acceptance_length") for one in drafters.values()]
        yield f"| {category} | {' | '.join('-' if x is None else f'{x:.3f}' for x in lengths)} |"
