"""The conversion of graph ops to the kernel level, one file per operator family."""

from mlopt.passes.convert_graph_to_kernel.convert_graph_to_kernel import ConvertGraphToKernelPass

__all__ = ["ConvertGraphToKernelPass"]
