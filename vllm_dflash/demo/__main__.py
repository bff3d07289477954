# SPDX-License-Identifier: Apache-2.0
import sys

from vllm_dflash.demo.cli import main

sys.exit(main())
