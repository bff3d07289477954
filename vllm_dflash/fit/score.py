# SPDX-License-Identifier: Apache-2.0
"""Log-likelihood of the target's own tokens under a drafter, read one way or another."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vllm_dflash.checkpoint import DraftConfig
from vllm_dflash.fit.draft_weights import DraftWeights
from vllm_dflash.fit.reading import Reading, reread
from vllm_dflash.fit.samples import Samples
from vllm_dflash.reference.drafter import KeyValue
from vllm_dflash.train.dflash import block_rows

FIRST_GROUP = 3
RUN = 32
CONTENDERS = 2048
FLOOR = -15.0  # nats; one absurd row must not outweigh hundreds
PROJECTION_BYTES = 3 * 2**29
ANCHORS_AT_ONCE = 16  # all rows of a sequence are keys to each other, masked: more cost more than they save


@dataclass
class Group:
    """Some sequences side by side. tokens int64 [B, S]; anchors int64 [B, N], distinct; lengths int64 [B].

    An anchor at or past its sequence's length fills up the row and counts for nothing.
    """

    members: list[int]
    tokens: torch.Tensor
    anchors: torch.Tensor
    lengths: torch.Tensor


class Scorer:
    """Scores readings on samples, group by group, so that what is hopeless costs little; see `deal`.

    The first group, which judges every candidate, drafts from half the anchors. Vocabularies larger than CONTENDERS
    are thinned to about that many rows and all answer tokens: the likelihood is then that among the rows left.

    together: sequences a group, instead: then all groups draft from all anchors. room: bytes of projections kept.
    """

    def __init__(
        self,
        config: DraftConfig,
        weights: DraftWeights,
        samples: Samples,
        anchors: int,
        together: int | None = None,
        room: int = PROJECTION_BYTES,
    ) -> None:
        self.drafter, self.weights, self.samples, self.config = weights.drafter, weights, samples, config
        self.device = weights.drafter.norm.weight.device
        if together is None:
            dealt = deal([len(one) for one in samples.tokens])
            self.parts = [self._group(members, anchors if i else -(-anchors // 2)) for i, members in enumerate(dealt)]
        else:
            by_length = sorted(range(len(samples)), key=lambda i: len(samples.tokens[i]))
            cuts = range(0, len(samples), together)
            self.parts = [self._group(by_length[i : i + together], anchors) for i in cuts]
        self.rows = _contenders(weights, samples)
        self.head = weights.head[self.rows]
        self.place = torch.full((weights.vocabulary,), -1, device=self.device)
        self.place[weights.token_of_row[self.rows]] = torch.arange(len(self.rows), device=self.device)
        self._projected: OrderedDict[tuple[int, int, int], torch.Tensor] = OrderedDict()
        self._room = room
        self._fused: dict[int, tuple[tuple[int, ...], torch.Tensor]] = {}
        self._keys: dict[int, tuple[object, list[KeyValue]]] = {}

    def _group(self, members: list[int], blocks: int) -> Group:
        tokens = torch.nn.utils.rnn.pad_sequence([self.samples.tokens[i] for i in members], batch_first=True)
        lengths = torch.tensor([len(self.samples.tokens[i]) for i in members])
        firsts = torch.tensor([self.samples.prompt_lengths[i] - 1 for i in members])
        share = torch.linspace(0, 1, blocks)
        anchors = (firsts[:, None] + share * (lengths - 2 - firsts)[:, None]).round().long()
        twice = torch.zeros_like(anchors, dtype=torch.bool)
        twice[:, 1:] = anchors[:, 1:] == anchors[:, :-1]
        anchors = torch.where(twice, lengths[:, None] + torch.arange(blocks), anchors)
        return Group(members, tokens.to(self.device), anchors.to(self.device), lengths.to(self.device))

    @property
    def groups(self) -> int:
        return len(self.parts)

    @torch.no_grad()
    def table(self, reading: Reading, group: int) -> torch.Tensor:
        """Mean log-likelihood in nats of each draft position, over the anchors of each sequence of a group.

        Returns:
            float32 [B, draft_tokens], on the CPU; NaN where a sequence has no such position.
        """
        part = self.parts[group]
        return self._log_likelihood(reading, part, part.anchors, group).nanmean(1).cpu()

    @torch.no_grad()
    def falls(self, reading: Reading, group: int) -> torch.Tensor:
        """How much likelier a token is when drafted at a position than at the next, from one anchor earlier.

        The same tokens on both sides, of a run of RUN anchors in each sequence: far less noise than between `table`'s
        columns. float32 [B, draft_tokens - 1] in nats, on the CPU; NaN where a sequence has fewer than RUN / 2 of them.
        """
        part = self.parts[group]
        firsts = torch.tensor([self.samples.prompt_lengths[i] - 1 for i in part.members], device=self.device)
        spare = (part.lengths - firsts - RUN - reading.draft_tokens).clamp(min=0)
        anchors = (firsts + spare // 2)[:, None] + torch.arange(RUN, device=self.device)
        found = self._log_likelihood(reading, part, anchors, group)
        found = found[:, 1:, :-1] - found[:, :-1, 1:]
        enough = (~found.isnan()).sum(1) >= RUN // 2
        return found.nanmean(1).where(enough, float("nan")).cpu()

    def _log_likelihood(self, reading: Reading, part: Group, anchors: torch.Tensor, group: int) -> torch.Tensor:
        """[B, N, draft_tokens] in nats, at least FLOOR; NaN past the end of a sequence and for dropped tokens."""
        context = self.context(reading, group)
        some = anchors.split(ANCHORS_AT_ONCE, dim=1)
        return torch.cat([self._log_likelihood_of(reading, part, one, context) for one in some], dim=1)

    def _log_likelihood_of(
        self, reading: Reading, part: Group, anchors: torch.Tensor, context: Sequence[KeyValue]
    ) -> torch.Tensor:
        hidden = self.hidden(reading, part, anchors, context)[:, :, 0 if reading.sample_from_anchor else 1 :]
        ahead = anchors[..., None] + torch.arange(1, reading.draft_tokens + 1, device=self.device)
        inside = ahead < part.lengths[:, None, None]
        labels = part.tokens.gather(1, ahead.clamp(max=part.tokens.shape[1] - 1).flatten(1)).view(ahead.shape)
        labels = self.place[labels]
        inside &= labels >= 0
        log_p = self.weights.shape_logits(hidden[inside] @ self.head.T).log_softmax(-1)
        table = torch.full(ahead.shape, float("nan"), device=self.device)
        table[inside] = log_p.gather(1, labels[inside][:, None])[:, 0].clamp(min=FLOOR)
        return table

    def context(self, reading: Reading, group: int) -> list[KeyValue]:
        """Each draft layer's keys and values of all context positions; the drafter follows `reading` from here on."""
        reread(self.drafter, reading)
        taps, known = reading.tap_layer_ids, self._fused.get(group)
        if known is None or known[0] != taps:
            total = sum(self._project(slot, layer, group) for slot, layer in enumerate(taps))
            assert isinstance(total, torch.Tensor)
            known = self._fused[group] = (taps, self.drafter.hidden_norm(total))
        same = (taps, tuple(layer.rope for layer in reading.layers))
        if group not in self._keys or self._keys[group][0] != same:
            self._keys[group] = (same, self.drafter.context_key_value(known[1], self._places(known[1])))
        return self._keys[group][1]

    def hidden(self, reading: Reading, part: Group, anchors: torch.Tensor, context: Sequence[KeyValue]) -> torch.Tensor:
        """Normed hidden states of all rows, [B, N, block, hidden].

        Args:
            anchors: [B, N] positions, distinct in a sequence; context: from `context`, of the same reading.
        """
        positions, anchor_of = block_rows(anchors, reading.block_size)
        visible = self.drafter.visibility(positions, anchor_of, self._places(context[0][0]))
        rows = self.weights.mask_vector(reading.mask_token_id).expand(*anchors.shape, reading.block_size, -1).clone()
        rows[:, :, 0] = self.weights.embed(part.tokens.gather(1, anchors.clamp(max=part.tokens.shape[1] - 1)))
        out = self.drafter(rows.flatten(1, 2), positions, context, visible)
        return out.unflatten(1, (anchors.shape[1], reading.block_size))

    def _places(self, like: torch.Tensor) -> torch.Tensor:
        return torch.arange(like.shape[1], device=self.device).expand(like.shape[:2])

    def _project(self, slot: int, layer: int, index: int) -> torch.Tensor:
        """What one tap adds to `fc`'s output: its own columns times the layer's features, [B, S, hidden]."""
        key = (slot, layer, index)
        if key in self._projected:
            self._projected.move_to_end(key)
            return self._projected[key]
        width = self.config.target_hidden_size
        columns = self.drafter.fc.weight[:, slot * width : (slot + 1) * width]
        part = [self.samples.features[i][layer] for i in self.parts[index].members]
        stacked = torch.nn.utils.rnn.pad_sequence(part, batch_first=True).to(columns.dtype)
        out = self._projected[key] = stacked @ columns.T
        self._room -= out.nbytes
        while self._room < 0 and len(self._projected) > 1:
            self._room += self._projected.popitem(last=False)[1].nbytes
        return out


def deal(lengths: Sequence[int]) -> list[list[int]]:
    """Sequences in groups of 3, 3, 6, 12, ...: each doubles what went before, long and short ones in all of them."""
    rest = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    groups: list[list[int]] = []
    while rest:
        size = min(len(rest), max(FIRST_GROUP, sum(map(len, groups))))
        picked = [rest[i * len(rest) // size] for i in range(size)]
        groups.append(picked)
        rest = [i for i in rest if i not in picked]
    return groups


def _contenders(weights: DraftWeights, samples: Samples) -> torch.Tensor:
    """Rows of the head that are scored."""
    rows = weights.head.shape[0]
    if rows <= CONTENDERS:
        return torch.arange(rows, device=weights.head.device)
    answered = torch.cat([t[n:] for t, n in zip(samples.tokens, samples.prompt_lengths, strict=True)]).unique()
    used = weights.row_of_token[answered.to(weights.head.device)]
    spread = torch.arange(0, rows, rows // CONTENDERS + 1, device=weights.head.device)
    return torch.cat([used[used >= 0], spread]).unique()
