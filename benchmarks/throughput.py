# SPDX-License-Identifier: Apache-2.0
"""No speculation, MTP and DFlash in turn on this machine; one table. See benchmarks/README.md.

    python benchmarks/throughput.py                                   # the demo pair
    python benchmarks/throughput.py --model MODEL --speculative-config '{"method": "dflash", ...}'

The same as `vllm-dflash bench`.
"""

import sys

from vllm_dflash.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
