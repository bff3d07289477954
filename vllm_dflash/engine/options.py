# SPDX-License-Identifier: Apache-2.0
"""User options: `--additional-config '{"dflash": {...}}'`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from vllm_dflash.errors import UserError
from vllm_dflash.kernels.selection import KERNELS

KV_GROUPS = ("auto", "packed", "even", "stock")


@dataclass(frozen=True)
class Options:
    """What a user may set under `additional_config["dflash"]`.

    kernels: which kernels run. "auto" takes what was measured fastest on this kind of device, for each shape;
        "triton", "cuda", "torch" insist; "stock" leaves everything but the layers' rule to vLLM's kernels.
    kv_groups: KV cache groups on hybrid targets: "packed" (insists) and "even" (engine/kv_groups.py), "stock": vLLM's.
        "auto": packed where it can be, which on a CPU and with prefix caching it cannot; even elsewhere, and where
        VLLM_KV_CACHE_LAYOUT is set.
    warn_below: acceptance rate of draft position 1 under which a warning names the likely cause (0: never).
    warn_after: drafts to see before judging.
    """

    kernels: str = "auto"
    kv_groups: str = "auto"
    warn_below: float = 0.15
    warn_after: int = 500

    @classmethod
    def parse(cls, additional_config: Any) -> "Options":
        """Read vLLM's `additional_config`. Raises UserError for an unknown key or a bad value."""
        given = additional_config.get("dflash", {}) if isinstance(additional_config, Mapping) else {}
        place = 'additional_config["dflash"]'
        if not isinstance(given, Mapping):
            raise UserError("dflash options must be an object", field=place, found=given, needed="an object")
        known = [f.name for f in fields(cls)]
        for key in given:
            if key not in known:
                raise UserError("unknown dflash option", field=place, found=key, needed=f"one of {', '.join(known)}")
        options = cls(**given)
        if not _is_number(options.warn_below) or not 0 <= options.warn_below < 1:
            raise UserError(
                "not a rate", field=f"{place}.warn_below", found=options.warn_below, needed="from 0 to less than 1"
            )
        if not isinstance(options.warn_after, int) or isinstance(options.warn_after, bool) or options.warn_after < 1:
            raise UserError(
                "not a count of drafts", field=f"{place}.warn_after", found=options.warn_after, needed="1 or more"
            )
        for name, values in (("kernels", KERNELS), ("kv_groups", KV_GROUPS)):
            if getattr(options, name) not in values:
                raise UserError(
                    f"unknown {name}",
                    field=f"{place}.{name}",
                    found=getattr(options, name),
                    needed=f"one of {', '.join(values)}",
                )
        return options


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
