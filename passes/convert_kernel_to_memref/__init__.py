"""From tensors to buffers: every launch becomes a function on memrefs, `@main` a list of calls."""

from mlopt.passes.convert_kernel_to_memref.conversion import ConvertKernelToMemrefPass

__all__ = ["ConvertKernelToMemrefPass"]
