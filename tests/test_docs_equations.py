"""Every numbered equation of the pages is the one that a property test names."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from prose import TAG, Pages, equations, formulas, language, read

ROOT = Path(__file__).parents[1]
PAGES = read(ROOT)


def markers(root: Path) -> Iterator[tuple[str, str | None, str | None]]:
    """Where each `@pytest.mark.equation("eq-…", r"tex")` stands, with its arguments if literal."""
    for path in sorted((root / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr == "equation" and ast.unparse(node.func).startswith("pytest.mark"):
                where = f"{path.relative_to(root).as_posix()}:{node.lineno}"
                texts = [arg.value if isinstance(arg, ast.Constant) else None for arg in node.args]
                yield (where, *texts) if len(texts) == 2 else (where, None, None)


def plain(tex: str) -> str:
    """The TeX without its number; the amount of white space means nothing."""
    return " ".join(TAG.sub("", tex).split())


def page_complaints(pages: Pages) -> Iterator[str]:
    """Numbers out of order, ids used twice, numbered formulas that nothing can link to."""
    for name in ("zh", "en"):
        texts = language(pages, name)
        ids = Counter(equation.id for text in texts.values() for equation in equations(text))
        for path, text in texts.items():
            page, shown = f"docs/{name}/{path}", equations(text)
            for number, equation in enumerate(shown, 1):
                where = f"{page}:{equation.line}: #{equation.id}"
                tex = equation.formulas[0].tex if len(equation.formulas) == 1 else ""
                tags = [match["number"] for match in TAG.finditer(tex)]
                if tags != [str(number)]:
                    yield rf"{where} must hold one display formula with \tag{{{number}}}"
                if not equation.id.startswith("eq-") or ids[equation.id] > 1:
                    yield f'{where} must be an id of its own that begins with "eq-"'
            inside = {formula.line for equation in shown for formula in equation.formulas}
            for formula in formulas(text):
                if TAG.search(formula.tex) and formula.line not in inside:
                    yield (
                        f"{page}:{formula.line}: {formula.tex} has a number; put it in"
                        ' <div class="equation" id="eq-…" markdown>'
                    )


def marker_complaints(pages: Pages, root: Path) -> Iterator[str]:
    """Equations no test names, or names with other TeX, and names no page shows."""
    named: dict[str, set[str]] = {}
    places: dict[str, str] = {}
    for where, identity, tex in markers(root):
        if not isinstance(identity, str) or not isinstance(tex, str):
            yield f'{where}: write the equation out: pytest.mark.equation("eq-…", r"TeX")'
            continue
        named.setdefault(identity, set()).add(plain(tex))
        places.setdefault(identity, where)
    shown = set()
    for page, text in pages.items():
        for equation in equations(text):
            shown.add(equation.id)
            texts = {plain(formula.tex) for formula in equation.formulas}
            if equation.id not in named:
                yield (
                    f"{page}:{equation.line}: no test is marked"
                    f' @pytest.mark.equation("{equation.id}", r"{"".join(texts)}")'
                )
            elif named[equation.id] != texts:
                yield (
                    f"{page}:{equation.line}: #{equation.id} reads {sorted(texts)}, but its test"
                    f" ({places[equation.id]}) {sorted(named[equation.id])}; make them the same"
                )
    for identity in sorted(named.keys() - shown):
        yield f"{places[identity]}: no page shows #{identity}"


def test_equations_are_numbered_and_linkable() -> None:
    assert not (found := list(page_complaints(PAGES))), "\n".join(found)


def test_every_equation_is_tested() -> None:
    assert not (found := list(marker_complaints(PAGES, ROOT))), "\n".join(found)


PAGE = r"""# 合并

<div class="equation" id="eq-max" markdown>

$$
m = \max(m_a,
         m_b) \tag{1}
$$

</div>

$$m$$

<div class="equation" id="eq-sum" markdown>
$$s \tag{2}$$
</div>
"""
TEST = r"""
import pytest

@pytest.mark.equation("eq-max", r"m = \max(m_a, m_b)")
def test_a(): ...

@pytest.mark.equation("eq-sum", "s")
@pytest.mark.parametrize("x", [1])
def test_b(x): ...
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(TEST)
    return tmp_path


def complaints(text: str, tree: Path) -> list[str]:
    pages = {"docs/zh/a.md": text}
    return [*page_complaints(pages), *marker_complaints(pages, tree)]


def test_right_equations_pass(tree: Path) -> None:
    assert complaints(PAGE, tree) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (r"\tag{2}", r"\tag{3}", r"a.md:14: #eq-sum must hold one display formula with \tag{2}"),
        (r" \tag{2}", "", r"a.md:14: #eq-sum must hold one display formula with \tag{2}"),
        (r"$$s \tag{2}$$", "", r"a.md:14: #eq-sum must hold one display formula with \tag{2}"),
        ("eq-sum", "eq-max", "a.md:3: #eq-max must be an id of its own"),
        ("eq-sum", "sum", 'a.md:14: #sum must be an id of its own that begins with "eq-"'),
        ("$$m$$", r"$$m \tag{2}$$", r"a.md:12: m \tag{2} has a number; put it in <div"),
        (
            "eq-sum",
            "eq-total",
            'a.md:14: no test is marked @pytest.mark.equation("eq-total", r"s")',
        ),
        ("eq-sum", "eq-total", "tests/test_a.py:7: no page shows #eq-sum"),
        ("m_b)", "m_c)", r"a.md:3: #eq-max reads ['m = \\max(m_a, m_c)'], but its test (tests/te"),
    ],
)
def test_wrong_equations_are_named(old: str, new: str, complaint: str, tree: Path) -> None:
    assert old in PAGE
    assert any(complaint in text for text in complaints(PAGE.replace(old, new), tree))


def test_a_marker_that_is_not_literal_is_named(tree: Path) -> None:
    (tree / "tests" / "test_b.py").write_text("import pytest\npytest.mark.equation(name, 'x')\n")
    (found,) = complaints(PAGE, tree)
    assert found.startswith("tests/test_b.py:2: write the equation out")
