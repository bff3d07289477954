# SPDX-License-Identifier: Apache-2.0
"""Rebuild the config.json of a drafter; `run.recover` reads from top to bottom.

`facts` is what tensor shapes tell, `known` what a partial config tells, `candidates` what is left to try; `search`
tries it, `block_size` looks for the end of the trained block, `refine` asks `gather` for more samples where fields are
still open, `write` and `report` tell the result.
"""
