# SPDX-License-Identifier: Apache-2.0
"""DFlash speculative decoding for stock vLLM: correct, fast and explainable."""

__version__ = "0.1.0"
