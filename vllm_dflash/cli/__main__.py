# SPDX-License-Identifier: Apache-2.0
"""`python -m vllm_dflash.cli`, the same as `vllm-dflash`."""

import sys

from vllm_dflash.cli.main import main

sys.exit(main())
