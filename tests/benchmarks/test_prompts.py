# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests import tiny
from vllm_dflash.bench.prompts import check_lengths, load_tokenizer, random_prompts, text_prompts
from vllm_dflash.errors import UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny.tokenizer(folder)
    return folder


def test_random_prompts_have_the_length_asked_for_and_no_special_tokens(folder: Path) -> None:
    tokenizer = load_tokenizer(str(folder))
    prompts = random_prompts(tokenizer, 20, 33, seed=1)
    assert {len(prompt.ids) for prompt in prompts} == {33}
    assert len({prompt.ids for prompt in prompts}) == 20
    assert not {i for prompt in prompts for i in prompt.ids} & set(tokenizer.all_special_ids)
    assert prompts == random_prompts(tokenizer, 20, 33, seed=1) != random_prompts(tokenizer, 20, 33, seed=2)


def test_a_dataset_is_read_in_order_with_its_categories(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "prompts.jsonl"
    lines = ['{"prompt": "w5 w6", "category": "a"}', "", '{"messages": [{"role": "user", "content": "w7"}]}']
    data.write_text("\n".join(lines))
    prompts = text_prompts(load_tokenizer(str(folder)), data, 2, seed=0)
    assert [(prompt.ids, prompt.category) for prompt in prompts] == [((5, 6), "a"), ((7,), "all")]


def test_the_chat_template_is_applied_unless_raw(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "prompts.jsonl"
    data.write_text('{"prompt": "w5"}\n')
    tokenizer = load_tokenizer(str(folder))
    tokenizer.chat_template = "{% for m in messages %}w9 {{ m.content }} {% endfor %}w8"
    assert text_prompts(tokenizer, data, 1, seed=0)[0].ids == (9, 5, 8)
    assert text_prompts(tokenizer, data, 1, seed=0, raw=True)[0].ids == (5,)


def test_the_built_in_prompts_cover_several_categories(folder: Path) -> None:
    prompts = text_prompts(load_tokenizer(str(folder)), None, 16, seed=0)
    assert len({prompt.category for prompt in prompts}) >= 4


def test_too_few_prompts_or_too_little_room_is_an_error(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "prompts.jsonl"
    data.write_text('{"prompt": "w5 w6"}\n')
    tokenizer = load_tokenizer(str(folder))
    with pytest.raises(UserError, match="too few prompts"):
        text_prompts(tokenizer, data, 2, seed=0)
    prompts = text_prompts(tokenizer, data, 1, seed=0)
    check_lengths(prompts, 8, 10)
    check_lengths(prompts, 8, None)
    with pytest.raises(UserError, match="max_model_len"):
        check_lengths(prompts, 9, 10)


def test_a_model_without_a_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tokenizer"):
        load_tokenizer(str(tmp_path))
