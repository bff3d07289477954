# SPDX-License-Identifier: Apache-2.0
"""What the tensors of a drafter tell without a config: every size, and the number of taps."""

import re
from dataclasses import dataclass
from pathlib import Path

from vllm_dflash.checkpoint import TargetConfig, Tensors
from vllm_dflash.checkpoint.dimensions import TORCH_DTYPES
from vllm_dflash.errors import UserError

LAYER = re.compile(r"layers\.(\d{1,4})\.")


@dataclass(frozen=True)
class Facts:
    """Named like the fields of DraftConfig. draft_vocab_size: None when the drafter borrows the target's head."""

    layers: int
    taps: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    attention_bias: bool
    vocab_size: int
    draft_vocab_size: int | None
    dtype: str


def read_facts(tensors: Tensors, target: TargetConfig, folder: Path) -> Facts:
    """Raises UserError for missing files or tensors, and for shapes that do not fit together or the target."""
    if not tensors.complete:
        raise UserError("the drafter's weights are not all here", needed="every *.safetensors file", file=folder)

    def shape(name: str, dimensions: int) -> tuple[int, ...]:
        found = tensors.shape(name)
        if found is None or len(found) != dimensions or not all(found):
            needed = f"a {dimensions}-dimensional tensor: this is no DFlash drafter that the reader knows"
            raise UserError(
                f"tensor {name} is not usable", field=name, found=None if found is None else list(found),
                needed=needed, file=folder,
            )  # fmt: skip
        return found

    def multiple(name: str, rows: int, unit: int, what: str) -> int:
        if rows % unit:
            raise UserError(
                f"tensor {name} does not fit {what}",
                field=name,
                found=rows,
                needed=f"a multiple of {unit}",
                file=folder,
            )
        return rows // unit

    hidden, columns = shape("fc.weight", 2)
    numbers = {int(found[1]) for name in tensors.infos if (found := LAYER.match(name))}
    if not numbers or numbers != set(range(len(numbers))):
        raise UserError(
            "the draft layers are not numbered 0, 1, ...", field="layers", found=sorted(numbers), file=folder
        )
    taps = multiple("fc.weight", columns, target.hidden_size, "the target's hidden size")
    if taps > target.num_hidden_layers:
        raise UserError(
            "more taps than the target has layers", field="fc.weight", found=f"{taps} taps",
            needed=f"at most {target.num_hidden_layers}", file=folder,
        )  # fmt: skip
    head_dim = shape("layers.0.self_attn.q_norm.weight", 1)[0]
    queries, keys = (shape(f"layers.0.self_attn.{n}_proj.weight", 2)[0] for n in "qk")
    head, embedding = tensors.shape("lm_head.weight"), tensors.shape("embed_tokens.weight")
    return Facts(
        layers=len(numbers),
        taps=taps,
        hidden_size=hidden,
        intermediate_size=shape("layers.0.mlp.gate_proj.weight", 2)[0],
        num_attention_heads=multiple("layers.0.self_attn.q_proj.weight", queries, head_dim, "the size of q_norm"),
        num_key_value_heads=multiple("layers.0.self_attn.k_proj.weight", keys, head_dim, "the size of q_norm"),
        head_dim=head_dim,
        attention_bias=bool(tensors.ending("self_attn.k_proj.bias")),
        vocab_size=embedding[0] if embedding else target.vocab_size,
        draft_vocab_size=head[0] if head else None,
        dtype=TORCH_DTYPES.get(tensors.infos["fc.weight"].dtype, "bfloat16"),
    )
