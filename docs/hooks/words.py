"""What the pages use of jieba's dictionary, in words.txt: the whole takes a second to load in each build.

`python docs/hooks/words.py` writes the file; a test says when it has to be written anew.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import jieba

FILE = Path(__file__).with_name("words.txt")
LONGEST = 16  # characters of a word
OTHERS = "\u2026"  # stands for all other words: what a word counts for depends on how many there are


def trimmed(text: str) -> Iterator[str]:
    """The lines of jieba's dictionary whose words occur in the text, and one for the rest."""
    runs = re.findall(r"[\u4e00-\u9fff]+", text)
    parts = {run[i : i + n] for run in runs for i in range(len(run)) for n in range(1, LONGEST + 1)}
    rest = 0
    with jieba.get_dict_file() as lines:
        for line in lines:
            word, frequency, _ = line.decode("utf-8").split(" ")
            if word in parts:
                yield f"{word} {frequency}"
            else:
                rest += int(frequency)
    yield f"{OTHERS} {rest}"


def text(root: Path) -> str:
    """All that search may have to cut: pages, notebooks, scripts, and what hooks and navigation say."""
    sources = [path for pattern in ("*.md", "*.ipynb", "*.toml") for path in (root / "docs").rglob(pattern)]
    sources += [*(root / "docs" / "hooks").glob("*.py"), *root.glob("mkdocs*.yml")]
    return "\n".join(path.read_text("utf-8") for path in sorted(sources))


if __name__ == "__main__":
    FILE.write_text("\n".join(trimmed(text(Path(__file__).parents[2]))) + "\n", "utf-8")
