"""Graphs as text, as Graphviz's language, and as small pictures for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from livegrad.view.nodes import BACKWARD, LEAF, UPDATE, GraphNode
from livegrad.view.statistics import statistics_of

if TYPE_CHECKING:
    from livegrad.view.asking import Graph

# ----------------------------------------------------------------------------------------- text


def tree(graph: Graph, most: int) -> str:
    """Modules, and in them their operations, in the order recorded."""
    lines = [f"{graph.title}: {len(graph.nodes)} nodes, {len(graph.kernels)} kernels"]
    if graph.seconds:
        lines[0] += f", {graph.seconds * 1e3:.2f} ms"
    here: tuple[str, ...] = ()
    phase = ""
    for node in graph:
        if node.phase == LEAF:
            continue
        if len(lines) > most:
            lines.append(f"… and {len(graph.nodes) - most} more")
            break
        if node.phase != phase:
            phase, here = node.phase, ()
            lines.append(phase)
        path = tuple(node.module.split(".")) if node.module else ()
        shared = _shared(here, path)
        lines += ["  " * (depth + 1) + path[depth] for depth in range(shared, len(path))]
        here = path
        lines.append("  " * (len(path) + 1) + _node_line(node))
    return "\n".join(lines)


def _shared(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def _node_line(node: GraphNode) -> str:
    took = f"   {node.seconds * 1e6:.1f} µs" if node.seconds else ""
    kernels = "" if not node.kernels else f"   kernel {', '.join(map(str, node.kernels))}"
    failed = "   ✗ " + node.attrs if node.failed else ""
    times = f" ×{node.count:,}" if node.count > 1 else ""
    return f"{node.op}{times} {list(node.shape)} {node.dtype}   {node.where}{kernels}{took}{failed}"


# ---------------------------------------------------------------------------------------- dot

_COLOURS = {LEAF: "#e8e4da", BACKWARD: "#d9c7ec", UPDATE: "#f5d6b0"}


def dot(graph: Graph) -> str:
    """The graph in Graphviz's language, one cluster for each module and phase."""
    lines = ["digraph livegrad {", "  node [shape=box, style=filled, fontname=Helvetica];"]
    groups: dict[tuple[str, str], list[GraphNode]] = {}
    for node in graph:
        groups.setdefault((node.phase, node.module), []).append(node)
    for number, ((phase, module), nodes) in enumerate(groups.items()):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quoted(module or phase)};")
        for node in nodes:
            label = f"{node.name or node.op}\n{list(node.shape)} {node.dtype}\n{node.where}"
            colour = "#ef9a9a" if node.failed else _COLOURS.get(phase, "#cfe3f3")
            look = f"label={_quoted(label)}, fillcolor={_quoted(colour)}"
            lines.append(f"    n{_dot_id(node.number)} [{look}];")
        lines.append("  }")
    for source, target in graph.edges:
        lines.append(f"  n{_dot_id(source)} -> n{_dot_id(target)};")
    return "\n".join([*lines, "}"])


def _dot_id(number: int) -> str:
    return str(number).replace("-", "g")


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'


# ----------------------------------------------------------------------------------- notebooks

_MOST_BOXES = 24
_HEIGHT, _GAP, _WIDTH = 30, 16, 210


def html_of_graph(graph: Graph) -> str:
    """A small picture of a graph: its modules, or its operations if they are few."""
    shown = [node for node in graph if node.phase != LEAF]
    boxes = _boxes_of(shown)
    more = "" if len(boxes) <= _MOST_BOXES else f" The first {_MOST_BOXES} of {len(boxes)} parts."
    head = f"<b>{escape(graph.title)}</b> · {len(graph)} nodes · {len(graph.kernels)} kernels"
    if graph.seconds:
        head += f" · {graph.seconds * 1e3:.2f} ms"
    return f"<div>{head}.{more}<br>{_column(boxes[:_MOST_BOXES])}</div>"


def _boxes_of(nodes: list[GraphNode]) -> list[tuple[str, str, str]]:
    """(title, detail, phase) of what is drawn."""
    if len(nodes) <= _MOST_BOXES:
        return [(n.op, f"{list(n.shape)} {n.where}", n.phase) for n in nodes]
    groups: dict[tuple[str, str], list[GraphNode]] = {}
    for node in nodes:
        groups.setdefault((node.phase, node.module or node.function), []).append(node)
    return [
        (module or phase, f"{len(group)} ops, {sum(n.seconds for n in group) * 1e6:.0f} µs", phase)
        for (phase, module), group in groups.items()
    ]


