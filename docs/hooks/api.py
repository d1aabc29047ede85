"""The API reference: `::: camp_softmax.softmax` becomes the signature and the docstring of that function.

They are read from the source, so that the build needs neither torch nor tilelang.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

PACKAGE = "camp_softmax"
MARK = re.compile(rf"^::: {PACKAGE}\.(?P<name>[\w.]+)$", re.MULTILINE)
CODE = re.compile(r":\n(?= {4})")  # the end of a line above what is indented as code
WIDTH = 76

WORDS = {
    "zh": {"parameters": "参数", "returns": "返回", "raises": "抛出", "Example": "例子", "source": "源码"},
    "en": {
        "parameters": "Arguments",
        "returns": "Returns",
        "raises": "Raises",
        "Example": "Example",
        "source": "Source",
    },
}


def fill(markdown: str, root: Path, language: str, repository: str) -> str:
    """The page with the reference of each marked name in place of its mark.

    Raises:
        KeyError: there is no such name in the package.
        ValueError: it has no docstring.
    """
    if not MARK.search(markdown):
        return markdown
    package = griffe.load(
        PACKAGE,
        search_paths=[root],
        try_relative_path=False,  # relative to where the build is started
        allow_inspection=False,
        resolve_aliases=True,
    )

    def reference(mark: re.Match[str]) -> str:
        found = package[mark["name"]]
        found = found.final_target if found.is_alias else found
        if not found.docstring:
            raise ValueError(f"{mark['name']} has no docstring")
        parts = [
            _fence("py", _signature(found)),
            '<div class="docstring" markdown>',
            *_docstring(found, language),
            _source(found, root, language, repository),
            "</div>",
        ]
        return "\n\n".join(parts)

    return MARK.sub(reference, markdown)


def _signature(found: Any) -> str:
    """One line, or one for each parameter where that is too long for the page."""
    if found.is_class:
        bases = ", ".join(map(str, found.bases))
        return f"class {found.name}" + f"({bases})" * bool(bases)
    line = str(found.signature()).replace("'", '"')  # the quotes of the source
    if len(line) <= WIDTH:
        return line
    inner, _, returned = line.partition("(")[2].rpartition(") -> ")
    parameters = re.sub(r", (?=\*, |\w+:)", ",\n    ", inner)
    return f"{found.name}(\n    {parameters},\n) -> {returned}"


def _docstring(found: Any, language: str) -> Iterator[str]:
    """Its sections, in order, as Markdown. The words are English on every page."""
    words, tongue = WORDS[language], ' lang="en"' * (language != "en")
    for section in found.docstring.parse("google", returns_multiple_items=False):
        match section.kind.value:
            case "text":
                text = CODE.sub(":\n\n", section.value)
                yield f"<div{tongue} markdown>\n\n{text}\n\n</div>"
            case "parameters" | "raises" as kind:
                rows = "\n".join(
                    f"<dt><code>{item.name if kind == 'parameters' else item.annotation}</code></dt>\n"
                    f'<dd markdown="span">{item.description}</dd>'
                    for item in section.value
                )
                yield f"**{words[kind]}**\n\n<dl{tongue}>\n{rows}\n</dl>"
            case "returns":
                text = " ".join(item.description for item in section.value)
                yield f"**{words['returns']}**\n\n<div{tongue} markdown>\n\n{text}\n\n</div>"
            case "admonition":
                yield f"**{words[section.title]}**\n\n{_fence('pycon', section.value.contents)}"
            case kind:
                raise ValueError(f"{found.path}: no form for a section of {kind}")


def _source(found: Any, root: Path, language: str, repository: str) -> str:
    path = found.filepath.relative_to(root).as_posix()
    name = f"`{path}`"
    if repository:
        name = f"[{name}]({repository.rstrip('/')}/blob/main/{path}#L{found.lineno})"
    return f"{WORDS[language]['source']} {name}\n{{ .source }}"


def _fence(info: str, text: str) -> str:
    return f"```{info}\n{text}\n```"
