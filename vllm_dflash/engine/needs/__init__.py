# SPDX-License-Identifier: Apache-2.0
"""What each part of the engine needs of vLLM. engine/probe.py says when which list is checked."""
