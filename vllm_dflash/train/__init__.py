# SPDX-License-Identifier: Apache-2.0
"""Training a drafter, or an MTP head, for a target; `run.run_training` reads from top to bottom.

Data: `requests` (prompts and what is held out), `generate` and `answers` (the target answers them), `batches`.
Drafters: `dflash` and `mtp`, both a `method.Method`; `losses` is what they share.
The run: `loop`, `schedule`, `checkpoints`; afterwards `evaluate`, `curves`, `card`.
"""
