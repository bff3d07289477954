# SPDX-License-Identifier: Apache-2.0
"""Is acceptance what a working drafter gives, and if not, what does the shape of it point to? No vLLM here."""

from dataclasses import dataclass, field

ENOUGH = 100  # drafts in a group before its rate means something
DROP = 0.5  # a group below this share of the healthy group's rate has collapsed


@dataclass
class Group:
    """Drafts of one kind: how many, and how many had their first token accepted."""

    drafts: int = 0
    first_accepted: int = 0

    def add(self, accepted: int) -> None:
        self.drafts += 1
        self.first_accepted += accepted > 0

    @property
    def rate(self) -> float | None:
        """Acceptance rate of draft position 1, None while there are too few drafts."""
        return self.first_accepted / self.drafts if self.drafts >= ENOUGH else None


@dataclass
class AcceptanceWatch:
    """Watches draft position 1, by context length and by cached prefix, and speaks at most once.

    window: the drafter's smallest sliding window in tokens, None without one.
    floor: acceptance rate of position 1 below which no drafter that fits its target falls.
    after: drafts to see before judging.
    """

    window: int | None
    floor: float
    after: int
    fresh: Group = field(default_factory=Group)
    past_window: Group = field(default_factory=Group)
    after_cached_prefix: Group = field(default_factory=Group)
    seen: int = 0
    spoken: bool = False

    def observe(self, context: int, cached: int, accepted: int) -> str | None:
        """One verified draft.

        Args:
            context: tokens before the block; cached: of those, restored from the prefix cache; accepted: tokens.

        Returns:
            The likely cause, the first time that one shows; else None.
        """
        if self.spoken:
            return None
        self.seen += 1
        if cached > 0:
            self.after_cached_prefix.add(accepted)
        elif self.window is not None and context > self.window:
            self.past_window.add(accepted)
        else:
            self.fresh.add(accepted)
        if self.seen < self.after or self.seen % ENOUGH:
            return None
        cause = self.cause()
        self.spoken = cause is not None
        return cause

    def cause(self) -> str | None:
        """What the rates so far point to, or None while they look healthy."""
        fresh, far, cached = self.fresh.rate, self.past_window.rate, self.after_cached_prefix.rate
        healthy = max((rate for rate in (fresh, far, cached) if rate is not None), default=None)
        if healthy is None:
            return None
        if healthy < self.floor:
            return (
                f"{healthy:.1%} of drafts have their first token accepted (expected above {self.floor:.0%}), at every "
                "context length: taps, mask token or head of the drafter are wrong, or it belongs to another target"
            )
        if fresh is not None and far is not None and far < DROP * fresh:
            return (
                f"the first draft token is accepted in {fresh:.1%} of steps up to {self.window} tokens of context and "
                f"in {far:.1%} beyond: the sliding window is not what the drafter was trained with"
            )
        if fresh is not None and cached is not None and cached < DROP * fresh:
            return (
                f"the first draft token is accepted in {fresh:.1%} of steps without a cached prefix and in "
                f"{cached:.1%} with one: the drafter's context K/V was not written for the cached tokens"
            )
        return None
