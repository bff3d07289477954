# SPDX-License-Identifier: Apache-2.0
"""How well one reading of a drafter's config predicts what its target writes; `doctor --probe` and `recover` ask."""
