# SPDX-License-Identifier: Apache-2.0
"""An examination as JSON and as text."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vllm_dflash.checkpoint.draft_config import DraftConfig
from vllm_dflash.doctor.compare import show_part
from vllm_dflash.doctor.examine import Examination

PARTS = ("window", "causal", "rope")


def as_dict(examination: Examination) -> dict[str, Any]:
    """Plain JSON values only."""
    config, target, stock = examination.config, examination.target, examination.stock
    return {
        "drafter": str(config.path),
        "target": None if target is None else str(target.path),
        "exit_status": examination.exit_status,
        "fields": {
            name: {"value": _plain(getattr(config, name)), "source": str(config.sources[name])}
            for name in _field_names(config)
        },
        "layers": [
            {
                "window": layer.window,
                "causal": layer.causal,
                "rope": {
                    "theta": layer.rope.theta,
                    "rotary_dim": layer.rope.rotary_dim,
                    "scaling": _plain(layer.rope.scaling),
                    "is_neox_style": layer.rope.is_neox_style,
                },
                "sources": {part: str(config.sources[f"layers.{i}.{part}"]) for part in PARTS},
            }
            for i, layer in enumerate(config.layers)
        ],
        "stock": {
            "version": stock.version,
            "unmodelled": stock.unmodelled or None,
            "refusals": [refusal._asdict() for refusal in stock.refusals],
            "v1_refusal": stock.v1_refusal or None,
            "differences": [one._asdict() for one in examination.differences],
        },
        "probe": None if examination.probe is None else examination.probe.as_dict(),
        "findings": [finding.as_dict() for finding in examination.findings],
    }


def as_text(examination: Examination) -> str:
    """For a terminal: what a checkpoint's own strings hold beyond printable characters is escaped."""
    return "\n".join(
        line if line.isprintable() else line.encode("unicode_escape").decode("ascii") for line in _lines(examination)
    )


def _field_names(config: DraftConfig) -> list[str]:
    return [name for name in config.sources if not name.startswith("layers.")]


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def _lines(examination: Examination) -> Iterator[str]:
    config, target = examination.config, examination.target
    yield f"drafter  {config.path}"
    yield f"         {config.format} format, {len(config.layers)} layers: {config.describe_layers()}"
    if target is not None:
        hybrid = ", hybrid" if target.is_hybrid else ""
        yield f"target   {target.path}"
        yield (
            f"         {target.model_type or 'no model_type'}{hybrid}, {target.num_hidden_layers} layers, "
            + (f"hidden size {target.hidden_size}, vocabulary {target.vocab_size}")
        )
    yield ""
    yield "what the checkpoint says"
    names = _field_names(config)
    width = max(map(len, names))
    for name in names:
        value = _text(getattr(config, name))
        yield f"  {name:<{width}}  {value:<20}  {config.sources[name]}"
    yield ""
    yield "layers"
    for i in range(len(config.layers)):
        yield from _layer_lines(config, i)
    yield ""
    yield from _stock_lines(examination)
    yield ""
    if examination.probe is not None:
        yield from examination.probe.lines()
        yield ""
    yield from _finding_lines(examination)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return f"{value.get('quant_method', 'method not named')!s:.40}"
    return "-" if value is None else str(value)


def _layer_lines(config: DraftConfig, i: int) -> Iterator[str]:
    layer = config.layers[i]
    yield f"  {i}  {', '.join(show_part(layer, part) for part in PARTS)}"
    for part in PARTS:
        source = config.sources[f"layers.{i}.{part}"]
        if i == 0 or source != config.sources[f"layers.{i - 1}.{part}"]:
            yield f"       {part}: {source}"


def _stock_lines(examination: Examination) -> Iterator[str]:
    stock = examination.stock
    yield f"what stock vLLM {stock.version} would do, without the plugin"
    if stock.unmodelled:
        yield f"  not known: {stock.unmodelled}"
        return
    for refusal in stock.refusals:
        yield f"  it would not start: {refusal.reason}"
    for one in examination.differences:
        yield f"  {one.field}: {one.stock} instead of {one.meant}; {one.consequence}"
    if stock.v1_refusal:
        yield f"  its V1 runner would refuse it: {stock.v1_refusal}"
    if not stock.refusals and not examination.differences:
        yield "  otherwise the same" if stock.v1_refusal else "  the same"


def _finding_lines(examination: Examination) -> Iterator[str]:
    counts = {"ERROR": 0, "WARNING": 0, "NOTE": 0}
    for finding in examination.findings:
        counts[finding.level] += 1
        yield f"{finding.level} {finding.field}: {finding.cause}"
        yield f"  seen: {finding.evidence}"
        yield f"  do:   {finding.remedy}"
    yield ", ".join(f"{n} {level.lower()}{'' if n == 1 else 's'}" for level, n in counts.items())
