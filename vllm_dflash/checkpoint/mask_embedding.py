# SPDX-License-Identifier: Apache-2.0
"""`mask_embedding.pt`: a trained vector in place of the mask token's row of the embedding table (MiMo)."""

from pathlib import Path
from typing import Any

from vllm_dflash.checkpoint.json_file import read_bytes
from vllm_dflash.errors import UserError

NAME = "mask_embedding.pt"
LARGEST_BYTES = 16 * 2**20


def read_mask_embedding(file: Path, mask_token_id: int, hidden_size: int) -> Any:
    """The vector, a torch.Tensor [hidden_size] in its stored dtype.

    The file holds a tensor, or {"embedding": tensor, "mask_token_id": int}. It is opened with
    weights_only=True, so it cannot run code. Raises UserError for anything else.
    """
    import io

    import torch

    data = read_bytes(file, LARGEST_BYTES)
    try:
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception:
        raise UserError(
            f"{NAME} is not a plain tensor file", needed="torch.save of a tensor", file=file
        ) from None
    if isinstance(state, dict):
        stored = state.get("mask_token_id", mask_token_id)
        if stored != mask_token_id:
            raise UserError(
                f"{NAME} is for another mask token",
                field="mask_token_id",
                found=stored,
                needed=f"{mask_token_id} (config.json)",
                file=file,
            )
        state = state.get("embedding")
    if not isinstance(state, torch.Tensor) or state.numel() != hidden_size or not state.is_floating_point():
        found = list(state.shape) if isinstance(state, torch.Tensor) else type(state).__name__
        raise UserError(
            f"{NAME} does not fit the drafter",
            field="embedding",
            found=found,
            needed=f"[{hidden_size}]",
            file=file,
        )
    return state.reshape(-1)
