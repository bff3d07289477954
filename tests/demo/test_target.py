# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, Qwen2ForCausalLM

from vllm_dflash.demo.gguf_checkpoint import GgufCheckpoint
from vllm_dflash.demo.mtp_tensors import MTP_PREFIX, mtp_shapes, random_mtp, read_mtp
from vllm_dflash.demo.target import prepare_target
from vllm_dflash.errors import UserError


@pytest.fixture(scope="module")
def llama(llama_target: Path) -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(llama_target, dtype=torch.float32)


def question(folder: Path, text: str) -> tuple[Any, Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    turns = [{"role": "user", "content": text}]
    return tokenizer, tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )


@torch.inference_mode()
def test_answers_coherently(llama_target: Path, llama: Any) -> None:
    tokenizer, inputs = question(llama_target, "What is the capital of France?")
    ids = llama.generate(**inputs, max_new_tokens=32)[0, inputs["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(ids)
    assert ids[-1] == tokenizer.eos_token_id


@torch.inference_mode()
def test_mimo_has_the_logits_of_llama(llama_target: Path, mimo_target: Path, llama: Any) -> None:
    mimo = AutoModelForCausalLM.from_pretrained(mimo_target, dtype=torch.float32)
    assert type(llama) is LlamaForCausalLM
    assert type(mimo) is Qwen2ForCausalLM
    _, inputs = question(llama_target, "Write a Python function that adds 2 numbers.")
    assert torch.equal(llama(**inputs).logits, mimo(**inputs).logits)


def test_config_reaches_the_model(llama_target: Path, mimo_target: Path, llama: Any) -> None:
    assert llama.config.rope_parameters["rope_theta"] == 100000.0
    assert llama.config.tie_word_embeddings
    mimo = json.loads((mimo_target / "config.json").read_text())
    assert (mimo["architectures"], mimo["model_type"]) == (["MiMoForCausalLM"], "qwen2")
    assert (mimo["num_nextn_predict_layers"], mimo["torch_dtype"]) == (1, "bfloat16")
    assert llama.generation_config.eos_token_id == 2


def test_weights_are_the_dequantised_values_rounded_to_bf16(llama_target: Path, gguf: GgufCheckpoint) -> None:
    written = load_file(llama_target / "model.safetensors")
    inexact = []
    for name, values in gguf.weights():
        assert torch.equal(written[name], values.to(torch.bfloat16))
        if not torch.equal(written[name].float(), values):
            inexact.append(name)
    assert written.keys() == {name for name, _ in gguf.weights()}
    assert len(inexact) == 211
    assert not any("norm" in name for name in inexact)


def test_the_mtp_file_is_merged(gguf_path: Path, gguf: GgufCheckpoint, tmp_path: Path) -> None:
    head = random_mtp(gguf.shape, seed=7)
    without_biases = {name: values for name, values in head.items() if not name.endswith(".bias")}
    save_file(without_biases, tmp_path / "mtp.safetensors")
    out = prepare_target(tmp_path / "mimo", "mimo", tmp_path / "mtp.safetensors", gguf=gguf_path)
    written = load_file(out / "model.safetensors")
    assert {name for name in written if name.startswith(MTP_PREFIX)} == mtp_shapes(gguf.shape).keys()
    assert all(torch.equal(written[name], values) for name, values in head.items())


def test_a_bad_mtp_head_is_one_clear_error(gguf: GgufCheckpoint, tmp_path: Path) -> None:
    path = tmp_path / "mtp.safetensors"
    with pytest.raises(UserError, match="cannot read the MTP head"):
        read_mtp(path, gguf.shape)
    path.write_bytes(b"not safetensors")
    with pytest.raises(UserError, match="cannot read the MTP head"):
        read_mtp(path, gguf.shape)
    head = random_mtp(gguf.shape, seed=0)
    removed = head.pop(f"{MTP_PREFIX}input_proj.weight")
    save_file(head, path)
    with pytest.raises(UserError, match=r"input_proj.weight is missing"):
        read_mtp(path, gguf.shape)
    save_file(head | {f"{MTP_PREFIX}input_proj.weight": removed.T.contiguous()}, path)
    with pytest.raises(UserError, match=r"found \(1152, 576\); needed \(576, 1152\)"):
        read_mtp(path, gguf.shape)


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("mimo", {}),
        ("mimo", {"mtp": Path("m"), "random_mtp_seed": 0}),
        ("llama", {"mtp": Path("m")}),
        ("qwen", {}),
    ],
)
def test_refuses_wrong_options(tmp_path: Path, variant: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        prepare_target(tmp_path / "out", variant, **options)
    assert not (tmp_path / "out").exists()
