"""The lesson: what its script says, as Markdown for the page, and as subtitles.

docs/script/<language>.toml holds segments, in them cues, in each the lines that are spoken: a line is a
breath, and a subtitle. Standard library only, as blocks.py.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

CHARACTERS, WORDS_A_MINUTE = 240, 140  # of Chinese, of anything else
SYLLABLE = re.compile(r"[\u3400-\u9fff]")
WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Cue:
    """What is said over one picture."""

    id: str
    title: str
    start: int  # seconds from the beginning of the lesson
    seconds: int
    screen: str  # what the presenter shows and does
    page: str  # what is on the screen: "tutorial/stability.md#breaks"
    show: tuple[str, ...]  # on that page: a command that it runs, or a file that it includes
    say: tuple[str, ...]

    @property
    def end(self) -> int:
        return self.start + self.seconds


@dataclass(frozen=True)
class Segment:
    id: str
    title: str
    cues: tuple[Cue, ...]

    @property
    def start(self) -> int:
        return self.cues[0].start

    @property
    def seconds(self) -> int:
        return sum(cue.seconds for cue in self.cues)


@dataclass(frozen=True)
class Script:
    language: str
    segments: tuple[Segment, ...]

    @classmethod
    def load(cls, path: Path) -> "Script":
        """The script in the language that the file is named after."""
        start, segments = 0, []
        for segment in tomllib.loads(path.read_text("utf-8"))["segment"]:
            cues = []
            for cue in segment.pop("cue"):
                show, say = tuple(cue.pop("show", ())), tuple(cue.pop("say").strip().split("\n"))
                cues.append(Cue(**cue, start=start, show=show, say=say))
                start += cue["seconds"]
            segments.append(Segment(**segment, cues=tuple(cues)))
        return cls(path.stem, tuple(segments))

    @property
    def cues(self) -> list[Cue]:
        return [cue for segment in self.segments for cue in segment.cues]

    @property
    def seconds(self) -> int:
        return sum(segment.seconds for segment in self.segments)


def spoken(text: str, language: str) -> float:
    """The seconds that a text takes to say. A digit counts as a character in Chinese, as a word elsewhere."""
    characters, words = len(SYLLABLE.findall(text)), len(WORD.findall(text))
    digits = len(DIGIT.findall(text))
    if language == "zh":
        characters += digits
    else:
        words += digits
    return 60 * (characters / CHARACTERS + words / WORDS_A_MINUTE)


# --- subtitles --------------------------------------------------------------------------------------


def subtitles(script: Script) -> Iterator[tuple[str, int, int, str]]:
    """Each line with its name, begin and end in milliseconds: a cue's time, shared out by length."""
    for cue in script.cues:
        lengths = [spoken(line, script.language) for line in cue.say]
        at, said = 1000 * cue.start, 0.0
        for number, (line, length) in enumerate(zip(cue.say, lengths, strict=True), 1):
            said += length
            end = 1000 * cue.start + round(1000 * cue.seconds * said / sum(lengths))
            yield f"{cue.id}-{number}", at, end, line.replace("`", "")
            at = end


def vtt(script: Script) -> str:
    """The subtitles as WebVTT."""
    parts = [
        f"{name}\n{_clock(begin, '.')} --> {_clock(end, '.')}\n{escape(text, quote=False)}\n"
        for name, begin, end, text in subtitles(script)
    ]
    return "\n".join(["WEBVTT\n", *parts])


def srt(script: Script) -> str:
    """The subtitles as SubRip."""
    parts = [
        f"{number}\n{_clock(begin, ',')} --> {_clock(end, ',')}\n{text}\n"
        for number, (_, begin, end, text) in enumerate(subtitles(script), 1)
    ]
    return "\n".join(parts)


