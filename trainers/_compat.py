"""Every private name of TRL and transformers that the trainer relies on, in one place.

:class:`HookedTrainer` turns the private methods into hooks of our own, so that a release that renames
one of them breaks this file and its test, nothing else. TRL removed its own PPO trainer in 1.13;
what it still offers is the base that all its trainers stand on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from transformers import PrinterCallback

try:
    from trl.trainer.base_config import _BaseConfig as BaseConfig
    from trl.trainer.base_trainer import _BaseTrainer as BaseTrainer
except ImportError:  # a TRL that moved them: the trainer of transformers has all that is used
    from transformers import Trainer as BaseTrainer
    from transformers import TrainingArguments as BaseConfig

__all__ = ["BaseConfig", "HookedTrainer"]


class HookedTrainer(BaseTrainer):  # type: ignore[misc]  # untyped base
    """TRL's trainer base with the hooks that the PPO trainer overrides."""

    _name = "Agentic PPO"
    _tag_names = ("trl", "agentic-gym", "ppo")
    # compute_loss divides by the token count of the whole optimiser step itself.
    loss_is_scaled_for_ga = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Prints every log as a dict; metrics go to the source and to the callbacks of report_to.
        self.remove_callback(PrinterCallback)

    def save_files(self, folder: Path) -> None:
        """Writes the model's files into a folder that exists."""
        raise TypeError(f"{type(self).__name__} must define save_files")

    def load_files(self, folder: Path) -> None:
        """Loads the model's files from a checkpoint."""
        raise TypeError(f"{type(self).__name__} must define load_files")

    def save_checkpoint(self) -> None:
        """Saves a checkpoint of the state as it is."""
        self.write_checkpoint(Path(self.args.output_dir))

    def write_checkpoint(self, parent: Path) -> Path:
        """Writes ``checkpoint-<step>`` below ``parent`` and returns it."""
        self._checkpoint_parent = parent
        try:
            super()._save_checkpoint(self.model, None)
        finally:
            del self._checkpoint_parent
        return parent / f"checkpoint-{self.state.global_step}"

    def _send_telemetry(self) -> None:
        """Sends nothing."""

    def _get_output_dir(self, trial: Any) -> str:
        parent = getattr(self, "_checkpoint_parent", None)
        return str(parent) if parent is not None else super()._get_output_dir(trial)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        self.save_checkpoint()

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if not self.args.should_save:
            return
        folder = Path(output_dir if output_dir is not None else self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.save_files(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.load_files(Path(resume_from_checkpoint))
