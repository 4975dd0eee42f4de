"""The guides: code compiles, blocks marked ``test`` run, links lead somewhere.

A fence's first word is its language. ``python`` blocks must compile; those marked ``python test`` run too,
all of one page in order as one script, in an empty folder. A block that is meant to be wrong has another
language (``text``).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LANGUAGES = {
    "python",
    "bash",
    "sh",
    "console",
    "json",
    "yaml",
    "toml",
    "text",
    "html",
    "diff",
    "mermaid",
}
MARKS = {"test"}


@dataclass(frozen=True)
class Block:
    """A fenced block: where it starts, its info words, its text."""

    page: Path
    line: int
    info: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def split_page(page: Path) -> tuple[list[Block], str]:
    """The fenced blocks of a page, and the prose between them."""
    blocks, prose = [], []
    fence, start, info, body = "", 0, "", list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        match = re.match(r"\s*(`{3,}|~{3,})(.*)$", line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                blocks.append(Block(page, start, tuple(info.split()), "\n".join(body) + "\n"))
                fence = ""
            else:
                body.append(line)
        elif match:
            fence, start, info, body = match[1], number, match[2], []
        else:
            prose.append(line)
    assert not fence, f"{page}:{start}: this fence is never closed"
    return blocks, "\n".join(prose)


BLOCKS = [block for page in PAGES for block in split_page(page)[0]]


def ids(block: Block) -> str:
    return block.place


def test_there_is_a_readme_and_there_are_guides() -> None:
    assert ROOT / "README.md" in PAGES
    assert any("test" in block.info for block in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=ids)
def test_every_block_names_its_language_and_is_well_formed(block: Block) -> None:
    assert block.info, f"{block.place}: name a language, or text"
    language, *marks = block.info
    assert language in LANGUAGES, f"{block.place}: {language!r} is none of {sorted(LANGUAGES)}"
    assert set(marks) <= MARKS, f"{block.place}: {marks} are none of {sorted(MARKS)}"
    assert not marks or language == "python", f"{block.place}: only python blocks run"
    if language == "python":
        compile("\n" * block.line + block.text, str(block.page), "exec")
    elif language == "json":
        json.loads(block.text)
    elif language == "yaml":
        yaml.safe_load(block.text)
    elif language == "toml":
        tomllib.loads(block.text)
    elif language in {"bash", "sh"}:
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", sorted({b.page for b in BLOCKS if "test" in b.info}), ids=lambda page: page.name
)
def test_marked_blocks_run(page: Path, tmp_path: Path) -> None:
    script = ""
    for block in BLOCKS:
        if block.page == page and "test" in block.info:
            # Tracebacks show the line of the page.
            script += "\n" * (block.line - script.count("\n")) + block.text
    path = tmp_path / page.with_suffix(".py").name
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", path.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{page.name} (same lines):\n{done.stdout}\n{done.stderr}"


def test_paths_of_the_architecture_lead_to_code() -> None:
    paths = re.findall(r"`([\w./]+(?:\.py|/))`", (ROOT / "docs/architecture.md").read_text())
    assert "trainers/update.py" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def anchors(page: Path) -> set[str]:
    """What a heading can be linked to as, by GitHub's rule."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", split_page(page)[1], re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 1
        unique = slug
        while unique in found:
            unique, number = f"{slug}-{number}", number + 1
        found.add(unique)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", split_page(page)[1])
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", prose)
    referenced = re.findall(r"^\[[^\]]+\]:\s*<?(\S+?)>?\s*$", prose, re.MULTILINE)
    broken = []
    for link in [*inline, *referenced]:
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # another site
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or ROOT not in (target, *target.parents):
            broken.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target):
            broken.append(f"{link}: no such heading (there is {sorted(anchors(target))})")
    assert broken == []
