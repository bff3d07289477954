# SPDX-License-Identifier: Apache-2.0
"""No input makes the readers crash or hang: they return or raise UserError."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vllm_dflash.checkpoint import DraftConfig, load_draft_config, load_target_config, read_safetensors_header
from vllm_dflash.checkpoint.json_file import parse_object
from vllm_dflash.errors import UserError

bounded = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "yarn", "sliding_attention", "full_attention", "DFlashDraftModel", "bfloat16", "\ud800"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.sampled_from(["rope_theta", "rope_type", "factor", "causal", "window", "x"]), inner),
    ),
    max_leaves=8,
)
# fmt: off
KEYS = [
    "architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "rope_theta", "rope_scaling",
    "rope_parameters", "layer_types", "sliding_window", "use_sliding_window", "is_causal",
    "max_window_layers", "block_size", "num_target_layers", "target_hidden_size", "draft_vocab_size",
    "partial_rotary_factor", "dtype", "quantization_config", "text_config", "max_position_embeddings",
    "attention_bias", "rms_norm_eps", "hidden_act", "dflash_config", "eagle_aux_hidden_state_layer_ids",
    "transformer_layer_config", "speculators_model_type", "aux_hidden_state_layer_ids",
    "tie_word_embeddings", "final_logit_softcapping", "rope_local_base_freq", "sliding_window_non_causal",
]
# fmt: on
# fmt: off
NESTED = [
    "target_layer_ids", "mask_token_id", "block_size", "causal", "use_swa", "swa_window_size", "layers",
    "layer_types", "sample_from_anchor", "attention_sink_bias", "attention_value_scale",
    "input_embedding_scale", "attention_mode",
]
# fmt: on


def parsed(load, path: Path) -> Any:
    with contextlib.suppress(UserError):
        return load(path)


@bounded
@given(
    changes=st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
    nested=st.dictionaries(st.sampled_from(NESTED), values, max_size=3),
    removed=st.sets(st.sampled_from(KEYS), max_size=2),
)
def test_configs(native, tmp_path_factory, changes, nested, removed):
    folder = native()
    config = json.loads((folder / "config.json").read_text())
    config["dflash_config"] |= nested
    config = {k: v for k, v in (config | changes).items() if k not in removed}
    (folder / "config.json").write_text(json.dumps(config))
    found = parsed(load_draft_config, folder)
    if isinstance(found, DraftConfig):
        assert len(found.layers) == config["num_hidden_layers"] and found.block_size >= 2
        assert all(layer.window is None or layer.window >= 1 for layer in found.layers)
        assert 0 <= found.mask_token_id < found.vocab_size and min(found.tap_layer_ids) >= 0
        str(found)
    parsed(load_target_config, folder)


@bounded
@given(
    changes=st.dictionaries(st.sampled_from(KEYS), values, max_size=3),
    layer=st.dictionaries(st.sampled_from(KEYS), values, max_size=3),
)
def test_speculators_configs(speculators, changes, layer):
    folder = speculators()
    config = json.loads((folder / "config.json").read_text())
    config["transformer_layer_config"] |= layer
    (folder / "config.json").write_text(json.dumps(config | changes))
    parsed(load_draft_config, folder)


@bounded
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_bytes_as_json(data):
    with contextlib.suppress(UserError):
        assert isinstance(parse_object(data, Path("config.json")), dict)


entries = st.one_of(
    values,
    st.fixed_dictionaries(
        {
            "dtype": st.one_of(st.sampled_from(["F32", "BF16", "I64", "F4", "X"]), scalars),
            "shape": st.one_of(st.lists(st.integers(-1, 2**64), max_size=4), st.lists(st.integers(0, 3), max_size=3)),
            "data_offsets": st.one_of(st.lists(st.integers(-1, 64), min_size=2, max_size=2), values),
        }
    ),
)


@bounded
@given(
    header=st.one_of(
        st.dictionaries(st.text(max_size=8), entries, max_size=4).map(lambda h: json.dumps(h).encode()),
        st.binary(max_size=120),
    ),
    length=st.one_of(st.none(), st.integers(0, 2**64 - 1), st.integers(0, 200)),
    data=st.binary(max_size=64),
)
def test_headers(tmp_path: Path, header, length, data):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    with contextlib.suppress(UserError):
        for info in read_safetensors_header(path).values():
            assert info.dtype and all(size >= 0 for size in info.shape)


@bounded
@given(cut=st.integers(0, 5000), flips=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4))
def test_damaged_files(native, native_shapes, cut, flips):
    folder = native(None, {name: shape for name, shape in native_shapes.items() if "norm" in name})
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    for position, value in flips:
        data[position % len(data)] = value
    path.write_bytes(data[: max(len(data) - cut, 0)] if cut % 2 else data)
    parsed(load_draft_config, folder)
