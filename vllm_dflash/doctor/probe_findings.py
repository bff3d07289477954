# SPDX-License-Identifier: Apache-2.0
"""What the probe's numbers mean: the config is misread, the drafter does not fit, or both are right."""

from vllm_dflash.checkpoint import Finding
from vllm_dflash.doctor.probe import is_clear
from vllm_dflash.doctor.probe_result import Alternative, Probe, Rates

LOWEST_FIT = 0.2  # share of steps that accept the first draft; drafters that fit have 0.5 to 0.9
POOR_FIT = 0.4


def probe_findings(probe: Probe) -> list[Finding]:
    """A better reading that fits, else a drafter that does not fit, else what a right engine would accept."""
    better = [one for one in probe.alternatives if is_clear(one) and one.rates is not None and _fits(one.rates, probe)]
    found = [_misread(better, probe)] if better else [_fit(probe)]
    if not probe.windows_judged:
        found.append(_windows(probe))
    return found


def _misread(better: list[Alternative], probe: Probe) -> Finding:
    best = better[0]
    value, error = best.better
    length = "" if best.rates is None else f"; acceptance length {best.rates.length[0]:.2f}"
    evidence = f"better by {value:.3f} ± {2 * error:.3f} nats a drafted row{length}, as written {_length(probe)}"
    if len(better) > 1:
        evidence += f"; also better: {', '.join(one.name for one in better[1:4])}"
    remedy = f"write {best.change} for {best.field}; `vllm-dflash recover --ignore-config` searches every field"
    return Finding("ERROR", best.field, f"the config is misread or wrong: {best.name} fits better", evidence, remedy)


def _fit(probe: Probe) -> Finding:
    first, error = probe.rates.by_position[0]
    evidence = f"the first draft is right in {first:.2f} ± {2 * error:.2f} of {probe.rates.steps} steps"
    if not _fits(probe.rates, probe):
        cause = "this drafter does not fit this target, and no other reading of its config that was tried does"
        remedy = "check that it was trained for this target; `vllm-dflash recover --ignore-config` tries more readings"
        return Finding("ERROR", "target", cause, f"{evidence}; a blind guess: {probe.floor:.2f}", remedy)
    if first < POOR_FIT:
        cause = "this drafter fits this target poorly"
        remedy = "compare with prompts like those it was trained on (--prompts FILE), and with its model card"
        return Finding("WARNING", "target", cause, f"{evidence}; acceptance length {_length(probe)}", remedy)
    low = probe.rates.length[0] - 2 * probe.rates.length[1]
    cause = f"the drafter fits: expect an acceptance length of {_length(probe)} with {probe.draft_tokens} draft tokens"
    remedy = f"a server that stays below {low:.2f} on such prompts (greedy) has an engine that is wrong, not a drafter"
    evidence += "; no other reading is clearly better"
    equal = [one.name for one in probe.alternatives if not one.told_apart]
    if equal:
        evidence += f"; not told apart from the config by {probe.prompts} prompts: {', '.join(equal)}"
        remedy += "; more --probe-prompts tell more apart"
    return Finding("NOTE", "acceptance", cause, evidence, remedy)


def _fits(rates: Rates, probe: Probe) -> bool:
    first, error = rates.by_position[0]
    return first >= max(LOWEST_FIT, probe.floor + 2 * error)


def _length(probe: Probe) -> str:
    value, error = probe.rates.length
    return f"{value:.2f} ± {2 * error:.2f}"


def _windows(probe: Probe) -> Finding:
    cause = "the probe's contexts do not reach past every window, so whether those are right was not judged"
    evidence = f"longest context {probe.longest_context}"
    return Finding("NOTE", "layers.window", cause, evidence, "probe with longer prompts (--prompts FILE)")