def _clock(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"


def downloads(script: Script) -> dict[str, str]:
    """The subtitles by the name of their file."""
    stem = f"softmax-lesson.{script.language}"
    return {f"{stem}.vtt": vtt(script), f"{stem}.srt": srt(script)}


# --- the page ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """What the page says in one language."""

    timeline: str
    description: str
    caption: str
    minutes: str
    presenter: str
    downloads: str
    screen: str
    shows: str
    colon: str
    between: str
    stop: str


WORDS = {
    "zh": Words(
        timeline="这节课的时间线",
        description="一段一行：",
        caption="横轴是分钟。一段一行，格子是一个个提示。",
        minutes="{} 分钟",
        presenter="演讲者视图需要 JavaScript；没有它，照下面的文字讲。",
        downloads="字幕",
        screen="画面",
        shows="对应",
        colon="：",
        between="",
        stop="；",
    ),
    "en": Words(
        timeline="The lesson on a timeline",
        description="One segment a line: ",
        caption="Minutes run to the right. Each line is a segment, each box in it a cue.",
        minutes="{} min",
        presenter="The presenter view needs JavaScript. Without it, read from the text below.",
        downloads="Subtitles",
        screen="Screen",
        shows="Shows",
        colon=": ",
        between=" ",
        stop="; ",
    ),
}


def page(script: Script, titles: Mapping[str, str], assets: str) -> str:
    """The script as Markdown.

    Args:
        script: in the language of the page.
        titles: of the pages that cues show, by their path.
        assets: the address of the folder of presenter.css and presenter.js, from the page.
    """
    words = WORDS[script.language]
    files = " · ".join(f"[{name}]({name}){{ download }}" for name in downloads(script))
    parts = [
        _timeline(script, words),
        f'<link rel="stylesheet" href="{escape(assets)}/presenter.css">\n'
        f"<div><lesson-presenter>{words.presenter}</lesson-presenter></div>\n"
        f'<script src="{escape(assets)}/presenter.js" defer></script>',
        f"{words.downloads}{words.colon}{files}",
    ]
    for segment in script.segments:
        parts.append(f"## {_name(segment, words)} {{#{segment.id}}}")
        parts += (_cue(cue, words, titles) for cue in segment.cues)
    return "\n\n".join(parts)


def _name(segment: Segment, words: Words) -> str:
    return f"{segment.title} · {words.minutes.format(f'{segment.seconds / 60:g}')}"


def _time(seconds: int) -> str:
    return f"{seconds // 60}:{seconds % 60:02}"


def _cue(cue: Cue, words: Words, titles: Mapping[str, str]) -> str:
    """Its attributes and classes are for presenter.js. A search finds the page that it shows instead."""
    path = cue.page.partition("#")[0]
    shown = "".join(f" · `{name}`" for name in cue.show)
    time = f"{_time(cue.start)}–{_time(cue.end)}"
    said = words.between.join(f'<span class="cue__line">{line}</span>' for line in cue.say)
    return (
        f'<section class="cue" data-start="{cue.start}" data-seconds="{cue.seconds}" markdown>\n'
        f'<h3 id="cue-{cue.id}" data-search-exclude="true"><span class="cue__time">{time}</span>'
        f' <span class="cue__title">{escape(cue.title)}</span></h3>\n\n'
        f"{words.screen}{words.colon}{cue.screen}\n{{ .cue__screen }}\n\n"
        f"{said}\n{{ .cue__say }}\n\n"
        f"{words.shows}{words.colon}[{titles[path]}](../{cue.page}){shown}\n{{ .cue__shows }}\n\n"
        "</section>"
    )


def _timeline(script: Script, words: Words) -> str:
    """A line for each segment, on one axis of minutes, drawn as the other figures are."""
    left, right, step = 16, 344, 48
    scale = (right - left) / script.seconds
    bottom = step * len(script.segments) + 8
    ticks = range(0, script.seconds + 1, 300)
    drawn = [
        f'<path d="M{_x(left + scale * at)} 8V{bottom}" stroke="var(--rule)" stroke-width="1.5"/>'
        for at in ticks
    ]
    for row, segment in enumerate(script.segments):
        y = 28 + step * row
        begin = left + scale * segment.start
        anchor, at = ("start", begin) if begin <= 180 else ("end", right)
        drawn.append(
            f'<text x="{_x(at)}" y="{y - 6}" text-anchor="{anchor}" fill="var(--ink)" stroke="var(--paper)"'
            f' stroke-width="4" paint-order="stroke">{escape(_name(segment, words))}</text>'
        )
        drawn += _boxes(segment.cues, left, scale, y)
    drawn += (
        f'<text x="{_x(left + scale * at)}" y="{bottom + 18}" text-anchor="middle" fill="var(--quiet)">'
        f"{at // 60}</text>"
        for at in ticks
    )
    told = words.stop.join(f"{_time(segment.start)} {_name(segment, words)}" for segment in script.segments)
    return (
        '<figure id="fig-timeline">\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 {bottom + 24}" width="440" role="img"'
        ' aria-labelledby="fig-timeline-t fig-timeline-d" font-family="inherit" font-size="14">\n'
        f'<title id="fig-timeline-t">{words.timeline}</title>\n'
        f'<desc id="fig-timeline-d">{words.description}{escape(told)}</desc>\n'
        + "\n".join(drawn)
        + f"\n</svg>\n<figcaption>{words.caption}</figcaption>\n</figure>"
    )


def _boxes(cues: Sequence[Cue], left: float, scale: float, y: int) -> list[str]:
    return [
        f'<rect x="{_x(left + scale * cue.start)}" y="{y}" width="{_x(scale * cue.seconds)}" height="20"'
        ' rx="2" fill="var(--code-paper)" stroke="var(--ink)" stroke-width="1.5"/>'
        for cue in cues
    ]


def _x(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
