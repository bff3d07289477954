# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from vllm_dflash.errors import UserError
from vllm_dflash.train.prompt_templates import choices, expand
from vllm_dflash.train.prompts import (
    CATEGORIES,
    Prompt,
    generate,
    heldout,
    main,
    read_jsonl,
    train,
    write_jsonl,
)

CHECKOUT = Path(__file__).resolve().parents[2]
FIRST_HUNDRED = "c9feba8e0f9d92bab2c75d5e3cf9e52b863b6b86780d5296eefecc2169bdd2dd"
HELD_OUT = "8e5ff68a16640fa55926c10328c2304da5941f2f32e17c1bdacd0c8d183cd961"


@pytest.fixture(scope="module")
def prompts() -> list[Prompt]:
    return generate(20_000, seed=0)


def digest(prompts: list[Prompt]) -> str:
    return hashlib.sha256(repr([(p.prompt, p.template, p.split) for p in prompts]).encode()).hexdigest()


def test_all_are_distinct(prompts: list[Prompt]) -> None:
    assert len({p.prompt for p in prompts}) == 20_000


def test_nothing_is_left_to_fill(prompts: list[Prompt]) -> None:
    assert not [p for p in prompts if p.prompt != p.prompt.strip() or "  " in p.prompt.split("```")[0]]
    assert not [
        p for p in prompts if any(f"<{name}" in p.prompt for name in ("name", "objects", "small", "n>"))
    ]


def test_the_first_hundred_never_change(prompts: list[Prompt]) -> None:
    assert digest(prompts[:100]) == FIRST_HUNDRED
    assert generate(100, seed=0) == prompts[:100]


def test_another_process_with_another_hash_seed_agrees(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vllm_dflash.train.prompts", "out.jsonl", "--count", "100"]
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "85 training and 15 held-out prompts in out.jsonl\n"
    assert digest(read_jsonl(tmp_path / "out.jsonl")) == FIRST_HUNDRED


def test_seeds_differ() -> None:
    shared = {p.prompt for p in generate(1000, seed=1)} & {p.prompt for p in generate(1000, seed=2)}
    assert len(shared) < 100


def test_categories_and_templates_are_balanced(prompts: list[Prompt]) -> None:
    assert Counter(p.category for p in prompts) == dict.fromkeys(CATEGORIES, 4000)
    per_template = Counter(p.template for p in prompts)
    assert len(per_template) == sum(map(len, CATEGORIES.values())) == 370
    assert min(per_template.values()) >= 50
    assert max(per_template.values()) < 70


def test_a_long_list_leans_on_no_template() -> None:
    long = train(110_000, seed=1)
    assert len({p.prompt for p in long}) == 110_000
    per_template = Counter(p.template for p in long)
    assert max(per_template.values()) < 0.005 * 110_000
    assert sorted(per_template.values())[len(per_template) // 20] > 250


def test_the_held_out_prompts_never_change() -> None:
    assert digest(heldout(1024, seed=0)) == HELD_OUT


@pytest.mark.parametrize("category", CATEGORIES)
def test_each_category_trains_on_many_templates_and_holds_out_three(category: str) -> None:
    templates = CATEGORIES[category]
    held_out = [template for template in templates if template.held_out]
    assert len(templates) - len(held_out) >= 50
    assert len(held_out) == 3
    assert len({template.name for template in templates}) == len(templates)


def test_no_template_and_no_text_is_in_both_splits(prompts: list[Prompt]) -> None:
    for field in ("template", "prompt"):
        trained = {getattr(p, field) for p in prompts if p.split == "train"}
        held_out = {getattr(p, field) for p in prompts if p.split == "heldout"}
        assert trained
        assert held_out
        assert not trained & held_out


def test_splits_on_their_own() -> None:
    trained, held_out = train(5000, seed=3), heldout(5000, seed=4)
    assert {p.split for p in trained} == {"train"}
    assert {p.split for p in held_out} == {"heldout"}
    assert not {p.prompt for p in trained} & {p.prompt for p in held_out}
    assert not {p.template for p in trained} & {p.template for p in held_out}
    assert set(Counter(p.category for p in held_out).values()) == {1000}


@pytest.mark.parametrize(("count", "message"), [(0, "nothing to generate"), (300_000, "cannot make so many")])
def test_impossible_counts(count: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        heldout(count, seed=0)


def test_expand_fills_alike_and_unlike_slots() -> None:
    rules = {"x": choices("a,b"), "pair": ["<x1><x2>"]}
    for seed in range(20):
        assert expand("<x>=<x>", rules, Random(seed)) in ("a=a", "b=b")
        assert expand("<pair>", rules, Random(seed)) in ("ab", "ba")


def test_written_and_read_again(tmp_path: Path) -> None:
    made = generate(300, seed=5)
    write_jsonl(tmp_path / "p.jsonl", made)
    assert read_jsonl(tmp_path / "p.jsonl") == made
    chat = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "é"}], "extra": 1}
    (tmp_path / "q.jsonl").write_text(json.dumps(chat) + "\n\n" + json.dumps({"prompt": "hi"}))
    read = read_jsonl(tmp_path / "q.jsonl")
    assert read == [
        Prompt("é", "all", "é", "", tuple(chat["messages"])),  # type: ignore[arg-type]
        Prompt("hi", "all", "hi", ""),
    ]
    write_jsonl(tmp_path / "again.jsonl", read)
    assert read_jsonl(tmp_path / "again.jsonl") == read


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{prompt: 1}", "not JSON"),
        ("[1]", "not a JSON object"),
        ("3", "not a JSON object"),
        ("{}", 'needs "prompt"'),
        ('{"prompt": 3}', 'needs "prompt"'),
        ('{"messages": "hi"}', 'needs "prompt"'),
        ('{"messages": []}', 'needs "prompt"'),
        ('{"messages": [{"role": "user"}]}', "a message has no text"),
        ('{"messages": ["hi"]}', "a message has no text"),
        ('{"prompt": " \\n"}', "the prompt is empty"),
        ('{"messages": [{"role": "user", "content": ""}]}', "the prompt is empty"),
        ('{"prompt": "x", "category": 1}', "category: found 1"),
        ('{"prompt": "x", "split": "test"}', "unknown split"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"prompt": "fine"}}\n\n{line}\n')
    with pytest.raises(UserError, match=message) as caught:
        read_jsonl(path)
    assert f"{path}:3" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the prompts"):
        read_jsonl(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UserError, match="no prompts"):
        read_jsonl(tmp_path / "empty.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot read the prompts"):
        read_jsonl(tmp_path / "binary.jsonl")


def test_main_reports_errors_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "no/such/folder.jsonl"), "--count", "5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([str(tmp_path / "x.jsonl"), "--count", "0"]) == 2
    assert "error: nothing to generate" in capsys.readouterr().err
    assert main([str(tmp_path / "x.jsonl"), "--count", "10", "--split", "heldout"]) == 0
    assert {p.split for p in read_jsonl(tmp_path / "x.jsonl")} == {"heldout"}
