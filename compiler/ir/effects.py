"""What may be erased: operations without an effect that anything else could see."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.traits import IsTerminator, MemoryEffectKind, SymbolOpInterface, get_effects

_UNSEEN = (MemoryEffectKind.READ, MemoryEffectKind.ALLOC)


def is_dead(op: Operation) -> bool:
    """Whether nothing uses the results of `op` and it does nothing else: it reads and allocates memory at most.

    An operation that declares no effects is never dead, nor is a symbol or a terminator. (xDSL's own check keeps
    `memref.alloc`, since that does not say which value it allocates.)
    """
    if any(result.first_use is not None for result in op.results):
        return False
    if op.has_trait(IsTerminator, value_if_unregistered=True) or op.has_trait(SymbolOpInterface):
        return False
    effects = get_effects(op)
    return effects is not None and all(effect.kind in _UNSEEN for effect in effects)
