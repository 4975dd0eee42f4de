"""Every error that agentic-gym raises on purpose, in one tree.

::

    AgenticGymError
    ├── UserError                      you can fix it: raised early, says what to do instead
    │   ├── ConfigError                (ValueError)   a configuration key or value is wrong
    │   ├── RegistrationError          (ValueError)   an environment id is unknown, taken or malformed
    │   ├── ToolDefinitionError        (TypeError)    a @tool method cannot become a schema
    │   ├── EnvContractError           (TypeError)    check_env found a breach of the contract
    │   ├── ScheduleContractError      (TypeError)    check_schedule found a breach of the contract
    │   ├── TaskError                  (ValueError)   a task or a task file is malformed or fails validation
    │   ├── ResetNeeded                (RuntimeError) step was called before reset or after the end
    │   ├── CheckpointError            (ValueError)   a checkpoint or run folder cannot be used
    │   ├── ChatError                  (ValueError)   no exact rendering exists for this model or conversation
    │   └── MissingDependency          (ImportError)  an optional package is needed
    ├── ToolCallError                  the *agent's* call is wrong: becomes an observation, never a crash
    │   └── IdleCallError              it is right in form and would change nothing
    ├── PatchError                     (ValueError)   a diff cannot be parsed or applied: the agent's fault
    ├── InfraError                     the machinery broke: never an observation, never a reward
    │   ├── SandboxError               a sandbox could not be made or used
    │   │   ├── SandboxUnavailable     no backend works here; names the remedies
    │   │   └── SandboxDead            the sandbox is gone; the episode ends as infra_error
    │   ├── EngineError                generation or publishing failed
    │   │   └── EngineMismatch         engine and trainer disagree on logprobs after a publish
    │   ├── GraderError                grading itself failed (not the patch)
    │   └── StoreError                 the run's store is corrupt or locked
    └── TrainingError                  the optimisation cannot go on
        └── NonFiniteError             (FloatingPointError) a NaN or Inf; the batch was saved

Errors are picklable, so that they cross process boundaries.
"""

from __future__ import annotations


class AgenticGymError(Exception):
    """Root of the tree: catch it to catch everything raised on purpose."""


class UserError(AgenticGymError):
    """Something that the user can fix; the message says how."""


class ConfigError(UserError, ValueError):
    """A configuration key or value is wrong."""


class RegistrationError(UserError, ValueError):
    """An environment id is unknown, taken or malformed."""


class ToolDefinitionError(UserError, TypeError):
    """A method marked ``@tool`` cannot become a JSON schema."""


class EnvContractError(UserError, TypeError):
    """``check_env`` found that an environment breaks the contract."""


class ScheduleContractError(UserError, TypeError):
    """``check_schedule`` found that a rollout schedule breaks the contract."""


class TaskError(UserError, ValueError):
    """A task or a task file is malformed or does not pass validation."""


class ResetNeeded(UserError, RuntimeError):
    """``step`` was called before ``reset`` or after the episode had ended."""


class CheckpointError(UserError, ValueError):
    """A checkpoint or a run folder cannot be used."""


class ChatError(UserError, ValueError):
    """No exact token rendering exists for this model or conversation."""


class MissingDependency(UserError, ImportError):
    """An optional package is needed for what was asked.

    Args:
        package: what to install, as pip spells it (for instance ``agentic-gym[train]``).
        purpose: what it is needed for, ending a sentence.
    """

    def __init__(self, package: str, purpose: str = "this") -> None:
        super().__init__(f"{package} is needed for {purpose}. Install it: pip install '{package}'")
        self.package = package
        self.purpose = purpose

    def __reduce__(self) -> tuple[type[MissingDependency], tuple[str, str]]:
        return type(self), (self.package, self.purpose)


class ToolCallError(AgenticGymError):
    """A tool call that cannot be run as written; its text is shown to the agent."""


class IdleCallError(ToolCallError):
    """A tool call that is right in form and would change nothing."""


class PatchError(AgenticGymError, ValueError):
    """A diff cannot be parsed or applied."""


class InfraError(AgenticGymError):
    """The machinery broke. Never an observation and never a reward."""


class SandboxError(InfraError):
    """A sandbox could not be made or used."""


class SandboxUnavailable(SandboxError):
    """No sandbox backend works on this machine."""


class SandboxDead(SandboxError):
    """The sandbox is gone; the episode ends as ``infra_error``."""


class EngineError(InfraError):
    """Generation or publishing failed."""


class EngineMismatch(EngineError):
    """Engine and trainer disagree on log-probabilities after a publish."""


class GraderError(InfraError):
    """Grading itself failed, not the patch."""


class StoreError(InfraError):
    """The store of the run is corrupt or locked."""


class TrainingError(AgenticGymError):
    """The optimisation cannot go on."""


class NonFiniteError(TrainingError, FloatingPointError):
    """A NaN or an infinity appeared; the batch was saved and the message names the cause."""
