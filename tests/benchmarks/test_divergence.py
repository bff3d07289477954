# SPDX-License-Identifier: Apache-2.0
from vllm_dflash.bench.divergence import Difference, differences


def test_equal_outputs_differ_nowhere() -> None:
    assert differences([[1, 2], [], [3]], [[1, 2], [], [3]]) == []


def test_the_first_differing_token_is_reported() -> None:
    assert differences([[1, 2, 3, 4], [5]], [[1, 2, 9, 9], [5]]) == [Difference(0, 2, 3, 9)]


def test_an_output_that_ends_early_differs_at_its_end() -> None:
    assert differences([[1, 2, 3]], [[1, 2]]) == [Difference(0, 2, 3, None)]
    assert differences([[1, 2]], [[1, 2, 3]]) == [Difference(0, 2, None, 3)]
