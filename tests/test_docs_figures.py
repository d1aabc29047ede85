"""The figures say what the package computes, in both languages."""

import html
import itertools
import math
import re
import runpy
from pathlib import Path

import pytest
import torch

from camp_softmax import reference
from camp_softmax.cuda import plan
from camp_softmax.tilelang.attention import visible
from cases import TUTORIAL_SHAPES
from prose import read

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
ROW = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])


def texts(svg: str) -> list[str]:
    """What the <text> elements of a figure say, without markup."""
    return [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<text.*?</text>", svg, re.DOTALL)]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_merge_shows_the_states_of_the_row(language):
    svg = (FIGURES / f"merge.{language}.svg").read_text(encoding="utf-8")
    states = list(reference.states(ROW, 3))
    shown = texts(svg)
    assert [t for t in shown if re.match(r"m = \d", t)] == [f"m = {m:.0f}" for m, _ in states]
    assert [t for t in shown if re.match(r"s = \d\.", t)] == [f"s = {s:.3f}" for _, s in states]
    drops = [(old.m - new.m).item() for old, new in itertools.pairwise(states)]
    assert [t for t in shown if "s ×" in t] == [f"s × e−{-d:.0f}" if d else "s × 1" for d in drops]
    description = re.search(r"<desc.*?>(.*)</desc>", svg)[1]
    assert re.findall(r"\((\d+), ([\d.]+)\)", description) == [(f"{m:.0f}", f"{s:.3f}") for m, s in states]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_needs_joins_an_output_to_the_inputs_it_depends_on(language):
    """A line for each input with a gradient, from a filled cell."""
    svg = (FIGURES / f"needs.{language}.svg").read_text(encoding="utf-8")
    scores, other = torch.tensor([0.0, 1, 2]), torch.tensor([10.0, 20, 30])
    operators = {
        "add": (torch.add, (scores, other), "{:.0f}"),
        "softmax": (lambda x: torch.softmax(x, 0), (scores,), "{:.3f}"),
    }
    drawings = dict(re.findall(r'<g data-operator="(\w+)">(.*?)</g>', svg, re.DOTALL))
    assert drawings.keys() == operators.keys()
    for name, (operator, inputs, form) in operators.items():
        gradients = torch.autograd.functional.jacobian(lambda *x, f=operator: f(*x)[1], inputs)
        needed = sum(gradient.count_nonzero().item() for gradient in gradients)
        drawing, shown = drawings[name], " ".join(texts(drawings[name]))
        assert drawing.count('fill="var(--read-fill)"') == needed
        assert drawing.count('<path d="M') == needed
        for values, spelled in [(x, "{:.0f}") for x in inputs] + [(operator(*inputs), form)]:
            assert " ".join(spelled.format(value) for value in values.tolist()) in shown
        assert re.search(rf"{needed} (个输入|inputs)", shown)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_blocks_are_those_of_the_snippet(language):
    """Ranges, iterations and the share of a thread, for 17 x 513 in tiles of 16 x 256 and 256 threads."""
    svg = (FIGURES / f"blocks.{language}.svg").read_text(encoding="utf-8")

    def ranges(size: int, block: int) -> list[str]:
        ends = [(k, min(k + block, size) - 1) for k in range(0, size, block)]
        return [str(first) if first == last else f"{first}–{last}" for first, last in ends]

    blocks = re.findall(r'<g data-block="(\d)">(.*?)</g>', svg, re.DOTALL)
    rows, columns = ranges(17, 16), ranges(513, 256)
    assert [texts(drawn)[1].split()[-1] for _, drawn in blocks] == rows
    for number, drawn in blocks:
        assert texts(drawn)[0] == f"pid {number}"
        assert drawn.count("var(--read-fill)") == len(columns)
    shown = texts(re.sub(r"<g .*?</g>", "", svg, flags=re.DOTALL))
    assert [text for text in shown if re.fullmatch(r"[\d–]+", text)] == columns
    below = shown[shown.index("T.Parallel(16, 256)") + 1 :]
    assert re.findall(r"\d+", " ".join(below)) == [str(n) for n in (16 * 256, 256, 16 * 256 // 256)]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_registers_shows_what_thread_0_holds(language):
    """A cell for each piece of the tile, at its row; a register for each element and each row of m."""
    place = runpy.run_path(str(ROOT / "snippets" / "fragments" / "owners.py"))["place"]
    places = [place(0, i) for i in range(16)]
    rows = sorted({row for row, _ in places})
    svg = (FIGURES / f"registers.{language}.svg").read_text(encoding="utf-8")
    cells = re.findall(r'<rect x="40" y="(\d+)" width="24" height="8"', svg)
    assert [(int(y) - 40) // 8 for y in cells] == rows
    boxes = re.findall(r'<rect x="(\d+)" y="240" width="9" height="24" fill="var', svg)
    assert [(int(x) - 40) // 9 for x in boxes] == rows
    lines = zip(range(0, 16, 4), rows, strict=True)
    pieces = [[str(row), *map(str, range(i, i + 4))] for i, row in lines]
    assert [places[i][0] for i in range(0, 16, 4)] == rows  # four registers a piece
    numbers = [text for text in texts(svg) if text.isdigit()]
    of_m = [text for i, row in enumerate(rows) for text in (str(row), str(i))]
    assert numbers == [*itertools.chain(*pieces), *of_m]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_exponent_shows_what_float32_computes(language):
    x, m, c = torch.tensor(10003.0), torch.tensor(10009.0), torch.tensor(1.4426950408889634)
    first, last = (x - m) * c, x * c - m * c
    shown = [f"{first:.5f}", f"{x * c:.4f}", f"{m * c:.4f}", f"{last:.5f}"]
    shown += [f"{torch.exp2(first):.8f}", f"{torch.exp2(last):.8f}"]
    svg = (FIGURES / f"exponent.{language}.svg").read_text(encoding="utf-8")
    drawn = [text.replace("−", "-") for text in texts(svg)]
    assert [text for text in drawn if re.fullmatch(r"-?\d+\.\d+", text)] == shown
    assert "x - m = -6" in drawn
    right = f"{math.exp(-6):.8f}"
    assert (shown[4] == right, shown[5] == right) == (True, False)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_reduce_shows_the_maxima_of_rows_and_of_columns(language):
    shown = [
        text for text in texts((FIGURES / f"reduce.{language}.svg").read_text("utf-8")) if text.isdigit()
    ]
    x = ROW.view(2, 4)
    left, right = shown[:10], shown[10:]
    assert sorted(left[:8] + right[:8]) == sorted(2 * [f"{value:.0f}" for value in ROW])
    assert left[8:] == [f"{value:.0f}" for value in x.amax(dim=1)]
    assert right[8:] == [f"{value:.0f}" for value in x.amax(dim=0)]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_reread_shows_the_states_and_the_last_tile(language):
    svg = (FIGURES / f"reread.{language}.svg").read_text("utf-8")
    states = [(f"{m:.0f}", f"{s:.3f}") for m, s in reference.states(ROW, 3)]
    assert [f"m = {m}, s = {s}" for m, s in states] == [t for t in texts(svg) if t.startswith("m = ")]
    assert re.findall(r"\((\d+), ([\d.]+)\)", re.search(r"<desc.*?>(.*)</desc>", svg)[1]) == states
    read = re.findall(r'<rect [^>]*stroke="var\(--read\)"[^>]*/>\n<text[^>]*>(\d)</text>', svg)
    row = [f"{value:.0f}" for value in ROW]
    assert read == [*row, *row[6:], *row]  # the first scan, what it leaves, the second
    assert len(re.findall(r'<rect [^>]*stroke="var\(--write\)"', svg)) == len(row)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_tree_shows_the_levels_of_the_reduction(language):
    svg = (FIGURES / f"tree.{language}.svg").read_text("utf-8")
    values, levels = ROW, [ROW]
    while len(values) > 1:
        values = torch.maximum(*values.chunk(2))
        levels.append(values)
    shown = [[f"{value:.0f}" for value in level] for level in levels]
    assert [text for text in texts(svg) if text.isdigit()] == [*itertools.chain(*shown)]
    sizes = [f"n = {len(level)}" for level in levels[1:]]
    assert [text for text in texts(svg) if text.startswith("n = ")] == sizes
    assert svg.count("stroke-dasharray") == len(levels)  # a barrier after each
    description = re.search(r"<desc.*?>(.*)</desc>", svg)[1]
    assert all(" ".join(level) in description for level in shown)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_moved_counts_what_the_model_counts(language):
    svg = (FIGURES / f"moved.{language}.svg").read_text("utf-8")
    drawings = re.findall(r'<g data-kernel="\w+">(.*?)</g>', svg, re.DOTALL)
    assert len(drawings) == 2
    for rung, drawn in zip(("three_pass", "online"), drawings, strict=True):
        reads, writes = reference.SCANS[rung]
        cells = re.findall(r'<rect .*stroke="var\(--(\w+)\)"', drawn)
        assert (cells.count("read"), cells.count("write")) == (8 * reads, 8 * writes)
        assert str(reads + writes) in texts(drawn)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_cases_shows_the_tiles_that_each_shape_needs(language):
    """One outline a tile of 16 x 256, hatching where the shape leaves places empty."""
    svg = (FIGURES / f"cases.{language}.svg").read_text("utf-8")
    drawings = re.findall(r'<g data-case="(\d+) × (\d+)">(.*?)</g>', svg, re.DOTALL)
    assert [(int(N), int(M)) for N, M, _ in drawings] == TUTORIAL_SHAPES
    for rows, columns, drawn in drawings:
        N, M = int(rows), int(columns)
        assert drawn.count('stroke="var(--mask)"') == math.ceil(N / 16) * math.ceil(M / 256)
        assert ("fig-cases-mask" in drawn) == bool(N % 16 or M % 256)
    assert [text for text in texts(svg) if " × " in text] == [
        f"{N} × {M}" for N, M in [*TUTORIAL_SHAPES, (1, 4)]
    ]
    assert [text for text in texts(svg) if re.fullmatch(r"−?\d+", text)] == ["−1000", "0", "1000", "1"]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_points_quotes_the_kernel(language):
    """Each line of code in the figure stands in the kernel, in this order; the six numbers are all there."""
    svg = (FIGURES / f"points.{language}.svg").read_text("utf-8")
    quoted = [html.unescape(code) for code in re.findall(r'data-code="">(.*?)</text>', svg)]
    source = (ROOT / "camp_softmax/tilelang/online.py").read_text("utf-8")
    load, merge, kernel = (
        source.partition(f"[start:{part}]")[2].partition(f"[end:{part}]")[0]
        for part in ("load", "merge", "softmax")
    )
    kernel = kernel.replace("load_tile(", load + "load_tile(", 1).replace("merge_tile(", merge, 1)
    position = 0
    for code in quoted:
        assert code in kernel[position:], code
        position = kernel.index(code, position)
    numbers = re.findall(r'font-weight="600">(\d)</text>', svg)
    assert list(dict.fromkeys(sorted(numbers))) == list("123456")


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize(("name", "rung"), [("three-pass", "three_pass"), ("online", "online")])
def test_pipelines_show_the_states_and_every_read_and_write(name, rung, language):
    svg = (FIGURES / f"pipeline-{name}.{language}.svg").read_text("utf-8")
    reads, writes = reference.SCANS[rung]
    cells = re.findall(r'<rect .*height="24" .*stroke="var\(--(\w+)\)"', svg)
    assert (cells.count("read"), cells.count("write")) == (len(ROW) * reads, len(ROW) * writes)
    assert svg.count("stroke-dasharray") == reads - 1  # a barrier before each pass but the first
    states = list(reference.states(ROW, 3)) if rung == "online" else [reference.tile_state(ROW)]
    shown = texts(svg)
    assert [text for text in shown if re.match(r"m = \d", text)] == [f"m = {m:.0f}" for m, _ in states]
    assert [text for text in shown if re.match(r"s = \d", text)] == [f"s = {s:.3f}" for _, s in states]
    drops = [(old.m - new.m).item() for old, new in itertools.pairwise(states)]
    assert [text for text in shown if text.startswith("× ")] == [
        f"× e−{-drop:.0f}" if drop else "× 1" for drop in drops
    ]
    description = re.search(r"<desc.*?>(.*)</desc>", svg)[1]
    assert all(f"{s:.3f}" in description for _, s in states)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_route_counts_what_the_model_counts_and_promises_nothing(language):
    """A square for each read or write of the row; dashed until there is a kernel; chapters that exist."""
    svg = (FIGURES / f"route.{language}.svg").read_text(encoding="utf-8")
    rungs = re.findall(r'<g data-rung="(\w+)">(.*?)</g>', svg, re.DOTALL)
    assert [rung for rung, _ in rungs] == [rung for rung in reference.SCANS if rung != "three_scan"]
    for number, (rung, drawn) in enumerate(rungs):
        reads, writes = reference.SCANS[rung]
        squares = re.findall(r'<rect .*stroke="var\(--(\w+)\)"', drawn)
        assert (squares.count("read"), squares.count("write")) == (reads, writes), rung
        assert texts(drawn)[0] == str(number)
        assert texts(drawn)[-1] == str(reads + writes)
        written = rung == "naive" or any((ROOT / "camp_softmax").glob(f"*/{rung}.*"))
        assert ("stroke-dasharray" in drawn) is not written, rung
    pages = (ROOT / "docs" / language / "tutorial").glob("*.md")
    chapters = {re.match(r"# (\d+)", page.read_text(encoding="utf-8"))[1] for page in pages}
    between = texts(re.sub(r"<g .*?</g>", "", svg, flags=re.DOTALL))
    named = {found[1] for text in between if (found := re.search(r"(\d+)( 章)?[:：]", text))}
    assert named
    assert named <= chapters


@pytest.mark.parametrize("language", ["zh", "en"])
def test_routes_stop_at_the_pages_of_the_lists(language):
    """A dot for each page of a list, in its row and order; a row is labelled with the title of its page."""
    svg = (FIGURES / f"routes.{language}.svg").read_text("utf-8")
    pages = read(ROOT)
    labels = re.findall(r'<text x="0" y="(\d+)" data-page="(.+?)">(.+?)</text>', svg)
    rows = {int(y) - 5: page for y, page, _ in labels}
    for _, page, title in labels:
        assert pages[f"docs/{language}/{page}"].startswith(f"# {title}\n")
    stops = {
        route: [rows[int(y)] for y in re.findall(r'<circle cx="\d+" cy="(\d+)" r="6"/>', drawn)]
        for route, drawn in re.findall(r'<g data-route="(.+?)">(.*?)</g>', svg, re.DOTALL)
    }
    _, *sections = pages[f"docs/{language}/routes.md"].split("\n## ")
    link = re.compile(r"^\d+\. \[.+?\]\((.+?)\)", re.MULTILINE)
    listed = {re.search(r"\{#(.+?)\}", section)[1]: link.findall(section) for section in sections}
    assert stops == listed
    assert set(rows.values()) == set(itertools.chain(*stops.values()))


@pytest.mark.parametrize("language", ["zh", "en"])
def test_shuffle_shows_the_steps_of_the_butterfly(language):
    swap = runpy.run_path(str(ROOT / "snippets" / "cuda" / "butterfly.py"))["shuffle_xor"]
    row = [f"{value:.0f}" for value in ROW]
    want, values = [*map(str, range(8)), *row], row
    for lanes in 4, 2, 1:
        values = list(map(max, zip(values, swap(values, lanes), strict=True)))
        want += values
    svg = (FIGURES / f"shuffle.{language}.svg").read_text("utf-8")
    assert [text for text in texts(svg) if text.isdigit()] == want
    lines = re.findall(r'<path d="M(\d+) (\d+)L(\d+) ', svg)
    lanes = [((int(x) - 32) // 32, (int(to) - 32) // 32) for x, _, to in lines]
    assert sorted(lanes) == sorted((t ^ d, t) for d in (4, 2, 1) for t in range(8))


@pytest.mark.parametrize("language", ["zh", "en"])
def test_edges_shows_where_the_parts_of_a_row_lie(language):
    """Vectors between the dashed lines, 80 apart, and a box for each element outside them."""
    parts = runpy.run_path(str(ROOT / "snippets" / "cuda" / "edges.py"))["parts"]
    svg = (FIGURES / f"edges.{language}.svg").read_text("utf-8")
    for row in range(3):
        head, vectors, tail = parts(row, 13, 4)
        assert f"{head} + 4 × {vectors} + {tail}" in svg
        drawn = re.search(rf'<g data-row="{row}">(.*?)</g>', svg, re.DOTALL)[1]
        boxes = [(int(x), int(w)) for x, w in re.findall(r'<rect x="(\d+)" y="\d+" width="(\d+)"', drawn)]
        start = 24 + 20 * (13 * row % 4)
        singles = [start + 20 * j for j in range(13) if not head <= j < head + 4 * vectors]
        assert [x for x, w in boxes if w == 20] == singles
        assert [x for x, w in boxes if w == 80] == [start + 20 * head + 80 * k for k in range(vectors)]
        assert all((x - 24) % 80 == 0 for x, w in boxes if w == 80)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_flight_shows_what_blocks_have_on_their_way(language):
    """Rows of 22000 bfloat16 elements, and memory idle only where one block is alone."""
    svg = (FIGURES / f"flight.{language}.svg").read_text("utf-8")
    for blocks, vectors in (1, 3), (2, 6):
        threads = -(-2750 // (vectors * 32)) * 32
        assert plan._resident(threads // 32, vectors * 8) == blocks
        drawn = re.search(rf'<g data-blocks="{blocks}">(.*?)</g>', svg, re.DOTALL)[1]
        assert f"{blocks * 44} KB" in drawn
        assert len(set(re.findall(r'y="(\d+)" width="40" height="20"', drawn))) == blocks
        assert ("url(#idle)" in drawn) == (blocks == 1)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_ahead_has_each_row_in_the_cache_when_its_block_comes(language):
    """A row is asked for when the block before it loads, and memory idles only where nothing is."""
    svg = (FIGURES / f"ahead.{language}.svg").read_text("utf-8")
    not_asked, asked = (re.search(rf'<g data-asked="{n}">(.*?)</g>', svg, re.DOTALL)[1] for n in range(2))
    assert ("url(#fig-ahead-idle)" in not_asked, "url(#fig-ahead-idle)" in asked) == (True, False)

    def at(drawn: str, y: int, kind: str) -> list[tuple[int, int]]:
        boxes = re.findall(rf'<rect x="(\d+)" y="{y}" width="(\d+)" height="20" rx="2" fill="(.*?)"', drawn)
        return [(int(x), int(x) + int(width)) for x, width, fill in boxes if fill == kind]

    def rows(drawn: str, y: int) -> list[str]:
        return re.findall(rf'y="{y}" text-anchor="middle" font-size="12">([A-F])<', drawn)

    read, waiting = "var(--read-fill)", "none"
    assert len(rows(asked, 134)) > len(rows(not_asked, 46))
    assert rows(asked, 134)[1:] == rows(asked, 178)
    loads, coming = at(asked, 120, read), at(asked, 164, read)
    assert [x for x, _ in loads] == [x for x, _ in coming]
    assert {end - x for x, end in coming[:-1]} == {end - x for x, end in at(not_asked, 32, read)[:-1]}
    assert at(asked, 164, waiting) == [
        (end, load) for (_, end), (load, _) in zip(coming, loads[1:], strict=False)
    ]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_cluster_shows_the_states_and_weights_of_its_blocks(language):
    svg = (FIGURES / f"cluster.{language}.svg").read_text("utf-8")
    m, s = reference.tile_state(ROW)
    for block, part in enumerate(ROW.chunk(4)):
        own = reference.tile_state(part)
        drawn = re.search(rf'<g data-block="{block}">(.*?)</g>', svg, re.DOTALL)[1]
        weights = [f"{weight:.3f}" for weight in torch.exp(part - m) / s]
        states = [f"({own.m:.0f}, {own.s:.3f})", f"({m:.0f}, {s:.3f})"]
        assert all(found in re.search(r"<desc.*?>(.*)</desc>", svg)[1] for found in states)
        assert texts(drawn)[1:] == [*(f"{x:.0f}" for x in part), *states, *weights]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_order_shows_the_rows_of_the_simulation(language, capsys):
    runpy.run_path(str(ROOT / "snippets" / "cuda" / "order.py"))
    lines = re.findall(r"at +(\d+): +([\d ]+?)  \d+ apart", capsys.readouterr().out)
    half = len(lines) // 2
    svg = (FIGURES / f"order.{language}.svg").read_text("utf-8")
    for number, group in enumerate((lines[1:half], lines[half + 1 :])):
        drawn = re.search(rf'<g data-order="{number}">(.*?)</g>', svg, re.DOTALL)[1]
        assert texts(drawn)[1:] == [time for time, _ in group]
        dots = re.findall(r'<circle cx="([\d.]+)" cy="\d+" r="3.5" fill="[^"]*" data-row="(\d+)"', drawn)
        assert [row for _, row in dots] == [row for _, rows in group for row in rows.split()]
        assert [float(x) for x, _ in dots] == [round(64 + 280 * int(row) / 80, 1) for _, row in dots]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_ring_fills_a_stage_when_it_has_been_read(language):
    """In turn the stages take the rows; a copy begins where the read of the row before it ends."""
    svg = (FIGURES / f"ring.{language}.svg").read_text("utf-8")
    rows = [text for text in texts(svg) if re.fullmatch("[A-E]", text)]
    assert rows == [*"AC", *"BD", "E", *"AABBCC"]
    reads = {
        (int(y), float(x) + float(w))
        for x, y, w in re.findall(
            r'<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="24" rx="2" fill="var\(--read\)"/>', svg
        )
    }
    copies = re.findall(
        r'<rect x="([\d.]+)" y="(32|72)" width="[\d.]+" height="24" rx="2" fill="var\(--read-f', svg
    )
    later = [(int(y), float(x)) for x, y in copies if float(x) > 90]
    assert len(later) == 3
    assert set(later) <= reads


@pytest.mark.parametrize("language", ["zh", "en"])
def test_attention_names_the_parts_of_the_kernel(language):
    """In the order of the kernel: from memory only q and tiles, in registers the state, one thing written."""
    svg = (FIGURES / f"attention.{language}.svg").read_text("utf-8")
    source = (ROOT / "camp_softmax/tilelang/attention.py").read_text("utf-8")
    kernel = source.partition("[start:kernel]")[2].partition("[end:kernel]")[0]
    named = re.findall(r'data-code="">(\w+)</text>', svg)
    assert named == re.findall(r"^ +(\w+_\w+|write)\(.*\b(?:scores|acc)\b", kernel, re.MULTILINE)
    assert re.findall(r">([qkvms]|acc)</text>", svg) == ["q", "k", "v", "m", "s", "acc"]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_staircase_masks_what_the_kernel_does(language):
    """Four queries, eight keys and a place without one; the tile that is skipped is hatched all over."""
    svg = (FIGURES / f"staircase.{language}.svg").read_text("utf-8")
    Nq, Nk, places = 4, 8, 9
    seen = [visible(i, Nq, Nk, causal=True) for i in range(Nq)]
    for kind, count in ("seen", lambda n: n), ("masked", lambda n: places - n):
        cells = [svg.count(f'data-{kind}="{i}"') for i in range(Nq)]
        assert cells == [count(n) for n in seen]
    assert svg.count('fill="url(#fig-staircase-mask)" stroke="var(--mask)"') == sum(places - n for n in seen)
    assert max(seen[:2]) <= 6 < max(seen[2:])
    assert [text for text in texts(svg) if text.isdigit()] == [*map(str, range(Nk)), *map(str, range(Nq))]
    assert svg.count('fill="var(--state-fill)"') == Nq


@pytest.mark.parametrize("language", ["zh", "en"])
def test_race_shows_both_orders_of_the_snippet(language, capsys):
    """A box for each access, in the lane of its thread, with its clock; a cross between those that race."""
    clocks = runpy.run_path(str(ROOT / "snippets" / "race" / "clocks.py"))
    svg = (FIGURES / f"race.{language}.svg").read_text("utf-8")
    for first, left in (1, 2), (0, 190):
        clocks["run"](clocks["STEPS"]["1"], first)
        printed = capsys.readouterr().out
        accesses = re.findall(r"thread (\d) (\(\d, \d\)) (read|write)s (\d)", printed)
        drawn = re.search(rf'<g data-first="{first}">(.*?)</g>', svg, re.DOTALL)[1]
        boxes = re.findall(
            r'<rect x="(\d+)" y="(\d+)" width="76" height="40" rx="2" fill="var\(--(\w+)-fill\)".*?/>\n'
            r"<text .*?>\D*(\d)</text>\n<text .*?>(.*?)</text>",
            drawn,
        )
        lanes = [(str((int(x) - left) // 92), clock, kind, value) for x, _, kind, value, clock in boxes]
        assert lanes == accesses
        assert [int(y) for _, y, *_ in boxes] == [48, 140, 208, 300]
        at = [int(y) for y in re.findall(r'y="(\d+)" width="168"', drawn)]
        assert len(at) == printed.count("barrier")
        assert 48 < at[0] < 140
        assert 208 < at[1] < 300
        assert (
            drawn.count('data-missing=""') == printed.count("race:") == 1
        )  # between the boxes at 140 and 208
        assert f"y = {re.search('result: (.*)', printed)[1]}" in " ".join(texts(drawn))


@pytest.mark.parametrize("name", sorted({path.name.split(".")[0] for path in FIGURES.glob("*.svg")}))
def test_figures_agree_between_languages(name):
    """Same drawing, same numbers, a title and a description in each; no colour of their own."""
    zh, en = ((FIGURES / f"{name}.{language}.svg").read_text(encoding="utf-8") for language in ("zh", "en"))

    def drawing(svg: str) -> list[str]:
        return re.findall(r"<(?:rect|path|pattern|circle)[^>]*>", svg)

    def numbers(svg: str) -> list[str]:
        return re.findall(r"[\d.]+", " ".join(texts(svg)))

    assert drawing(zh) == drawing(en)
    assert numbers(zh) == numbers(en)
    for svg in (zh, en):
        assert re.search(r"<title id=.+?>.+</title>\n<desc id=.+?>.+</desc>", svg)
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!-)", svg.replace("url(#", "url("))
        assert "\n\n" not in svg, "a blank line would end the HTML block on the page"
