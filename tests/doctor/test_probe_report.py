# SPDX-License-Identifier: Apache-2.0
"""How measurements read, without any model."""

from vllm_dflash.doctor.probe_findings import probe_findings
from vllm_dflash.doctor.probe_result import Alternative, Probe, Rates

RATES = Rates(200, (2.6, 0.2), ((0.7, 0.05), (0.4, 0.05)))
CLOSE = Alternative("layers.causal", "causality flipped", "causal", (0.005, 0.006))
FAR = Alternative("tap_layer_ids", "every tap one layer later", "[2, 5]", (-0.25, 0.05))


def probe(*alternatives: Alternative) -> Probe:
    return Probe(8, 223, 2, -2.6, RATES, 0.1, alternatives, True)


def test_what_is_not_told_apart_is_marked_and_named() -> None:
    lines = list(probe(CLOSE, FAR).lines())
    assert "  = +0.005 ± 0.012  causality flipped" in lines
    assert "    -0.250 ± 0.100  every tap one layer later" in lines
    (finding,) = probe_findings(probe(CLOSE, FAR))
    assert finding.level == "NOTE" and "2.60 ± 0.40" in finding.cause
    assert finding.evidence.endswith("not told apart from the config by 8 prompts: causality flipped")
    assert "more --probe-prompts" in finding.remedy


def test_nothing_is_said_where_all_is_told_apart() -> None:
    (finding,) = probe_findings(probe(FAR))
    assert finding.evidence.endswith("no other reading is clearly better") and "--probe-prompts" not in finding.remedy
