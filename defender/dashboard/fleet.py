"""The whole fleet by zone and rack, in memory, and its view models. Pure.

10,000 nodes are too many to process for each viewer. A changed node is replaced, and then only the
tile of its rack is computed again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from defender.dashboard.natural import natural
from defender.dashboard.node_state import TROUBLE, Cell, NodeDisplayState
from defender.overview.situation import NodeSituation
from kubenode.runtime.site.grid import columns, draw_states

MOST_TILES = 320
"""Greatest number of tiles on a page. Above it, racks without trouble are summed up."""
Key = tuple[str, str]
"""Zone and rack."""


@dataclass(slots=True)
class Rack:
    cells: dict[str, Cell] = field(default_factory=dict)
    order: list[str] | None = None
    tile: "Tile | None" = None

    def put(self, cell: Cell) -> None:
        if cell.name not in self.cells:
            self.order = None
        self.cells[cell.name] = cell
        self.tile = None

    def remove(self, name: str) -> None:
        del self.cells[name]
        self.order = self.tile = None

    def in_order(self) -> list[Cell]:
        if self.order is None:
            self.order = sorted(self.cells, key=natural)
        return [self.cells[name] for name in self.order]


class FleetGrid:
    """Cells by rack. `version` grows with every visible change."""

    def __init__(self) -> None:
        self.version = 0
        self._where: dict[str, Key] = {}
        self._racks: dict[Key, Rack] = {}

    def put(self, cell: Cell) -> None:
        key = (cell.zone, cell.rack)
        before = self._where.get(cell.name)
        if before is not None and before != key:
            self.remove(cell.name)
        rack = self._racks.setdefault(key, Rack())
        if rack.cells.get(cell.name) == cell:
            return
        rack.put(cell)
        self._where[cell.name] = key
        self.version += 1

    def remove(self, name: str) -> None:
        key = self._where.pop(name, None)
        if key is None:
            return
        self._racks[key].remove(name)
        if not self._racks[key].cells:
            del self._racks[key]
        self.version += 1

    # -- reading ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._where)

    def get(self, name: str) -> Cell | None:
        key = self._where.get(name)
        return self._racks[key].cells[name] if key is not None else None

    def names(self) -> Iterable[str]:
        return self._where.keys()

    def rack(self, zone: str, rack: str) -> list[Cell]:
        """Return the nodes of a rack, sorted by name; empty if there is no such rack."""
        entry = self._racks.get((zone, rack))
        return entry.in_order() if entry else []

    def zone(self, zone: str) -> list[Cell]:
        return [cell for key in self.racks() if key[0] == zone for cell in self.rack(*key)]

    def racks(self) -> list[Key]:
        return sorted(self._racks, key=lambda key: (natural(key[0]), natural(key[1])))

    def situations(self) -> Iterator[NodeSituation]:
        """Yield the situation of each node."""
        for rack in self._racks.values():
            for cell in rack.cells.values():
                yield cell.situation

    def counts(self) -> "Counts":
        """Return the numbers of nodes of the whole fleet by state."""
        return added(self.tile(key).counts for key in self._racks)

    def tile(self, key: Key) -> "Tile":
        rack = self._racks[key]
        if rack.tile is None:
            rack.tile = tile_of(key, rack.in_order())
        return rack.tile


Counts = tuple[tuple[str, int], ...]
"""(state, nodes) for the states that occur, the most important first."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A rack. `states` has one letter for each node, in the order of their names."""

    template: ClassVar[str] = "parts/tile.html"
    zone: str
    rack: str
    states: str
    counts: Counts
    wide: int
    paths: tuple[tuple[str, str], ...]
    """(letter, SVG path) for each state, with one unit for each node."""

    @property
    def key(self) -> str:
        return f"{self.zone}/{self.rack}"

    @property
    def high(self) -> int:
        return -(-len(self.states) // self.wide)

    @property
    def troubled(self) -> bool:
        return any(state in TROUBLE for state, _ in self.counts)

    @property
    def sentence(self) -> str:
        """The nodes that are not healthy by state, or the number of nodes if all are."""
        parts = [
            f"{many} {_STATE_TEXTS.get(s, s.lower())}" for s, many in self.counts if s != "Healthy"
        ]
        return ", ".join(parts) or f"{len(self.states)} healthy"


_STATE_TEXTS = {NodeDisplayState.PERSON.value: "for a person"}


def tile_of(key: Key, cells: Sequence[Cell]) -> Tile:
    states = "".join(cell.state.letter for cell in cells)
    wide = columns(len(cells))
    counts = count(cells)
    return Tile(key[0], key[1], states, counts, wide, draw_states(states, wide))


def count(cells: Iterable[Cell]) -> Counts:
    tally = Counter(cell.state for cell in cells)
    return tuple((state.value, tally[state]) for state in NodeDisplayState if tally[state])


def added(counts: Iterable[Counts]) -> Counts:
    sums: Counter[str] = Counter()
    for each in counts:
        sums.update(dict(each))
    return tuple(
        (state.value, sums[state.value]) for state in NodeDisplayState if sums[state.value]
    )


@dataclass(frozen=True, slots=True)
class Quiet:
    """Racks of a zone that are not drawn, because they have the least trouble."""

    template: ClassVar[str] = "parts/quiet.html"
    zone: str
    racks: int
    counts: Counts
    key: str = "quiet"


@dataclass(frozen=True, slots=True)
class ZoneHead:
    template: ClassVar[str] = "parts/zone.html"
    zone: str
    racks: int
    nodes: int
    counts: Counts
    key: str = "head"


@dataclass(frozen=True, slots=True)
class Zone:
    name: str
    head: ZoneHead
    tiles: tuple[Tile | Quiet, ...]


def zones(fleet: FleetGrid, most: int = MOST_TILES) -> list[Zone]:
    """Return all zones with the tiles that fit, those with trouble first, spread evenly over the
    zones.
    """
    tiles: dict[str, list[Tile]] = {}
    for key in fleet.racks():
        tiles.setdefault(key[0], []).append(fleet.tile(key))
    places = [
        (not tile.troubled, place, tile.key)
        for zone_tiles in tiles.values()
        for place, tile in enumerate(zone_tiles)
    ]
    shown = {key for _, _, key in sorted(places)[:most]}
    return [_zone(name, zone_tiles, shown) for name, zone_tiles in tiles.items()]


def _zone(name: str, tiles: list[Tile], shown: set[str]) -> Zone:
    drawn: list[Tile | Quiet] = [tile for tile in tiles if tile.key in shown]
    if hidden := [tile for tile in tiles if tile.key not in shown]:
        drawn.append(Quiet(name, len(hidden), added(tile.counts for tile in hidden)))
    counts = added(tile.counts for tile in tiles)
    head = ZoneHead(name, len(tiles), sum(many for _, many in counts), counts)
    return Zone(name, head, tuple(drawn))
