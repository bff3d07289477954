# SPDX-License-Identifier: Apache-2.0
import argparse
from pathlib import Path

import pytest

from vllm_dflash.bench.method import NONE, Method, distinct, speculative, with_stock_twins
from vllm_dflash.bench.options import Options, add_arguments, resolve
from vllm_dflash.bench.plan import choose_methods
from vllm_dflash.demo import pair
from vllm_dflash.errors import UserError


def options(*words: str, has_gpu: bool = False) -> Options:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return resolve(parser.parse_args(words), has_gpu)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--concurrency", "1,zero"], "--concurrency"),
        (["--concurrency", "0"], "--concurrency"),
        (["--speculative-config", "{method: dflash}"], "--speculative-config"),
        (["--speculative-config", "[1]"], "--speculative-config"),
        (["--engine-args", "nonsense"], "--engine-args"),
        (["--methods", "none,medusa"], "medusa"),
        (["--num-prompts", "3", "--concurrency", "4"], "--num-prompts"),
        (["--output-len", "0"], "--output-len"),
        (["--temperature", "-1"], "--temperature"),
        (["--input-len", "8", "--dataset", "x.jsonl"], "--dataset"),
        (["--mtp-k", "-1"], "--mtp-k"),
    ],
)
def test_bad_options_are_named(words: list[str], named: str) -> None:
    with pytest.raises(UserError, match=named):
        options(*words)


def test_defaults_follow_the_device() -> None:
    assert options().concurrency == (1, 4)
    assert options(has_gpu=True).concurrency == (1, 4, 16, 64)
    assert options("--concurrency", "8, 2,8").concurrency == (8, 2)


def test_a_pass_has_enough_prompts_to_keep_every_slot_busy() -> None:
    usual = options(has_gpu=True)
    assert [usual.prompts_at(c) for c in (1, 4, 16, 64)] == [16, 16, 64, 256]
    assert usual.most_prompts == 256
    assert options("--num-prompts", "5").prompts_at(4) == 5


def test_none_runs_first_and_methods_have_names() -> None:
    same = '{"method": "dflash", "model": "d", "num_speculative_tokens": 7}'
    words = ["--model", "m", "--speculative-config", same, "--speculative-config", same]
    assert [m.label for m in choose_methods(options(*words))] == [NONE, "dflash k=7", "dflash k=7 #2"]


def test_stock_repeats_dflash_with_the_plugin_off() -> None:
    methods = [Method(NONE, "m"), speculative("m", {"method": "mtp", "num_speculative_tokens": 2}),
               speculative("m", {"method": "dflash", "num_speculative_tokens": 7})]  # fmt: skip
    twins = with_stock_twins(methods)
    assert [m.label for m in twins] == [NONE, "mtp k=2", "dflash k=7", "dflash-stock k=7"]
    assert [m.variables for m in twins] == [{}, {}, {}, {"VLLM_DFLASH": "0"}]
    assert twins[3].speculative_config == twins[2].speculative_config


def test_labels_differ() -> None:
    assert [m.label for m in distinct([Method("a", "m")] * 3)] == ["a", "a #2", "a #3"]


def test_the_demos_methods_and_a_path_that_vllm_does_not_read_a_method_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "vllm-dflash" / name for name in ("target", "mtp", "drafter")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "name").write_text(folder.name)
    monkeypatch.setattr(pair, "prepare_pair", lambda: pair.DemoPair(*folders))
    methods = choose_methods(options("--mtp-k", "1,3", "--dflash-k", "5", "--methods", "none,dflash,mtp"))
    assert [m.label for m in methods] == [NONE, "mtp k=1", "mtp k=3", "dflash k=5"]
    assert [Path(m.model, "name").read_text() for m in methods] == ["target", "mtp", "mtp", "target"]
    assert "dflash" not in methods[1].model
    assert methods[3].speculative_config == {
        "method": "dflash",
        "model": str(folders[2]),
        "num_speculative_tokens": 5,
    }
    assert [m.label for m in choose_methods(options("--methods", "dflash"))] == ["dflash k=3", "dflash k=7"]
