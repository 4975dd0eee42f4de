"""Attention rows beside a forward pass: seconds and memory against none and against eager attention.

One forward pass without gradient and without the output layer, over one sequence of T tokens, as

1. ``sdpa``: fused attention, no weights.
2. ``rows``: the same, and the attention of the last 32 tokens, as credit assignment asks for it.
3. ``eager``: ``output_attentions=True``: all weights.

The model is a Llama of 18.9 million parameters made from scratch. Seconds are processor time of one thread,
the three measured in turns; a ratio is the median of the turns' ratios. Memory is the peak of a pass over
what the process holds before it, each in a process of its own. That the weights are equal is checked.

    python benchmarks/attention_rows.py [--quick]
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agentic_gym.trainers.attention_rows import attention_of
from agentic_gym.types import Outcome, TokenStream, Trajectory

ROWS = 32
KINDS = ("sdpa", "rows", "eager")


def make_model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=10,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def make_trajectory(length: int) -> Trajectory:
    rng = np.random.default_rng(0)
    stream = TokenStream(
        ids=rng.integers(0, 8192, length).astype(np.int32),
        sampled=np.arange(length) >= length - ROWS,
        logprobs=np.zeros(length, np.float32),
        versions=np.zeros(length, np.int32),
        turns=np.zeros(length, np.int32),
    )
    return Trajectory("t", "task", "group", 0, "", (), stream, Outcome.FAILED, True, False)


def one_pass(model: Any, kind: str, trajectory: Trajectory) -> Any:
    """Runs one pass; returns the mean attention of the rows where it is known."""
    length = len(trajectory.tokens.ids) - 1  # the last token is predicted, not read
    chosen = np.arange(length - ROWS + 1, length + 1)
    if kind == "rows":
        (found,) = attention_of(model, [trajectory], [chosen], layout="sorted")
        return found.weights[0, :length]
    model.set_attn_implementation(kind)
    ids = torch.as_tensor(trajectory.tokens.ids[None, :length].astype(np.int64))
    with torch.no_grad():
        output = model(
            input_ids=ids, use_cache=False, output_attentions=kind == "eager", logits_to_keep=1
        )
    if kind == "sdpa":
        return None
    rows = [layer[0][:, chosen - 1].mean((0, 1)) for layer in output.attentions]
    return torch.stack(rows).mean(0).numpy()


def peak_mb(kind: str, length: int) -> float:
    """Peak resident memory of a pass over what was held before it, in MB. Linux."""
    model = make_model()
    one_pass(model, kind, make_trajectory(ROWS + 8))  # what is loaded once
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident_mb("VmHWM")
    one_pass(model, kind, make_trajectory(length))
    return resident_mb("VmHWM") - before


def resident_mb(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/self/status has no {name}")


def memory(kind: str, length: int, *, quick: bool) -> float:
    command = [sys.executable, __file__, "--peak", kind, "--lengths", str(length)]
    peaks = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(1 if quick or kind == "eager" else 3)
    ]
    return statistics.median(peaks)


def measure(model: Any, length: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of each kind, in turns, after one pass that is not counted and compared."""
    trajectory = make_trajectory(length)
    mine, eager = (one_pass(model, kind, trajectory) for kind in ("rows", "eager"))
    gap = float(np.abs(mine - eager).max())
    if gap > 1e-5:
        raise ArithmeticError(f"rows and eager differ by {gap} at {length} tokens")
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(repeats):
        for kind in KINDS:
            if kind == "eager" and len(seconds[kind]) >= 3:
                continue  # it is slow, and its ratio is not close
            began = time.process_time()
            one_pass(model, kind, trajectory)
            seconds[kind].append(time.process_time() - began)
    return seconds


def ratio(seconds: dict[str, list[float]], kind: str) -> float:
    pairs = zip(seconds[kind], seconds["sdpa"], strict=False)
    return statistics.median(mine / plain for mine, plain in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="1,024 tokens, three repeats")
    parser.add_argument("--peak", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        print(peak_mb(options.peak, options.lengths[0]))
        return
    lengths, repeats = ([1024], 3) if options.quick else (options.lengths, options.repeats)
    model = make_model()
    print(f"{datetime.date.today()} {platform.machine()} torch {torch.__version__}, one thread")
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, {ROWS} rows")
    print(
        "| tokens | seconds sdpa / rows / eager | rows, eager of sdpa | MB | rows, eager of sdpa |"
    )
    for length in lengths:
        seconds = measure(model, length, repeats)
        megabytes = {kind: memory(kind, length, quick=options.quick) for kind in KINDS}
        medians = " / ".join(f"{statistics.median(seconds[kind]):.2f}" for kind in KINDS)
        times = ", ".join(f"{ratio(seconds, kind):.2f}x" for kind in KINDS[1:])
        room = " / ".join(f"{megabytes[kind]:.0f}" for kind in KINDS)
        sizes = ", ".join(f"{megabytes[kind] / megabytes['sdpa']:.2f}x" for kind in KINDS[1:])
        print(f"| {length:,} | {medians} | {times} | {room} | {sizes} |", flush=True)


if __name__ == "__main__":
    main()
