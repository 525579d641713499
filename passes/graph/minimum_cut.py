"""Minimum cuts of small flow networks with whole-number capacities, by Dinic's algorithm."""

from __future__ import annotations

from collections import deque

UNLIMITED = 1 << 100


class FlowNetwork:
    """A directed network; nodes are numbers. Node 0 is the source, node 1 the sink.

    Source: E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970.
    """

    SOURCE = 0
    SINK = 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]
        self._targets: list[int] = []
        self._room: list[int] = []
        """Edge `e` and its reverse `e ^ 1` are neighbours in the lists of targets and of what can still flow."""

    def add_node(self) -> int:
        """A new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int = UNLIMITED) -> None:
        """An edge that carries up to `capacity`; cutting it costs that much."""
        for source, target, room in ((start, end, capacity), (end, start, 0)):
            self._edges[source].append(len(self._targets))
            self._targets.append(target)
            self._room.append(room)

    def source_side(self) -> frozenset[int]:
        """The nodes on the source's side of the minimum cut that has the fewest nodes there."""
        while (levels := self._levels())[self.SINK] >= 0:
            self._saturate(levels)
        return frozenset(node for node, level in enumerate(levels) if level >= 0)

    def _levels(self) -> list[int]:
        """The distance of each node from the source along edges that have room, -1 where there is no way."""
        levels = [-1] * len(self._edges)
        levels[self.SOURCE] = 0
        queue = deque([self.SOURCE])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                target = self._targets[edge]
                if self._room[edge] and levels[target] < 0:
                    levels[target] = levels[node] + 1
                    queue.append(target)
        return levels

    def _saturate(self, levels: list[int]) -> None:
        """Send as much as possible along shortest ways; without recursion, since they may be long."""
        position = [0] * len(self._edges)
        way: list[int] = []
        node = self.SOURCE
        while True:
            if node == self.SINK:
                amount = min(self._room[edge] for edge in way)
                for edge in way:
                    self._room[edge] -= amount
                    self._room[edge ^ 1] += amount
                full = next(index for index, edge in enumerate(way) if not self._room[edge])
                node = self._targets[way[full] ^ 1]
                del way[full:]
            elif position[node] < len(self._edges[node]):
                edge = self._edges[node][position[node]]
                target = self._targets[edge]
                if self._room[edge] and levels[target] == levels[node] + 1:
                    way.append(edge)
                    node = target
                else:
                    position[node] += 1
            elif way:
                node = self._targets[way.pop() ^ 1]
                position[node] += 1
            else:
                return
