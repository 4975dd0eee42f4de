"""Agents on any OpenAI-compatible server: for evaluation only.

Such a server takes messages and gives text. Which tokens were sampled, under which weights and with what
probability it does not say reliably, so its episodes carry no token stream and cannot train.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from agentic_gym.errors import ConfigError, EngineError, MissingDependency
from agentic_gym.types import FinishReason

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_CONTEXT = re.compile(
    r"context[ _](length|size|window)|maximum (model|allowed) length", re.IGNORECASE
)
"""What servers say of a conversation that is too long; the protocol has no code for it."""


class OpenAIChat:
    """A connection to ``/chat/completions``.

    Args:
        model: name of the model at the server.
        base_url: of the API, for instance ``http://localhost:8000/v1``.
        api_key: None: from the environment variable ``OPENAI_API_KEY``, if set.
        temperature: of sampling.
        max_tokens: limit of one completion.
        retries: tries after a failure that may pass (connection, 429, 5xx), with growing pauses.
        timeout_s: of one request.
        pause_s: before the first retry; doubled for each further one.
        extra: more fields of the request, for servers that know them.
        transport: an ``httpx`` transport instead of the network.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: str | None = None,
        temperature: float = 1.0,
        max_tokens: int = 2048,
        retries: int = 4,
        timeout_s: float = 300.0,
        pause_s: float = 1.0,
        extra: Mapping[str, Any] | None = None,
        transport: Any = None,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingDependency("agentic-gym[train]", "the openai engine") from error
        key = api_key if api_key is not None else os.environ.get("OPENAI_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._failures = (httpx.TransportError,)
        self._client = httpx.AsyncClient(
            base_url=base_url, headers=headers, timeout=timeout_s, transport=transport
        )
        self._retries = retries
        self._pause_s = pause_s
        self._fields: dict[str, Any] = {
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
            **(extra or {}),
        }

    async def complete(
        self, messages: list[Mapping[str, Any]], tools: list[Mapping[str, Any]], *, seed: int
    ) -> tuple[Mapping[str, Any], FinishReason, int] | None:
        """One completion.

        Returns:
            the assistant's message, why it ended, and the tokens that the server counted; None if the
            conversation has grown longer than the model's context.

        Raises:
            ConfigError: the server refuses the request (4xx): model name, key or fields are wrong.
            EngineError: the server cannot be reached or answers nonsense, after all retries.
        """
        body = {**self._fields, "messages": messages, "seed": seed}
        if tools:
            body["tools"] = tools
        for attempt in range(self._retries + 1):
            try:
                response = await self._client.post("chat/completions", json=body)
            except self._failures as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    return _read(response.text)
                problem = f"status {response.status_code}: {response.text[:300]}"
                if _too_long(response.status_code, response.text) and _has_begun(messages):
                    return None
                if response.status_code not in _RETRIED:
                    raise ConfigError(f"{response.url} refused the request with {problem}")
            if attempt < self._retries:
                await asyncio.sleep(random.uniform(0.5, 1.0) * self._pause_s * 2**attempt)
        raise EngineError(
            f"{self._client.base_url} failed {self._retries + 1} times, lastly with {problem}"
        )

    async def close(self) -> None:
        """Closes the connections; idempotent."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _too_long(status: int, text: str) -> bool:
    return status in {400, 413} and _CONTEXT.search(text) is not None


def _has_begun(messages: list[Mapping[str, Any]]) -> bool:
    """Whether the model has spoken: a first prompt that does not fit is a mistake of the user's."""
    return any(message.get("role") == "assistant" for message in messages)


def _read(text: str) -> tuple[Mapping[str, Any], FinishReason, int]:
    try:
        answer = json.loads(text)
        choice = answer["choices"][0]
        message = dict(choice["message"])
        count = int((answer.get("usage") or {}).get("completion_tokens") or 0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise EngineError(f"the server's answer is no chat completion: {text[:300]!r}") from error
    return message, "length" if choice.get("finish_reason") == "length" else "stop", count
