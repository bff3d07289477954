# SPDX-License-Identifier: Apache-2.0
"""What runs where, as `vllm-dflash env` says it and as the engine does it."""

import pytest

from vllm_dflash.kernels import selection
from vllm_dflash.kernels.selection import MEASUREMENT, Faster, auto, stock_is_faster


def test_no_measured_shape_is_stocks() -> None:
    assert not any(stock_is_faster(programs, window) for programs in (8, 32, 128, 512) for window in (None, 2048))


def test_the_table_is_by_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "STOCK_IS_FASTER", (Faster(windowed=False, least=65, most=256),))
    assert "65 to 256 (full layers)" in auto("9.0", 3, "3.6.0", None)["draft attention"]
    assert not stock_is_faster(128, 2048)
    assert not stock_is_faster(8, 2048)
    assert not stock_is_faster(512, 2048)
    assert not stock_is_faster(32, None)
    assert stock_is_faster(128, None)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ((None, None, "3.6.0", "avx512"), "compiled, avx512"),
        ((None, None, None, "not built: no compiler"), "torch (not built: no compiler)"),
        (("9.0", 3, "3.6.0", None), MEASUREMENT),
        (("8.0", 2, "3.6.0", None), "Triton at every shape"),
        (("9.0", 3, None, None), "Triton is not installed"),
    ],
)
def test_auto_says_what_and_why(device: tuple[str | None, int | None, str | None, str | None], words: str) -> None:
    assert words in auto(*device)["draft attention"]
