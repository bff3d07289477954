# SPDX-License-Identifier: Apache-2.0
"""A vLLM plugin for tests: CPU attention also takes blocks as the outermost dimension, as GPU backends do.

Its kernels read the stride between blocks from the tensor, so that only the declaration is in the way of trying packed
KV blocks without a GPU. New blocks are zeroed in every attention layer, as the GPU runners' KVBlockZeroer does; the CPU
runner skips groups of layers with several head shapes. On PYTHONPATH of a test's engine process only.
"""

from typing import Any


def register() -> None:
    import torch
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend
    from vllm.v1.kv_cache_interface import KVCacheLayout
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    layouts = (KVCacheLayout.LBHNC, KVCacheLayout.BLHNC)
    CPUAttentionBackend.supported_kv_cache_layouts = classmethod(lambda _cls: layouts)
    init_device = WorkerWrapperBase.init_device

    def zero_block_ids(self: Any, block_ids: list[int]) -> None:
        for layer in self.compilation_config.static_forward_context.values():
            if isinstance(getattr(layer, "kv_cache", None), torch.Tensor):
                layer.kv_cache[block_ids] = 0

    def with_zeroing(self: Any) -> Any:
        from vllm.v1.worker.cpu_model_runner import CPUModelRunner

        CPUModelRunner._zero_block_ids = zero_block_ids
        return init_device(self)

    WorkerWrapperBase.init_device = with_zeroing
