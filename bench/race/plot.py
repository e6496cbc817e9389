"""Bars as SVG, readable on a light and on a dark page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from report import Result

PLOTS = {
    "race-rates": ("produce-1", "produce-64", "batch", "consume", "guarded", "jobs"),
    "race-costs": ("latency-p50", "latency-p99", "memory-idle", "memory", "recovery"),
}
WIDTH, PANEL, COLUMNS = 900, 440, 2
BAR, STEP, HEAD, LABEL = 14, 20, 34, 168
OURS, THEIRS, TEXT = "#d9622b", "#7a8aa0", "#808890"


def bars(result: Result, figures: tuple[str, ...]) -> str:
    """One panel per figure, two beside each other."""
    from report import FIGURES, shown

    parts, y, row_height = [], 0, 0
    panels = [(name, FIGURES[name]) for name in figures if any(result.values(peer, name) for peer in result.figures)]
    for number, (name, figure) in enumerate(panels):
        if number % COLUMNS == 0:
            y, row_height = y + row_height, 0
        x = number % COLUMNS * (WIDTH - PANEL)
        found = [(peer, facts["title"], result.median(peer, name)) for peer, facts in result.data["peers"].items()]
        # The bare server is a ceiling, not a runner.
        found = [entry for entry in found if entry[2] is not None and entry[0] != "bare"]
        most = max(value for _, _, value in found) or 1
        better = "more is better" if figure.more_is_better else "less is better"
        parts.append(text(x, y + 20, f"{figure.title} ({figure.unit}), {better}", "bold"))
        for line, (peer, title, value) in enumerate(found):
            top = y + HEAD + line * STEP
            length = max(1.0, value / most * (PANEL - LABEL - 60))
            parts.append(text(x, top + 11, title))
            fill = OURS if peer == "driftq" else THEIRS
            parts.append(f'<rect x="{x + LABEL}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2" fill="{fill}"/>')
            parts.append(text(x + LABEL + length + 5, top + 11, shown(value, figure.unit)))
        row_height = max(row_height, HEAD + len(found) * STEP + 16)
    height = y + row_height
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
    head += 'font-size="12">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{TEXT}" font-weight="{weight}">{escape(words)}</text>'
