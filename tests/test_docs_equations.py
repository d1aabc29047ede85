"""Every numbered equation of the pages is the one that a property test names."""

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from prose import FORMULA, SPAN, TAG, Pages, equations, formulas, language, line_of, read, unfenced, without

ROOT = Path(__file__).parents[1]
PAGES = read(ROOT)
DIV = re.compile(r"<\w+[^>]*\bclass\s*=\s*[\"']?[^\"'>]*\bequation\b")
DOLLAR = re.compile(r"(?<!\\)\$")


def markers(root: Path) -> Iterator[tuple[str, str | None, str | None]]:
    """Where each `@pytest.mark.equation("eq-…", r"tex")` stands, with its arguments if literal."""
    for where, call, _ in calls(root):
        texts = [arg.value if isinstance(arg, ast.Constant) else None for arg in call.args]
        yield (where, *texts) if len(texts) == 2 else (where, None, None)


def calls(root: Path) -> Iterator[tuple[str, ast.Call, ast.FunctionDef | None]]:
    """Each marker with the test that it decorates, None if it decorates none that pytest would collect."""
    for path in sorted((root / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        tests = [
            node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        decorated = {id(mark): test for test in tests for mark in test.decorator_list}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.equation":
                where = f"{path.relative_to(root).as_posix()}:{node.lineno}"
                yield where, node, decorated.get(id(node)) if path.name.startswith("test_") else None


def held_complaints(root: Path) -> Iterator[str]:
    """Markers of what never runs or holds nothing."""
    for where, _, test in calls(root):
        if test is None:
            yield f"{where}: this marks no test; put it above a function test_*"
            continue
        if re.search(r"\b(?:skip|skipif|xfail|importorskip)\b", ast.unparse(test)):
            yield f"{where}: {test.name} may be skipped, so it holds no equation"
        if not any(map(asserts, ast.walk(test))):
            yield f"{where}: {test.name} asserts nothing"


def asserts(node: ast.AST) -> bool:
    """An assert of something that can be false, a call of assert_…, or `raises`."""
    if isinstance(node, ast.Call):
        return bool(re.match(r"(?:.*\.)?(?:assert\w*|raises)$", ast.unparse(node.func)))
    return isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant)


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
                if formula.display and formula.line not in inside:
                    yield (
                        f"{page}:{formula.line}: {formula.tex} has no number or no id; put it in"
                        r' <div class="equation" id="eq-…" markdown> with a \tag'
                    )
            if len(shown) != (written := len(DIV.findall(without(SPAN, unfenced(text))))):
                yield (
                    f"{page}:1: {written} divs are equations, and {len(shown)} can be read; write"
                    ' <div class="equation" id="eq-…" markdown>'
                )


def dollar_complaints(pages: Pages) -> Iterator[str]:
    """Dollars that MathJax would read and the site does not: `$ x $`, one alone, a formula over lines."""
    for page, text in pages.items():
        prose = without(SPAN, unfenced(text))
        for match in FORMULA.finditer(prose):
            if "\n\n" in match[0] or ("\n" in match[0] and (match["inline"] or match["parentheses"])):
                yield f"{page}:{line_of(prose, match.start())}: {match[0]!r}; end a formula where it begins"
        rest = without(FORMULA, prose)
        for match in DOLLAR.finditer(rest):
            yield f"{page}:{line_of(rest, match.start())}: a `$` alone; write `$x$` without spaces, or `\\$`"


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


def test_every_dollar_belongs_to_a_formula() -> None:
    assert not (found := list(dollar_complaints(PAGES))), "\n".join(found)


def test_every_marked_test_holds_its_equation() -> None:
    assert not (found := list(held_complaints(ROOT))), "\n".join(found)


def test_every_equation_is_tested() -> None:
    assert not (found := list(marker_complaints(PAGES, ROOT))), "\n".join(found)


PAGE = r"""# 合并

<div class="equation" id="eq-max" markdown>

$$
m = \max(m_a,
         m_b) \tag{1}
$$

</div>

$m$, \$5, `$`

<div class="equation" id="eq-sum" markdown>
$$s \tag{2}$$
</div>
"""
TEST = r"""
import pytest

@pytest.mark.equation("eq-max", r"m = \max(m_a, m_b)")
def test_a():
    assert x == 1

@pytest.mark.equation("eq-sum", "s")
@pytest.mark.parametrize("x", [1])
def test_b(x):
    torch.testing.assert_close(x, 1)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(TEST)
    return tmp_path


def complaints(text: str, tree: Path) -> list[str]:
    pages = {"docs/zh/a.md": text}
    found = (
        page_complaints(pages),
        dollar_complaints(pages),
        held_complaints(tree),
        marker_complaints(pages, tree),
    )
    return [*itertools.chain(*found)]


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
        ("$m$", r"$$m \tag{2}$$", r"a.md:12: m \tag{2} has no number or no id; put it in <div"),
        ("$m$", "$$m$$", "a.md:12: m has no number or no id; put it in <div"),
        ("$m$", r"\[m\]", "a.md:12: m has no number or no id"),
        ("$m$", r"\begin{align}m\end{align}", r"a.md:12: \begin{align}m\end{align} has no number"),
        ('id="eq-sum" ', "", "a.md:1: 2 divs are equations, and 1 can be read"),
        ('class="equation" id="eq-sum"', 'class="wide equation" id="eq-sum"', "a.md:1: 2 divs are"),
        ("$m$", "$ m $", "a.md:12: a `$` alone"),
        ("$m$", "$m", "a.md:12: a `$` alone"),
        ("$m$", "$m\nn$", r"a.md:12: '$m\nn$'; end a formula where it begins"),
        (
            "eq-sum",
            "eq-total",
            'a.md:14: no test is marked @pytest.mark.equation("eq-total", r"s")',
        ),
        ("eq-sum", "eq-total", "tests/test_a.py:8: no page shows #eq-sum"),
        ("m_b)", "m_c)", r"a.md:3: #eq-max reads ['m = \\max(m_a, m_c)'], but its test (tests/te"),
    ],
)
def test_wrong_equations_are_named(old: str, new: str, complaint: str, tree: Path) -> None:
    assert old in PAGE
    assert any(complaint in text for text in complaints(PAGE.replace(old, new), tree))


def test_a_marker_that_is_not_literal_is_named(tree: Path) -> None:
    (tree / "tests" / "test_b.py").write_text("import pytest\npytest.mark.equation(name, 'x')\n")
    _, found = complaints(PAGE, tree)
    assert found.startswith("tests/test_b.py:2: write the equation out")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("def test_a", "def check_a", "tests/test_a.py:4: this marks no test"),
        ("assert x == 1", "x == 1", "tests/test_a.py:4: test_a asserts nothing"),
        ("assert x == 1", "assert True", "tests/test_a.py:4: test_a asserts nothing"),
        (
            "torch.testing.assert_close(x, 1)",
            "print('assert x')",
            "tests/test_a.py:8: test_b asserts nothing",
        ),
        ("assert x == 1", "pytest.skip()\n    assert x", "tests/test_a.py:4: test_a may be skipped"),
        ("\n@pytest.mark.param", "\n@pytest.mark.skipif(1)\n@pytest.mark.param", "test_b may be skipped"),
        ("\n@pytest.mark.param", "\n@pytest.mark.xfail\n@pytest.mark.param", "test_b may be skipped"),
    ],
)
def test_a_test_that_holds_nothing_is_named(old: str, new: str, complaint: str, tree: Path) -> None:
    assert old in TEST
    (tree / "tests" / "test_a.py").write_text(TEST.replace(old, new))
    assert any(complaint in found for found in complaints(PAGE, tree))


def test_raises_holds(tree: Path) -> None:
    (tree / "tests" / "test_a.py").write_text(TEST.replace("assert x == 1", "with pytest.raises(E): f()"))
    assert complaints(PAGE, tree) == []
