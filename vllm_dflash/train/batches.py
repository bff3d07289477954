# SPDX-License-Identifier: Apache-2.0
"""Which sequences a step sees, and where its blocks start: all of it follows from (seed, step)."""

from dataclasses import dataclass

import numpy as np
import torch

from vllm_dflash.train.answers import Answers

PAD_TO = 32
BATCHES_SORTED_TOGETHER = 32


@dataclass
class Batch:
    """Right-padded sequences. tokens int64 [B, S]; lengths and prompt_lengths int64 [B]; all on the CPU."""

    tokens: torch.Tensor
    lengths: torch.Tensor
    prompt_lengths: torch.Tensor


class Order:
    """A fixed order of batches: each epoch a new permutation, sequences of similar length together."""

    def __init__(self, answers: Answers, indices: np.ndarray, batch_size: int, seed: int) -> None:
        self.indices, self.seed = indices, seed
        self.lengths = answers.lengths()[indices]
        self.batch_size = min(batch_size, len(indices))
        self.per_epoch = len(indices) // self.batch_size
        self._epoch, self._batches = -1, np.empty((0, 0), dtype=np.int64)

    def __getitem__(self, step: int) -> np.ndarray:
        """Sequence indices [B] of a step counted from 0."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffle(epoch)
        return self._batches[place]

    def _shuffle(self, epoch: int) -> np.ndarray:
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self.indices))[: self.per_epoch * self.batch_size]
        group = self.batch_size * BATCHES_SORTED_TOGETHER
        for start in range(0, len(order), group):
            part = order[start : start + group]
            order[start : start + group] = part[np.argsort(self.lengths[part], kind="stable")]
        batches = self.indices[order].reshape(self.per_epoch, self.batch_size)
        return batches[random.permutation(self.per_epoch)]


def collate(answers: Answers, indices: np.ndarray) -> Batch:
    sequences = [answers.sequence(i) for i in indices]
    lengths = torch.tensor([len(s) for s in sequences])
    width = -(-int(lengths.max()) // PAD_TO) * PAD_TO
    tokens = torch.zeros(len(sequences), width, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = torch.from_numpy(sequence.astype(np.int64))
    return Batch(tokens, lengths, torch.from_numpy(answers.prompt_lengths[indices].astype(np.int64)))


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy without making the host wait for the device."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def draw_anchors(batch: Batch, count: int, seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random distinct anchors: positions p whose next position holds an answer token.

    Returns:
        positions int64 [B, N], ascending, N = min(count, S); valid bool [B, N]: False where a sequence has
        fewer such positions than N (those fill up with other positions, never twice the same).
    """
    width = batch.tokens.shape[1]
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    place = torch.arange(width)
    good = (place >= batch.prompt_lengths[:, None] - 1) & (place < batch.lengths[:, None] - 1)
    keys = torch.rand(batch.tokens.shape, generator=generator) + good
    positions = keys.topk(min(count, width), dim=1).indices.sort(dim=1).values
    return positions, good.gather(1, positions)
