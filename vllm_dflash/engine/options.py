# SPDX-License-Identifier: Apache-2.0
"""User options: `--additional-config '{"dflash": {...}}'`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from vllm_dflash.errors import UserError

KERNELS = ("auto", "torch", "flash_attn")


@dataclass(frozen=True)
class Options:
    """What a user may set under `additional_config["dflash"]`.

    kernels: which draft attention runs. "auto" takes what fits the device; "torch" and "flash_attn" insist.
    """

    kernels: str = "auto"

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
        if options.kernels not in KERNELS:
            raise UserError(
                "unknown kernels",
                field=f"{place}.kernels",
                found=options.kernels,
                needed=f"one of {', '.join(KERNELS)}",
            )
        return options
