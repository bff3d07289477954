# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from vllm_dflash.bench import report
from vllm_dflash.bench.plot import plot
from vllm_dflash.bench.rows import Row, Spread

NONE = Row("none", 1, tokens_per_s=Spread(50.0, 49.0, 51.25), step_ms=Spread(20.0, 19.5, 20.4),
           speed_up=1.0, break_even=1.0, kv_tokens=46592, running=1.0)  # fmt: skip
DRAFT = Row("dflash k=7", 1, tokens_per_s=Spread(100.0, 90.0, 110.0), step_ms=Spread(25.0, 24.0, 26.0),
            acceptance_length=2.5, acceptance_rate=1.5 / 7, rate_by_position=[0.8, 0.5, 0.2],
            length_by_category={"python": 3.0, "lists": 2.0}, speed_up=2.0, break_even=1.25, kv_tokens=43648,
            running=1.0)  # fmt: skip
FAILED = Row("mtp k=2", error="ValueError: no such head")
POINT = {"concurrency": 1, "outputs": [[1], [2], [3]], "unstable": 0, "differences": [], "compared": True}


def test_table() -> None:
    assert report.table([NONE, DRAFT, FAILED]).splitlines() == [
        "| running | method     | tokens/s (min..max) | ms a step (min..max) | acceptance length | acceptance rate"
        " | speed-up | break-even length | KV pool, tokens |",
        "| ------: | ---------- | ------------------: | -------------------: | ----------------: | --------------:"
        " | -------: | ----------------: | --------------: |",
        "|       1 | none       |   50.0 (49.0..51.2) | 20.00 (19.50..20.40) |                 - |               -"
        " |     1.00 |              1.00 |          46,592 |",
        "|       1 | dflash k=7 | 100.0 (90.0..110.0) | 25.00 (24.00..26.00) |              2.50 |           21.4%"
        " |     2.00 |              1.25 |          43,648 |",
        "|       - | mtp k=2    |         did not run |                    - |                 - |               -"
        " |        - |                 - |               - |",
    ]  # fmt: skip


def test_positions_and_categories() -> None:
    assert report.by_position([NONE, DRAFT]).splitlines()[-1] == "|       1 | dflash k=7 | 0.80 | 0.50 | 0.20 |"
    assert report.by_category([NONE, DRAFT]).splitlines()[-1] == "|       1 | dflash k=7 |  2.00 |   3.00 |"
    assert report.by_position([NONE]) == report.by_category([NONE]) == ""


def notes(*rows: Row, results: list[dict[str, object]] | None = None) -> str:
    return "\n".join(report.notes(rows, results or [], lambda token: f"<{token}>"))


def test_a_failure_is_a_note_with_its_reason() -> None:
    assert "mtp k=2 did not run: ValueError: no such head" in notes(FAILED)


def test_a_batch_that_did_not_fit_is_said() -> None:
    crowded = Row("dflash k=15", 32, tokens_per_s=NONE.tokens_per_s, running=25.0, preemptions=3)
    assert "only 25.0 of 32 requests ran at once" in notes(crowded)
    assert "3 preemptions" in notes(crowded)
    assert notes(NONE) == ""


def test_equal_and_differing_outputs_are_told_apart() -> None:
    equal = {"label": "dflash k=7", "points": [POINT]}
    assert notes(results=[equal]) == (
        "dflash k=7, 1 running: all 3 greedy outputs equal those without speculation"
    )
    difference = {"prompt": 1, "position": 17, "expected": 5, "found": 6, "gap": 0.03125}
    other = {"label": "dflash k=7", "points": [{**POINT, "differences": [difference], "unstable": 2}]}
    said = notes(results=[other])
    assert "1 of 3 greedy outputs differ from those without speculation; largest logit gap 0.0312" in said
    assert "prompt 1, output token 17: 5 '<5>' without, 6 '<6>' with; logit gap 0.0312" in said
    assert "2 of 3 outputs changed between its own repeats" in said


def test_a_busy_machine_is_said() -> None:
    busy = notes(results=[{"label": "x", "points": [{**POINT, "other_load": 0.43}]}])
    assert "x, 1 running: other processes took 43% of the machine's CPU time" in busy
    assert "other processes" not in notes(results=[{"label": "x", "points": [{**POINT, "other_load": 0.01}]}])


def test_the_largest_gap_comes_first() -> None:
    gaps = [0.0, -2.5, None, 0.25]
    differences = [{"prompt": i, "position": 3, "expected": 5, "found": 6, "gap": gap} for i, gap in enumerate(gaps)]
    said = notes(results=[{"label": "x", "points": [{**POINT, "differences": differences}]}])
    assert "4 of 3 greedy outputs differ from those without speculation; largest logit gap 2.5000" in said
    assert [line.split(",")[0].strip() for line in said.splitlines()[1:3]] == ["prompt 1", "prompt 3"]


def test_an_end_is_said_in_words_and_a_long_list_is_cut() -> None:
    ended = {"prompt": 0, "position": 3, "expected": None, "found": 6, "gap": None}
    said = notes(results=[{"label": "x", "points": [{**POINT, "differences": [ended] * 9}]}])
    assert said.count("end without, 6 '<6>' with; logit gap not known") == report.SHOWN_DIFFERENCES
    assert "and 3 more" in said


def test_the_plugins_own_words_are_shown() -> None:
    assert notes(results=[{"label": "dflash k=7", "plugin": "vllm-dflash 1 ACTIVE"}]) == (
        "dflash k=7: vllm-dflash 1 ACTIVE"
    )


def test_plot_is_a_png(tmp_path: Path) -> None:
    plot([NONE, DRAFT, FAILED], "title", tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
