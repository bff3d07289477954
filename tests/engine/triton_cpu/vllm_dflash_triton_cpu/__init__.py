# SPDX-License-Identifier: Apache-2.0
"""Lets Triton be imported on a machine without a GPU, so that its interpreter runs the V2 runner's kernels.

For tests only: put the folder above on PYTHONPATH and set TRITON_INTERPRET=1.
"""
