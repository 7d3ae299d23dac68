#!/usr/bin/env python3
"""The table of a run, as Markdown: `report.py results/latest.jsonl`.

Figures are medians over the rounds, with how far the rounds were apart. A ratio is taken inside one run or not at all.
"""
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from rows import BY_NAME, NAMES, OTHER_WAYS, ROWS

SUBJECT = "tidegate"
# A measurement during which others used so much of the proxy's core is left out where an undisturbed one is there.
DISTURBED = 0.10


def main():
    show(Path(sys.argv[1]))


def show(file):
    """Prints it, and writes it beside the results."""
    text = Run(file).markdown()
    file.with_suffix(".md").write_text(text)
    print(text)


class Run:
    def __init__(self, file):
        self.results = defaultdict(list)
        self.machine = {}
        for line in open(file):
            result = json.loads(line)
            if result["metric"] == "machine":
                self.machine = result
            else:
                self.results[result["metric"], result["tag"]].append(result)
        self.peers = [peer for peer in self.machine["versions"] if peer not in ("direct", SUBJECT)]

    def markdown(self):
        parts = [self.summary(), self.verdicts(), self.every_peer(), self.changes(), self.starts(), self.remarks()]
        return "\n".join(part for part in parts if part)

    def summary(self):
        machine = self.machine
        rounds = max((result["round"] for results in self.results.values() for result in results), default=0)
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
        return (f"{machine['date']}, {machine['cores']} cores, {machine['cpu']}, Linux {machine['kernel']}; medians of"
                f" {rounds} rounds, ± half of the distance between the lowest and the highest. µs and s are processor"
                f" time of the proxy.\n{versions}.\n")

    def verdicts(self):
        rows = [row for row in ROWS if row.goal and row.name in self.machine["rows"]]
        if not rows or SUBJECT not in self.machine["versions"]:
            return ""
        lines = ["| work | unit | direct | best peer | Tidegate | ratio | goal | |", "|---|---|---|---|---|---|---|---|"]
        for row in rows:
            best = self.best_peer(row)
            best_cell = f"{spread(self.peer_figures(row, best))} ({best})" if best else "-"
            ratio, verdict = self.judge(row)
            lines.append(f"| {row.title} | {row.unit} | {spread(self.figures(row, 'direct'))} | {best_cell} |"
                         f" {spread(self.figures(row, SUBJECT))} | {ratio} | {row.goal.words()} | {verdict} |")
        return "\n".join(lines) + "\n" + self.floor()

    def floor(self):
        """How far a new connection is from the least that the kernel takes for it."""
        row = BY_NAME["conn"]
        direct, figure = median(self.figures(row, "direct")), median(self.figures(row, SUBJECT))
        if not direct or not figure:
            return ""
        return (f"\nA connection through a proxy is two connections to the kernel: a new passthrough connection costs"
                f" {figure / (2 * direct):.2f} of twice `direct`.\n")

    def judge(self, row):
        """The ratio that the goal is about, and whether it was reached."""
        figure, goal = median(self.figures(row, SUBJECT)), row.goal
        problem = self.problem(row, SUBJECT)
        if figure is None:
            return "-", f"**not measured**{': ' + problem if problem else ''}"
        if goal.against == "named":
            ratios = [(peer, figure / median(figures), most) for peer, most in goal.peers
                      if (figures := self.peer_figures(row, peer))]
            if not ratios:
                return "-", "not compared"
            ratio = ", ".join(f"{ratio:.2f} of {NAMES[peer]}" for peer, ratio, _ in ratios)
            if problem:
                return ratio, f"**invalid**: {problem}"
            return ratio, "reached" if all(ratio <= most for _, ratio, most in ratios) else "**missed**"
        if goal.against == "absolute":
            best = self.best_peer(row)
            ratio = f"{figure / median(self.peer_figures(row, best)):.2f}" if best else "-"
            value = figure
        else:
            yardstick = self.yardstick(row)
            if not yardstick:
                return "-", "not compared"
            value = figure / yardstick
            ratio = f"{value:.2f}"
        if problem:
            return ratio, f"**invalid**: {problem}"
        return ratio, "reached" if value <= goal.most else "**missed**"

    def yardstick(self, row):
        goal = row.goal
        if goal.against == "own":
            return median(self.figures(BY_NAME[goal.row], SUBJECT))
        if goal.against == "splice":
            # It has two modes on loopback, depending on which side sleeps: the better half of the rounds counts.
            figures = sorted(self.figures(BY_NAME[goal.row], "haproxy"))
            return median(figures[: (len(figures) + 1) // 2])
        best = self.best_peer(row)
        return median(self.peer_figures(row, best)) if best else None

    def best_peer(self, row):
        able = [peer for peer in self.peers if self.peer_figures(row, peer)]
        return min(able, key=lambda peer: median(self.peer_figures(row, peer)), default=None)

    def peer_figures(self, row, peer):
        """By whichever of its ways is best."""
        ways = [row] + ([BY_NAME[OTHER_WAYS[row.name]]] if row.name in OTHER_WAYS else [])
        valid = [figures for way in ways if (figures := self.figures(way, peer)) and not self.problem(way, peer)]
        return min(valid, key=median, default=[])

    def figures(self, row, tag):
        results = [result for result in self.results[row.name, tag] if result.get(row.figure) is not None]
        calm = [result for result in results if foreign(result) <= DISTURBED]
        return [result[row.figure] * row.scale for result in calm or results]

    def problem(self, row, tag):
        """Why the figures of a row do not count."""
        for result in self.results[row.name, tag]:
            if result.get("err"):
                return f"{result['err']} errors"
            if result.get("n") == 0:
                return "nothing was carried"
            problem = row.valid and row.valid(result)
            if problem:
                return problem
        return None

    def every_peer(self):
        rows = [row for row in ROWS if any(self.figures(row, tag) for tag in self.machine["versions"])]
        tags = list(self.machine["versions"])
        lines = ["| work | unit | " + " | ".join(tags) + " |", "|---" * (len(tags) + 2) + "|"]
        for row in rows:
            cells = [spread(self.figures(row, tag)) + (" (!)" if self.problem(row, tag) else "") for tag in tags]
            lines.append(f"| {row.title} | {row.unit} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def changes(self):
        """What live connections noticed of a route that was added."""
        lines = [f"| {row.title} | {tag} | {noticed(results)} |"
                 for row in ROWS if row.mode == "reload"
                 for tag in self.machine["versions"] if (results := self.results[row.name, tag])]
        if not lines:
            return ""
        head = ("| change | peer | live connections broken | new ones refused | p99.9 of a round trip before, µs |"
                " after | longest |\n|---|---|---|---|---|---|---|")
        return "\n".join([head, *lines]) + "\n"

    def starts(self):
        told = [f"{tag} {statistics.median(result['ms'] for result in results):.0f}"
                for (metric, tag), results in self.results.items() if metric == "start_100k"]
        return f"From start to served with 100,000 names, ms: {', '.join(told)}.\n" if told else ""

    def remarks(self):
        problems = [f"{tag}, {row.name}: {problem}" for row in ROWS for tag in self.machine["versions"]
                    if (problem := self.problem(row, tag))]
        disturbed = sum(foreign(result) > DISTURBED for results in self.results.values() for result in results)
        remarks = [f"Figures that do not count (!): {'; '.join(problems)}.\n"] if problems else []
        if disturbed:
            remarks.append(f"In {disturbed} measurements others used more than a tenth of the proxy's core; they count only"
                           " where there is no undisturbed one.\n")
        return "\n".join(remarks)


def noticed(results):
    """The worst of what broke, and the median of what was slow."""
    broken = max(result["broken"] + result["stuck"] for result in results)
    refused = max(result["new_failed"] for result in results)
    times = [statistics.median(result[key] for result in results)
             for key in ("live_before_p999_us", "live_p999_us", "live_max_us")]
    return " | ".join([str(broken), str(refused), *(f"{time:.0f}" for time in times)])


def foreign(result):
    """The share of the proxy's core that went to others."""
    if not result.get("secs"):
        return 0.0
    return result["core_busy"][0] - result["proxy_cpu_s"] / result["secs"]


def median(figures):
    return statistics.median(figures) if figures else None


def spread(figures):
    if not figures:
        return "-"
    half = (max(figures) - min(figures)) / 2
    return digits(median(figures)) + (f" ± {digits(half)}" if len(figures) > 1 else "")


def digits(figure):
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


if __name__ == "__main__":
    main()
