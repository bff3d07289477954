# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from vllm_dflash.demo.gguf_checkpoint import (
    GgufCheckpoint,
    LlamaShape,
    check_tensor_shapes,
    hf_name_of,
    interleaved_to_split_rope_rows,
)
from vllm_dflash.errors import UserError


def llama_cpp_row_order(rows: np.ndarray, heads: int) -> np.ndarray:
    """Forward permutation, one row at a time: pair i of a head becomes rows 2i and 2i + 1."""
    head_dim = rows.shape[0] // heads
    stored = np.empty_like(rows)
    for head in range(heads):
        for i in range(head_dim // 2):
            stored[head * head_dim + 2 * i] = rows[head * head_dim + i]
            stored[head * head_dim + 2 * i + 1] = rows[head * head_dim + head_dim // 2 + i]
    return stored


@pytest.mark.parametrize(("heads", "head_dim", "width"), [(9, 64, 576), (3, 64, 576), (1, 2, 3), (5, 6, 7)])
def test_undoes_the_row_permutation(heads: int, head_dim: int, width: int) -> None:
    rows = np.random.default_rng(heads).standard_normal((heads * head_dim, width)).astype(np.float32)
    stored = llama_cpp_row_order(rows, heads)
    assert np.array_equal(interleaved_to_split_rope_rows(stored, heads), rows)


def test_rope_scores_are_those_of_the_stored_layout() -> None:
    rng = np.random.default_rng(0)
    head_dim, angles = 8, rng.uniform(0, 3, 4)
    stored_q, stored_k = rng.standard_normal((2, head_dim, 5))
    inputs = rng.standard_normal((2, 5))

    def rotated_neighbours(vector: np.ndarray, steps: int) -> np.ndarray:
        pairs = (vector[0::2] + 1j * vector[1::2]) * np.exp(1j * angles * steps)
        return np.stack([pairs.real, pairs.imag], 1).ravel()

    def rotated_halves(vector: np.ndarray, steps: int) -> np.ndarray:
        pairs = (vector[:4] + 1j * vector[4:]) * np.exp(1j * angles * steps)
        return np.concatenate([pairs.real, pairs.imag])

    in_gguf = rotated_neighbours(stored_q @ inputs[0], 7) @ rotated_neighbours(stored_k @ inputs[1], 3)
    q, k = (interleaved_to_split_rope_rows(rows, 1) for rows in (stored_q, stored_k))
    in_hf = rotated_halves(q @ inputs[0], 7) @ rotated_halves(k @ inputs[1], 3)
    assert np.isclose(in_gguf, in_hf)


def test_names() -> None:
    assert hf_name_of("blk.12.ffn_gate.weight") == "model.layers.12.mlp.gate_proj.weight"
    assert hf_name_of("token_embd.weight") == "model.embed_tokens.weight"
    assert hf_name_of("rope_freqs.weight") == "rope_freqs.weight"


def test_reads_the_hyperparameters(gguf: GgufCheckpoint) -> None:
    assert gguf.shape == LlamaShape(
        layers=30,
        hidden=576,
        intermediate=1536,
        heads=9,
        kv_heads=3,
        head_dim=64,
        vocab=49152,
        max_positions=8192,
        rope_theta=100000.0,
        norm_eps=1e-5,
        tied=True,
    )


def test_a_missing_key_is_named(gguf: GgufCheckpoint) -> None:
    with pytest.raises(UserError, match=r"no such\.key"):
        gguf.value("such.key")


def test_tensor_sets_must_match() -> None:
    expected: dict[str, tuple[int, ...]] = {"a": (1, 2), "b": (3,)}
    check_tensor_shapes(dict(expected), expected, Path("x"))
    wrong: list[tuple[dict[str, tuple[int, ...]], str]] = [
        ({"a": (1, 2)}, "tensor b is missing"),
        (expected | {"c": (1,)}, "tensor c is unknown"),
        (expected | {"a": (2, 1)}, r"a: found \(2, 1\); needed \(1, 2\)"),
    ]
    for found, message in wrong:
        with pytest.raises(UserError, match=message):
            check_tensor_shapes(found, expected, Path("x"))


@pytest.mark.parametrize("kept", [0, 3, 100, 2_000_000, 50_000_000])
def test_a_truncated_file_is_one_clear_error(gguf_path: Path, tmp_path: Path, kept: int) -> None:
    damaged = tmp_path / "damaged.gguf"
    with gguf_path.open("rb") as stream:
        damaged.write_bytes(stream.read(kept))
    with pytest.raises(UserError, match="damaged GGUF") as caught:
        GgufCheckpoint(damaged)
    assert str(damaged) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_file_is_one_clear_error(gguf_path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"PK\x03\x04" + bytes(4096))
    with pytest.raises(UserError, match="damaged GGUF"):
        GgufCheckpoint(other)
