# SPDX-License-Identifier: Apache-2.0
"""Check that the tensors of a drafter have the shapes its config asks for."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from vllm_dflash.checkpoint.dimensions import Dimensions
from vllm_dflash.checkpoint.safetensors_header import TensorInfo
from vllm_dflash.checkpoint.tensors import Tensors
from vllm_dflash.checkpoint.vocabulary import Vocabulary
from vllm_dflash.errors import UserError

IGNORED = ("t2d", "verifier_norm.weight", "verifier_lm_head.weight")
QUANTIZED_SUFFIXES = (
    "_packed",
    "_scale",
    "_shape",
    "_zero_point",
    "_scale_inv",
    "_g_idx",
    ".qzeros",
    ".scales",
)
LAYER = re.compile(r"layers\.(\d{1,6})\.")
FLOAT_DTYPES = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")


class Wanted(NamedTuple):
    name: str
    shape: tuple[int, ...]
    because: str
    optional: bool = False


def wanted_tensors(
    size: Dimensions, taps: int, target_hidden: int, vocabulary: Vocabulary, sinks: bool
) -> Iterator[Wanted]:
    """Every tensor of a drafter with its shape (rows first, as torch.nn.Linear stores weights)."""
    hidden, inner, head = size.hidden_size.value, size.intermediate_size.value, size.head_dim.value
    heads, kv_heads = size.num_attention_heads.value, size.num_key_value_heads.value
    yield Wanted(
        "fc.weight", (hidden, taps * target_hidden), f"hidden_size x ({taps} taps x {target_hidden})"
    )
    yield Wanted("hidden_norm.weight", (hidden,), "hidden_size")
    yield Wanted("norm.weight", (hidden,), "hidden_size")
    attention = {"q": heads * head, "k": kv_heads * head, "v": kv_heads * head}
    for i in range(size.num_hidden_layers.value):
        layer = f"layers.{i}."
        for name, rows in attention.items():
            count = "num_attention_heads" if name == "q" else "num_key_value_heads"
            because = f"({count} x head_dim) x hidden_size"
            yield Wanted(f"{layer}self_attn.{name}_proj.weight", (rows, hidden), because)
            yield Wanted(f"{layer}self_attn.{name}_proj.bias", (rows,), "rows", not size.attention_bias.value)
        yield Wanted(
            f"{layer}self_attn.o_proj.weight", (hidden, heads * head), "hidden_size x (heads x head_dim)"
        )
        yield Wanted(f"{layer}self_attn.o_proj.bias", (hidden,), "hidden_size", not size.attention_bias.value)
        for name in ("q_norm", "k_norm"):
            yield Wanted(f"{layer}self_attn.{name}.weight", (head,), "head_dim")
        for name in ("gate_proj", "up_proj"):
            yield Wanted(f"{layer}mlp.{name}.weight", (inner, hidden), "intermediate_size x hidden_size")
        yield Wanted(f"{layer}mlp.down_proj.weight", (hidden, inner), "hidden_size x intermediate_size")
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield Wanted(f"{layer}{name}.weight", (hidden,), "hidden_size")
        yield Wanted(f"{layer}self_attn.attention_sink_bias", (heads,), "num_attention_heads", not sinks)
    vocab, draft = vocabulary.vocab_size.value, vocabulary.draft_vocab_size.value
    yield Wanted("lm_head.weight", (draft, hidden), "draft_vocab_size x hidden_size", True)
    yield Wanted("embed_tokens.weight", (vocab, hidden), "vocab_size x hidden_size", True)
    yield Wanted("d2t", (draft,), "draft_vocab_size", True)


def check_shapes(
    tensors: Tensors, wanted: Iterable[Wanted], layers: int, quantized: bool, path: Path
) -> list[str]:
    """Compare stored shapes with wanted ones; returns the tensors that no part of a DFlash drafter has.

    Packed (integer) weights of a quantised drafter are not compared; missing tensors count only when all
    files are there. Raises UserError naming the first tensor that is missing, misshapen, or of a layer
    that the config lacks, or that a draft layer has no use for: a layer without it computes something else.
    """
    known = set(IGNORED)
    for want in wanted:
        known.add(want.name)
        info = tensors.infos.get(want.name)
        if info is None and tensors.complete and not want.optional and not quantized:
            needed = f"{list(want.shape)} ({want.because})"
            raise UserError(f"tensor {want.name} is missing", needed=needed, file=path.parent)
        if info is not None and info.shape != want.shape and not _packed(info, quantized):
            raise UserError(
                f"tensor {want.name} does not fit the config",
                field=want.name,
                found=list(info.shape),
                needed=f"{list(want.shape)} ({want.because})",
                file=path.parent / info.file,
            )
    unknown = [name for name in tensors.infos if name not in known]
    for name in unknown:
        found = LAYER.match(name)
        if found and int(found[1]) >= layers:
            raise UserError(
                f"tensor {name[:120]!r} belongs to a layer that the config does not have",
                field="num_hidden_layers",
                found=layers,
                needed=f"{int(found[1]) + 1} or more",
                file=path,
            )
        if found and not quantized:
            raise UserError(
                f"tensor {name[:120]!r} has no place in a draft layer",
                field="weights",
                found=list(tensors.infos[name].shape),
                needed="attention and MLP of Qwen3: no other norms, no biases on the MLP",
                file=path.parent / tensors.infos[name].file,
            )
    return sorted(name for name in unknown if not (quantized and name.endswith(QUANTIZED_SUFFIXES)))


def _packed(info: TensorInfo, quantized: bool) -> bool:
    return quantized and info.dtype not in FLOAT_DTYPES
