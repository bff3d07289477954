# SPDX-License-Identifier: Apache-2.0
"""What speculation is worth on this machine: methods in turn, one table."""
