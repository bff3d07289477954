# SPDX-License-Identifier: Apache-2.0
"""A request drafts up to the end of the drafter's range or of the served length; the others in its batch go on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests import tiny
from tests.engine.conftest import WINDOW, K, llm, prompt
from vllm_dflash.checkpoint import load_draft_config
from vllm_dflash.reference.decode import Generation, generate
from vllm_dflash.reference.drafter import Drafter
from vllm_dflash.reference.target import Target

TRAINED = 64  # positions of the drafters here
PROMPTS = [prompt(50, 1), prompt(5, 2), prompt(90, 3)]  # crosses the end of the range; never; begins behind it
TOKENS = [40, 40, 20]
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": TRAINED // 2}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`target`; drafters with a short range: `plain`, `yarn` (whose stock table ends with the range); a `long` one."""
    root = tmp_path_factory.mktemp("positions")
    tiny.target(root / "target", seed=2)
    for name in ("plain", "yarn", "long"):
        positions = 512 if name == "long" else TRAINED
        folder = tiny.drafter(root / name, "SSF", window=WINDOW, block=K + 1, positions=positions, seed=3)
        config = json.loads((folder / "config.json").read_text())
        if name == "yarn":
            config["rope_parameters"] = YARN | {"rope_theta": config.pop("rope_theta", 10000.0)}
        (folder / "config.json").write_text(json.dumps(config))
    return root


def reference(root: Path, name: str, prompts: list[list[int]], lengths: list[int]) -> list[Generation]:
    config = load_draft_config(root / name)
    model = AutoModelForCausalLM.from_pretrained(root / "target", dtype=torch.float32)
    target, drafter = Target(model, config.tap_layer_ids), Drafter.load(config)
    return [generate(target, drafter, p, k=K, max_tokens=n) for p, n in zip(prompts, lengths, strict=True)]


def drafted_before(end: int, prompt: list[int], generation: Generation) -> list[int]:
    """Accepted counts of the steps whose whole block lies before `end`."""
    accepted, anchor = [], len(prompt)
    for count in generation.accepted:
        if anchor + K >= end:
            break
        accepted.append(count)
        anchor += count + 1
    return accepted


def job(root: Path, name: str | None, prompts: list[list[int]], lengths: list[int], **more: Any) -> dict[str, Any]:
    requests = [{"prompt": p, "max_tokens": n, "ignore_eos": True} for p, n in zip(prompts, lengths, strict=True)]
    engine = llm(root / "target", root / name if name else None, K, **{"async_scheduling": False} | more)
    return {"llm": engine, "requests": requests, "together": True}


# The first fills the served length, whose last page is exactly the last column of the block table.
SERVED = 128
ENDS: dict[str, Any] = {"prompts": [prompt(104, 4), prompt(6, 5)], "lengths": [24, 50]}


@pytest.fixture(scope="module")
def v1(root: Path, engines: Any) -> dict[str, Any]:
    capped = job(root, "plain", PROMPTS, TOKENS)
    capped["llm"]["speculative_config"]["max_model_len"] = 30
    jobs = {
        "none": job(root, None, PROMPTS, TOKENS),
        "plain": job(root, "plain", PROMPTS, TOKENS),
        "yarn": job(root, "yarn", PROMPTS, TOKENS),
        "async": job(root, "plain", PROMPTS, TOKENS, async_scheduling=True),
        "capped": capped,
        "end": job(root, "long", **ENDS, max_model_len=SERVED),
        "end, none": job(root, None, **ENDS, max_model_len=SERVED),
    }
    return dict(zip(jobs, engines(list(jobs.values())), strict=True))


@pytest.mark.parametrize("name", ["plain", "yarn", "async", "capped"])
def test_output_is_the_targets(v1: dict[str, Any], name: str) -> None:
    assert v1[name]["tokens"] == v1["none"]["tokens"]


@pytest.mark.parametrize("name", ["plain", "yarn"])
def test_drafts_stop_at_the_end_of_the_range(root: Path, v1: dict[str, Any], name: str) -> None:
    generations = reference(root, name, PROMPTS, TOKENS)
    wanted = [drafted_before(TRAINED, p, g) for p, g in zip(PROMPTS, generations, strict=True)]
    assert 0 < len(wanted[0]) < len(generations[0].accepted)
    assert wanted[2] == []
    assert sum(wanted[1]) > 5
    assert [[accepted for _, accepted, _ in steps] for steps in v1[name]["verified"]] == wanted


def test_asynchronous_scheduling_stops_at_most_a_block_early(root: Path, v1: dict[str, Any]) -> None:
    crossing, other, behind = reference(root, "plain", PROMPTS, TOKENS)
    first, second, third = ([accepted for _, accepted, _ in steps] for steps in v1["async"]["verified"])
    latest = drafted_before(TRAINED, PROMPTS[0], crossing)
    assert first[:-1] == latest[: len(first) - 1]
    assert first[-1] in (0, latest[len(first) - 1])  # scheduled before the end was known: those drafts are void
    assert len(first) >= len(drafted_before(TRAINED - K, PROMPTS[0], crossing)) > 0
    assert second == other.accepted
    assert third == []
    assert behind.accepted


def test_the_users_own_limit_counts_too(root: Path, v1: dict[str, Any]) -> None:
    generations = reference(root, "plain", PROMPTS, TOKENS)
    wanted = [drafted_before(30, p, g) for p, g in zip(PROMPTS, generations, strict=True)]
    assert [[accepted for _, accepted, _ in steps] for steps in v1["capped"]["verified"]] == wanted
    assert [bool(w) for w in wanted] == [False, True, False]


def test_one_warning_says_where_drafting_ends(v1: dict[str, Any]) -> None:
    (line,) = [line for line in v1["plain"]["log"] if "max_position_embeddings" in line]
    assert line.startswith(f"max_model_len 256 is more than the {TRAINED} positions of ")
    assert not any("max_position_embeddings" in line for line in v1["end"]["log"])


def test_a_request_at_the_end_of_the_served_length_does_not_stop_the_others(root: Path, v1: dict[str, Any]) -> None:
    """Nor leave holes in their context: the other one accepts as alone to its own end."""
    assert v1["end"]["tokens"] == v1["end, none"]["tokens"]
    assert len(v1["end"]["tokens"][0]) == 24
    first, second = reference(root, "long", **ENDS)
    wanted = [drafted_before(SERVED, p, g) for p, g in zip(ENDS["prompts"], (first, second), strict=True)]
    assert [[accepted for _, accepted, _ in steps] for steps in v1["end"]["verified"]] == wanted
    assert wanted[1] == second.accepted
    assert sum(wanted[1]) > 5


def test_v2_stops_too(root: Path, engines: Any) -> None:
    """Few tokens, because V2 is slow on a CPU: the first request crosses the end at once, the second is far from it."""
    prompts, lengths = [prompt(56, 6), prompt(5, 2)], [12, 12]
    drafting, plain = engines([job(root, name, prompts, lengths) for name in ("yarn", None)], runner="V2")
    assert drafting["tokens"] == plain["tokens"]
    generations = reference(root, "yarn", prompts, lengths)
    first, second = ([accepted for _, accepted, _ in steps] for steps in drafting["verified"])
    latest = drafted_before(TRAINED, prompts[0], generations[0])
    assert first == latest[: len(first)]
    assert 0 < len(first) < len(generations[0].accepted)
    assert second == generations[1].accepted
