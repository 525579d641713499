"""Every pass by its name, loaded when first asked for. A new pass is one line here and one file."""

from __future__ import annotations

from importlib import import_module

from mlopt.passmanager.base import Pass

PASSES: dict[str, str] = {
    "canonicalize": "mlopt.passes.common.canonicalize:CanonicalizerPass",
    "cse": "mlopt.passes.common.cse:CSEPass",
    "dce": "mlopt.passes.common.dce:DCEPass",
    "fold-constants": "mlopt.passes.graph.fold_constants:FoldConstantsPass",
    "eliminate-casts": "mlopt.passes.graph.eliminate_casts:EliminateCastsPass",
    "eliminate-reshapes": "mlopt.passes.graph.eliminate_reshapes:EliminateReshapesPass",
    "eliminate-slices": "mlopt.passes.graph.eliminate_slices:EliminateSlicesPass",
    "eliminate-transposes": "mlopt.passes.graph.eliminate_transposes:EliminateTransposesPass",
    "fold-batch-norm": "mlopt.passes.graph.fold_batch_norm:FoldBatchNormPass",
    "fuse-gelu": "mlopt.passes.graph.fuse_gelu:FuseGeluPass",
    "fuse-group-norm": "mlopt.passes.graph.fuse_group_norm:FuseGroupNormPass",
    "fuse-layer-norm": "mlopt.passes.graph.fuse_layer_norm:FuseLayerNormPass",
    "fuse-rms-norm": "mlopt.passes.graph.fuse_rms_norm:FuseRmsNormPass",
    "fuse-rotary": "mlopt.passes.graph.fuse_rotary:FuseRotaryPass",
    "fuse-swish": "mlopt.passes.graph.fuse_swish:FuseSwishPass",
    "fuse-attention": "mlopt.passes.graph.fuse_attention:FuseAttentionPass",
    "fuse-conv": "mlopt.passes.graph.fuse_conv:FuseConvPass",
    "fuse-linear": "mlopt.passes.graph.fuse_linear:FuseLinearPass",
    "simplify-algebra": "mlopt.passes.graph.simplify_algebra:SimplifyAlgebraPass",
    "stabilize-softmax": "mlopt.passes.graph.stabilize_softmax:StabilizeSoftmaxPass",
    "approximate-gelu": "mlopt.passes.graph.approximate_gelu:ApproximateGeluPass",
    "fuse-quantized": "mlopt.passes.graph.fuse_quantized:FuseQuantizedPass",
    "quantize": "mlopt.passes.graph.quantize:QuantizePass",
    "split-parallel": "mlopt.passes.graph.split_parallel:SplitParallelPass",
    "assign-layouts": "mlopt.passes.graph.assign_layouts:AssignLayoutsPass",
    "convert-graph-to-kernel": "mlopt.passes.convert_graph_to_kernel:ConvertGraphToKernelPass",
    "fuse-kernels": "mlopt.passes.kernel.fuse_kernels:FuseKernelsPass",
    "tile-contractions": "mlopt.passes.kernel.tile_contractions:TileContractionsPass",
    "chunk-scans": "mlopt.passes.kernel.chunk_scans:ChunkScansPass",
    "schedule-for-memory": "mlopt.passes.kernel.schedule_for_memory:ScheduleForMemoryPass",
    "place-concats": "mlopt.passes.kernel.place_concats:PlaceConcatsPass",
    "place-donated": "mlopt.passes.kernel.place_donated:PlaceDonatedPass",
    "reuse-in-place": "mlopt.passes.kernel.reuse_in_place:ReuseInPlacePass",
    "fit-memory": "mlopt.passes.kernel.fit_memory:FitMemoryPass",
    "convert-kernel-to-memref": "mlopt.passes.convert_kernel_to_memref:ConvertKernelToMemrefPass",
    "elide-copies": "mlopt.passes.memref.elide_copies:ElideCopiesPass",
    "place-outputs": "mlopt.passes.memref.place_outputs:PlaceOutputsPass",
    "order-in-waves": "mlopt.passes.memref.order_in_waves:OrderInWavesPass",
    "plan-workspaces": "mlopt.passes.memref.plan_workspaces:PlanWorkspacesPass",
    "assign-buffers": "mlopt.passes.memref.assign_buffers:AssignBuffersPass",
}
"""Pass name → `module:class`."""


def load_pass(name: str) -> type[Pass]:
    """The class of the pass called `name`; `KeyError` if there is none."""
    module, _, attribute = PASSES[name].partition(":")
    return getattr(import_module(module), attribute)
