# SPDX-License-Identifier: Apache-2.0
"""The acceptance watch: which shapes it names, that it speaks once, and that healthy drafters stay silent."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import llm, prompt
from vllm_dflash.engine.acceptance import AcceptanceWatch
from vllm_dflash.engine.options import Options
from vllm_dflash.errors import UserError

WINDOW = 100


def said(groups: list[tuple[int, int, float]], drafts: int = 600) -> list[str]:
    """groups: (context, cached, acceptance rate of the first token), visited in turn."""
    watch = AcceptanceWatch(WINDOW, floor=0.15, after=500)
    causes = []
    for i in range(drafts):
        for context, cached, rate in groups:
            hit = int((i + 1) * rate) - int(i * rate)
            cause = watch.observe(context, cached, 3 * hit)
            causes += [cause] if cause else []
    return causes


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([(50, 0, 0.01)], "taps, mask token or head"),
        ([(50, 0, 0.05), (500, 0, 0.02), (500, 64, 0.0)], "taps, mask token or head"),
        ([(50, 0, 0.6), (500, 0, 0.1)], "sliding window"),
        ([(50, 0, 0.6), (500, 64, 0.2)], "not written for the cached tokens"),
    ],
)
def test_the_shape_names_the_cause_once(groups: list[tuple[int, int, float]], words: str) -> None:
    (cause,) = said(groups)
    assert words in cause


@pytest.mark.parametrize(
    "groups",
    [
        [(50, 0, 0.6)],
        [(50, 0, 0.6), (500, 0, 0.45), (500, 64, 0.5)],
        [(50, 0, 0.2)],
        [(500, 0, 0.3)],
    ],
)
def test_healthy_drafters_are_left_alone(groups: list[tuple[int, int, float]]) -> None:
    assert said(groups) == []


def test_nothing_is_said_before_enough_drafts() -> None:
    assert said([(50, 0, 0.0)], drafts=499) == []


@pytest.mark.parametrize(
    ("given", "field"),
    [({"warn_below": 1}, "warn_below"), ({"warn_below": "0.1"}, "warn_below"), ({"warn_after": 0}, "warn_after")],
)
def test_bad_thresholds_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError, match=field):
        Options.parse({"dflash": given})


def test_a_running_engine_warns_once_and_has_gauges(pair: Path, engines: Any, tmp_path: Path) -> None:
    """A drafter with another mask token, and a threshold that the random pair passes only without it."""
    broken = tmp_path / "broken"
    shutil.copytree(pair / "SSF", broken)
    config = json.loads((broken / "config.json").read_text())
    config["dflash_config"]["mask_token_id"] = 3
    (broken / "config.json").write_text(json.dumps(config))
    requests = [{"prompt": prompt(10, 300 + i), "max_tokens": 60, "ignore_eos": True} for i in range(6)]
    options = {"dflash": {"warn_below": 0.99, "warn_after": 100}}
    quiet = {"dflash": {"warn_below": 0}}
    jobs = [
        {"llm": llm(pair / "target", broken, additional_config=chosen), "requests": requests, "together": True}
        for chosen in (options, quiet)
    ]
    warned, silent = engines(jobs)
    (warning,) = [line for line in warned["log"] if "Low DFlash acceptance" in line]
    assert f"vllm-dflash doctor {broken} --target {pair / 'target'} --probe" in warning
    assert not any("Low DFlash" in line for line in silent["log"])
    assert not any("watch is off" in line for line in warned["log"])
    gauges = warned["metrics"]
    counted = gauges["spec_decode_num_accepted_tokens"] / gauges["spec_decode_num_drafts"]
    assert gauges["dflash_acceptance_length"] == pytest.approx(1 + counted)
    assert gauges["dflash_drafting"] in (0, 1)
    last = gauges["spec_decode_num_accepted_tokens_per_pos"][-1] / gauges["spec_decode_num_drafts"]
    assert gauges["dflash_acceptance_rate_per_pos"] == pytest.approx(last)  # one name, four positions: the last stays
