"""The heat map of credit: which episodes, which numbers, which colours, and how much of it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agentic_gym.errors import StoreError
from agentic_gym.report import write_report
from agentic_gym.report.credit import (
    MOST_TOKENS,
    choose,
    gather_credit,
    level,
    strongest,
    turn_credits,
)
from agentic_gym.report.facts import stock
from agentic_gym.store import LaunchRecord, RunStore, TokenCredit
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def episode(
    name: str, texts: Sequence[str] = ("abc", "de"), outcome: Outcome = Outcome.FAILED
) -> Trajectory:
    """Each character of an action is a token, and each turn has one token of observation behind it."""
    ids, sampled, of_turn = [63], [False], [-1]
    for number, text in enumerate(texts):
        ids += [*map(ord, text), 62]
        sampled += [True] * len(text) + [False]
        of_turn += [number] * (len(text) + 1)
    stream = TokenStream(
        ids=np.asarray(ids, np.int32),
        sampled=np.asarray(sampled),
        logprobs=np.zeros(len(ids), np.float32),
        versions=np.zeros(len(ids), np.int32),
        turns=np.asarray(of_turn, np.int32),
    )
    turns = tuple(Turn(f"<act>{text}", "seen", 0.0) for text in texts)
    return Trajectory(name, "task", "g", 0, "p", turns, stream, outcome, True, False)


def credit(advantages: Sequence[float], last_reward: float = 1.0) -> TokenCredit:
    rewards = np.zeros(len(advantages), np.float32)
    rewards[-1:] = last_reward
    return TokenCredit(rewards, np.asarray(advantages, np.float32))


def decode(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


def test_turns_add_up_and_tokens_have_their_own_numbers() -> None:
    first, second = turn_credits(
        episode("t"), credit([0.5, 0.5, -0.5, -1.0, -1.0]), scale=1.0, decode=decode
    )
    assert (first.number, first.tokens, first.reward, first.advantage) == (1, 3, 0.0, 0.5)
    assert (second.number, second.tokens, second.reward, second.advantage) == (2, 2, 1.0, -2.0)
    assert (first.level, second.level) == ("p1", "n5")
    assert [(p.text, p.level, p.title) for p in (*first.patches, *second.patches)] == [
        ("ab", "p3", "advantage +0.5 (2 tokens)"),
        ("c", "n3", "advantage -0.5"),
        ("d", "n5", "advantage -1"),
        ("e", "n5", "advantage -1, reward +1"),  # what was rewarded stands alone
    ]


def test_without_a_tokenizer_an_action_has_one_colour() -> None:
    first, second = turn_credits(episode("t"), credit([0.5, 0.5, -0.4, -1.0, -1.0]), scale=1.0)
    assert [(p.text, p.level) for p in first.patches] == [("<act>abc", "p1")]
    assert [(p.text, p.level) for p in second.patches] == [("<act>de", "n5")]
    assert first.patches[0].title == "advantage +0.2 a token"


def test_tokens_of_one_character_are_shown_together() -> None:
    """Bytes of UTF-8 as tokens; and a tokenizer that drops the space a text begins with."""
    text = "é 🙂x"
    data = text.encode()

    def of_bytes(ids: Sequence[int]) -> str:
        return bytes(i - 1000 for i in ids).decode(errors="replace").lstrip(" ")

    spread = episode("t", ["".join(chr(1000 + byte) for byte in data)])
    (turn,) = turn_credits(spread, credit(range(1, len(data) + 1)), scale=9.0, decode=of_bytes)
    assert [p.text for p in turn.patches] == ["é", " ", "🙂", "x"]
    assert [p.title for p in turn.patches][::2] == [
        "advantage +1.5 (2 tokens)",
        "advantage +5.5 (4 tokens)",
    ]


def test_a_long_episode_is_cut_and_its_sums_are_not() -> None:
    texts = ["a" * (MOST_TOKENS - 10), "b" * 30, "c" * 5]
    long = credit([1.0] * sum(map(len, texts)))
    turns = turn_credits(episode("t", texts), long, scale=1.0, decode=decode)
    assert [turn.left_out for turn in turns] == [0, 20, 5]
    assert [sum(len(p.text) for p in turn.patches) for turn in turns] == [MOST_TOKENS - 10, 10, 0]
    assert [turn.advantage for turn in turns] == [MOST_TOKENS - 10, 30, 5]


def test_levels_are_even_and_an_outlier_leaves_the_others_their_colours() -> None:
    assert [level(x / 10, 1.0) for x in (0, 1, 2, 3, 9, 10, 99)] == [
        "", "p1", "p1", "p2", "p5", "p5", "p5",
    ]  # fmt: skip
    assert [level(float("nan"), 1.0), level(1.0, 0.0)] == ["", ""]
    advantages = np.asarray([0.0] * 50 + [0.5, -0.5] * 50 + [80.0], np.float32)
    assert strongest([advantages]) == 0.5
    assert strongest([]) == strongest([np.zeros(3, np.float32)]) == 0.0


def test_the_ends_of_the_scale_and_both_outcomes_are_shown_once_each() -> None:
    outcomes = {"s": Outcome.SOLVED, "f": Outcome.FAILED, "x": Outcome.TRUNCATED}
    means = {"s1": 3.0, "s2": 2.0, "s3": 1.0, "x1": 0.5, "f1": -1.0, "f2": -2.0, "f3": -3.0}
    trained = [episode(name, ("a",), outcomes[name[0]]) for name in means]
    chosen = choose(trained, {name: credit([mean]) for name, mean in means.items()})
    assert [(why, t.trajectory_id) for why, t in chosen] == [
        ("most positive", "s1"),
        ("most negative", "f3"),
        ("usual solved", "s2"),
        ("usual unsolved", "f2"),
    ]
    alone = choose(trained[:1], {"s1": credit([0.0])})
    assert [t.trajectory_id for _, t in alone] == ["s1"]


def make_run(folder: Path) -> RunStore:
    """Two trained batches, the second without credit; hostile text in the first."""
    store = RunStore(folder)
    names = ["a", "b", "c", "d"]
    store.launch([LaunchRecord(name, "task", "g", 0, 0) for name in names])
    for name in names:
        store.finish(episode(name, ("</pre><script>", "<b>&")))
    store.record_batch(1, ["a", "b"])
    store.record_batch(2, ["c", "d"])
    count = len("</pre><script><b>&")
    store.record_credit({"a": credit([0.25] * count), "b": credit([-0.125] * count)})
    return store


def test_the_page_shows_the_last_credit_that_was_kept(tmp_path: Path) -> None:
    with make_run(tmp_path) as store:
        facts = gather_credit(store)
    assert facts is not None
    assert (facts.update, facts.trained, facts.scale) == (1, 2, 0.25)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<h2>Credit</h2>" in page
    shown = re.findall(r'<span class="(\w+)" title="([^"]+)">([^<]*)</span>', page)
    assert shown == [
        ("p5", "advantage +0.25 a token", html.escape("<act></pre><script>")),
        ("p5", "advantage +0.25 a token", html.escape("<act><b>&")),
        ("n3", "advantage -0.125 a token", html.escape("<act></pre><script>")),
        ("n3", "advantage -0.125 a token", html.escape("<act><b>&")),
    ]
    assert "<script" not in page
    for style in {level(x / 5, 1.0) for x in range(-5, 6) if x}:
        assert f".{style} {{ background" in page


def test_any_trained_trajectory_can_be_asked_for(tmp_path: Path) -> None:
    with make_run(tmp_path) as store:
        store.record_credit({"c": credit([0.5] * 18)})
        facts = gather_credit(store, ["b", "c"])
    assert facts is not None
    assert facts.update == 2
    assert [(m.why, m.trajectory.trajectory_id) for m in facts.maps] == [
        ("asked for", "b"),
        ("asked for", "c"),
    ]
    assert "Every token had an advantage of 0" not in write_report(tmp_path).read_text()
    assert "asked for" in write_report(tmp_path, credit_of=["b"]).read_text()
    with pytest.raises(StoreError, match="no credit of a trajectory 'd' is kept"):
        write_report(tmp_path, credit_of=["d"])


def test_the_tokenizer_of_the_newest_checkpoint_gives_the_texts(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {chr(code): code for code in range(33, 127)}
    model = tokenizers.models.WordLevel(words, unk_token="?")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.decoder = tokenizers.decoders.Fuse()
    folder = tmp_path / "checkpoints" / "checkpoint-1"
    folder.mkdir(parents=True)
    with make_run(tmp_path) as store:
        store.record_checkpoint(1, folder)
        for written, texts in ((None, ["<act><b>&"]), ("{}", ["<act><b>&"])):
            if written is not None:
                (folder / "tokenizer.json").write_text(written)  # damaged: as if there were none
            facts = gather_credit(store)
            assert facts is not None
            assert [p.text for p in facts.maps[0].turns[1].patches] == texts
        tokenizer.save(str(folder / "tokenizer.json"))
        facts = gather_credit(store)
        assert facts is not None
        assert [p.text for p in facts.maps[0].turns[1].patches] == ["<b>", "&"]
        assert [p.title for p in facts.maps[0].turns[1].patches] == [
            "advantage +0.25 (3 tokens)",
            "advantage +0.25, reward +1",
        ]


def test_a_batch_that_teaches_nothing_says_so(tmp_path: Path) -> None:
    with make_run(tmp_path) as store:
        store.record_credit({name: credit([0.0] * 18) for name in "abcd"})
    page = write_report(tmp_path).read_text()
    assert "Every token had an advantage of 0" in page
    assert "+0 or more" not in page


def test_a_run_without_credit_or_selection_has_no_such_section(tmp_path: Path) -> None:
    RunStore(tmp_path).close()
    page = write_report(tmp_path).read_text()
    assert "<h2>Credit</h2>" not in page
    assert "<h2>Tasks</h2>" not in page


def test_what_was_trained_stands_beside_what_there_is(tmp_path: Path) -> None:
    classes = {
        "logic": {"available": 60.0, "trained": 20.0, "quota": 0.5, "starving": 0.0},
        "<i>type": {"available": 20.0, "trained": 0.0, "quota": 0.5, "starving": 1.0},
    }
    rows = stock(classes)
    assert [(r.name, r.tasks, r.available, r.groups, r.trained, r.starving) for r in rows] == [
        ("logic", 60, 0.75, 20, 1.0, False),
        ("<i>type", 20, 0.25, 0, 0.0, True),
    ]
    repos = {f"repo-{n}": {"available": 1.0, "trained": 0.0} for n in range(230)}
    with RunStore(tmp_path) as store:
        store.put_state("selection_summary", {"error_class": classes, "repo": repos, "x": {}})
    page = write_report(tmp_path).read_text()
    assert page.count(">starving</strong>") == 1
    assert page.index("&lt;i&gt;type") < page.index(">starving</strong>")
    assert "By error class" in page
    assert "By repo" in page
    assert "By x" not in page
    assert "30 more are left out" in page
