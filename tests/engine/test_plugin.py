# SPDX-License-Identifier: Apache-2.0
"""When the plugin stands aside it says why; bad input ends in one clear error before weights are read."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from tests.engine.conftest import K, environment, llm, prompt
from vllm_dflash import plugin
from vllm_dflash.engine import probe
from vllm_dflash.engine.options import Options
from vllm_dflash.errors import UserError

REGISTER = "from vllm.plugins import load_general_plugins as load; load(); load()"


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment("V1", **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_registering_twice_installs_once_and_touches_no_device() -> None:
    done = python(
        f"{REGISTER}; {REGISTER}; import torch\n"
        "from vllm.config.speculative import SpeculativeConfig as S\n"
        "print(S.__post_init__.__wrapped__.__qualname__, hasattr(S.__post_init__.__wrapped__, '__wrapped__'))\n"
        "print(torch.cuda.is_initialized())"
    )
    assert done.stdout.splitlines()[-2:] == ["SpeculativeConfig.__post_init__ False", "False"], done.stderr


def test_off_switch_says_so_once() -> None:
    done = python(REGISTER, VLLM_DFLASH="0")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "INACTIVE" in line]
    assert len(lines) == 1
    assert lines[0].endswith("INACTIVE: turned off by VLLM_DFLASH=0")


def test_strict_makes_it_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_DFLASH_STRICT", "1")
    with pytest.raises(RuntimeError, match=r"INACTIVE: some reason \(VLLM_DFLASH_STRICT=1\)"):
        plugin.stand_aside("some reason")


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("0.31.0", "vLLM 0.31.0 is not supported (supported: 0.32.x, 0.33.x)"),
        ("0.34.0rc1", "vLLM 0.34.0rc1 is not supported (supported: 0.32.x, 0.33.x)"),
        (None, "vLLM is not installed"),
        ("0.32.0", None),
        ("0.33.2.post1", None),
    ],
)
def test_other_releases_are_left_alone(release: str | None, reason: str | None) -> None:
    assert probe.unsupported_release(release) == reason


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dflash": {"kernel": "auto"}}, ["'kernel'", "one of kernels"]),
        ({"dflash": {"kernels": "fast"}}, ["'fast'", "auto, triton, cuda, stock, torch"]),
        ({"dflash": {"kv_groups": "fast"}}, ["'fast'", "auto, packed, even, stock"]),
        ({"dflash": 3}, ["3", "an object"]),
    ],
)
def test_bad_options_are_named(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        Options.parse(given)
    assert all(word in str(caught.value) for word in words)


def test_options_default() -> None:
    assert Options.parse({"other plugin": 1}) == Options()


def shifted_past_the_end(config: dict[str, Any]) -> None:
    config["dflash_config"]["target_layer_ids"] = [0, 1, 4]


def other_width(config: dict[str, Any]) -> None:
    config["target_hidden_size"] = 128


def mask_outside(config: dict[str, Any]) -> None:
    config["dflash_config"]["mask_token_id"] = tiny.VOCABULARY


BAD: list[tuple[Callable[[dict[str, Any]], None], list[str]]] = [
    (shifted_past_the_end, ["target_layer_ids", "4"]),
    (other_width, ["128", "64"]),
    (mask_outside, ["mask_token_id", str(tiny.VOCABULARY)]),
]


def test_refusals_and_defaults_of_the_engine(pair: Path, engines: Any, tmp_path: Path) -> None:
    """One process: drafters that cannot belong to the target, an unknown option, kernels and packed KV groups insisted
    on, k left out."""
    jobs = []
    for change, _ in BAD:
        folder = tiny.drafter(tmp_path / change.__name__, "SSF")
        config = json.loads((folder / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))
        jobs.append({"llm": llm(pair / "target", folder, K), "requests": []})
    unknown = llm(pair / "target", pair / "SSF", K, additional_config={"dflash": {"kernal": "auto"}})
    insisted = llm(pair / "target", pair / "SSF", K, additional_config={"dflash": {"kernels": "triton"}})
    packed = llm(pair / "target", pair / "SSF", K, additional_config={"dflash": {"kv_groups": "packed"}})
    no_k = llm(pair / "target", pair / "SSF", K)
    del no_k["speculative_config"]["num_speculative_tokens"]
    request = [{"prompt": prompt(5, 5), "max_tokens": 3}]
    jobs += [{"llm": job, "requests": request} for job in (unknown, insisted, packed, no_k)]
    results = engines(jobs, expect_error=True)
    for (change, words), result in zip(BAD, results, strict=False):
        assert all(word in result["error"] for word in words), (change.__name__, result["error"])
        assert not any("ACTIVE" in line for line in result["log"])
    assert "'kernal'" in results[-4]["error"]
    assert "one of kernels" in results[-4]["error"]
    assert "triton" in results[-3]["error"]
    assert "kv_groups: found 'packed'; needed a hybrid target" in results[-2]["error"]
    assert f"k {K}," in results[-1]["log"][0]