_FILLS = {"forward": "#3b82c4", "backward": "#8a5fc0", "update": "#c98a2b"}


def _column(boxes: list[tuple[str, str, str]]) -> str:
    """Boxes one below the other, several columns if there are many, as SVG."""
    rows = 8
    columns = max(1, -(-len(boxes) // rows))
    width = columns * (_WIDTH + _GAP) + 4
    height = min(rows, max(1, len(boxes))) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'style="max-width:100%" font-family="sans-serif" role="img">'
    ]
    for number, (title, detail, phase) in enumerate(boxes):
        x, y = 2 + number // rows * (_WIDTH + _GAP), 2 + number % rows * (_HEIGHT + _GAP)
        fill = _FILLS.get(phase, "#777")
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{fill}" '
            f'fill-opacity=".15" stroke="{fill}"/>'
            f'<text x="{x + 8}" y="{y + 13}" font-size="11" fill="currentColor">'
            f"{escape(title[-34:])}</text>"
            f'<text x="{x + 8}" y="{y + 25}" font-size="9" fill="currentColor" '
            f'fill-opacity=".65">{escape(detail[:44])}</text>'
        )
        if number % rows < rows - 1 and number < len(boxes) - 1:
            middle, below = x + _WIDTH / 2, y + _HEIGHT
            parts.append(
                f'<path d="M{middle} {below}v{_GAP - 3}" stroke="{fill}" fill="none"/>'
                f'<path d="M{middle - 3} {below + _GAP - 5}l3 4l3-4" fill="{fill}"/>'
            )
    return "".join(parts) + "</svg>"


def html_of_tensor(tensor: Any) -> str:
    """A tensor: its shape, its range, a small histogram, and its values as text."""
    text = f"<pre>{escape(repr(tensor))}</pre>"
    node = tensor._node
    if node.buffer is None or node.meta.numel < 2 or node.meta.dtype.name.startswith("complex"):
        return text
    stats = statistics_of(node)
    told = f"{escape(str(list(node.meta.shape)))} {escape(node.meta.dtype.name)}"
    if "min" in stats:
        told += f" · {stats['min']:.4g} … {stats['max']:.4g} · mean {stats['mean']:.4g}"
    for bad in ("nan", "inf"):
        if stats[bad]:
            told += f" · <b>{stats[bad]:.1%} {bad}</b>"
    return f"<div><b>{told}</b> {bars(stats.get('bins', []))}{text}</div>"


def bars(counts: list[int]) -> str:
    """A histogram as a picture the height of a line."""
    if len(counts) < 2:
        return ""
    top = max(counts) or 1
    drawn = "".join(
        [
            f'<rect x="{3 * i}" y="{18 - 18 * c / top:.1f}" width="2" height="{18 * c / top:.1f}"/>'
            for i, c in enumerate(counts)
        ]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{3 * len(counts)}" height="18" '
        f'fill="#3b82c4" style="vertical-align:middle">{drawn}</svg>'
    )


def html_of_module(module: Any) -> str:
    """A module: its parts with their parameters, the larger the longer the bar."""
    rows = []
    sizes = {
        path: sum([p.numel() for p in part.parameters(recurse=False)])
        for path, part in module.named_modules()
    }
    top = max([1, *sizes.values()])
    for path, part in list(module.named_modules())[:200]:
        size = sizes[path]
        bar = max(1, round(120 * size / top)) if size else 0
        indent = 16 * (path.count(".") + 1 if path else 0)
        rows.append(
            f'<tr><td style="text-align:left;padding-left:{indent}px">{escape(path or "·")}</td>'
            f'<td style="text-align:left">{escape(type(part).__name__)} '
            f"{escape(part.extra_repr())}</td><td>{size:,}</td>"
            f'<td style="text-align:left"><svg width="120" height="8"><rect width="{bar}" '
            f'height="8" rx="2" fill="#3b82c4"/></svg></td></tr>'
        )
    total = sum(sizes.values())
    head = f"<b>{escape(type(module).__name__)}</b> · {total:,} parameters"
    return f"<div>{head}<table>{''.join(rows)}</table></div>"
