# SPDX-License-Identifier: Apache-2.0
"""Everything is declared in pyproject.toml; this file is where the build of csrc/ will be hooked in."""

from setuptools import setup

setup()
