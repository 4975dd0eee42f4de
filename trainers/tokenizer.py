"""A small byte-level tokenizer that speaks Qwen3's chat format.

It carries Qwen3's control tokens as single ids and a chat template of the same format, so that the
Qwen3 renderer, the template and the tool parsers of inference servers all agree about it.

Text is cut, before merges are learned, so that a model of a few million parameters can copy code:
a number is cut into pairs of digits, a run of indentation is one piece, and a line feed is always a
piece of its own (therefore ids do not depend on where a text was cut at line feeds, as chat templates
cut it).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agentic_gym.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Control tokens that decoding may skip."""

MARKUP_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
"""Single ids that are part of a message's text."""

_PIECES = (
    r"\n"  # a line feed
    r"|[^\S\n]{2,}"  # indentation
    r"|\\[nt\"\\]"  # an escape of JSON
    r"|\p{N}{1,2}"  # a line number is one token, so that a line can be looked up by it
    r"|\|"  # what stands between a line number and its line
    r"| ?[\p{L}_]+"  # a word
    r"| ?[^\s\p{L}\p{N}_\\]+"  # punctuation
    r"|\s|\\"
)

CHAT_TEMPLATE = """\
{%- macro body(content) -%}
{%- if content is string -%}{{- content -}}
{%- elif content -%}{%- for part in content -%}\
{{- part if part is string else (part.text or '') -}}{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- set lead = messages[0].role == 'system' -%}
{%- if tools -%}
{{- '<|im_start|>system\\n' -}}
{%- if lead -%}{{- body(messages[0].content) + '\\n\\n' -}}{%- endif -%}
{{- '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n' -}}
{{- 'You are provided with function signatures within <tools></tools> XML tags:\\n<tools>' -}}
{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}
{{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and ' -}}
{{- 'arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n' -}}
{{- '{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' -}}
{%- elif lead -%}
{{- '<|im_start|>system\\n' + body(messages[0].content) + '<|im_end|>\\n' -}}
{%- endif -%}
{%- set last = namespace(query=messages | length - 1, found=false) -%}
{%- for message in messages[::-1] -%}
{%- set text = body(message.content) | trim -%}
{%- if not last.found and message.role == 'user' and not \
(text.startswith('<tool_response>') and text.endswith('</tool_response>')) -%}
{%- set last.found = true -%}{%- set last.query = messages | length - 1 - loop.index0 -%}
{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
{%- set content = body(message.content) -%}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) -%}
{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' -}}
{%- elif message.role == 'assistant' -%}
{%- set turn = namespace(text=content, thought='') -%}
{%- if message.reasoning_content is string -%}
{%- set turn.thought = message.reasoning_content -%}
{%- elif '</think>' in content -%}
{%- set turn.thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}
{%- set turn.text = content.split('</think>', 1)[1].lstrip('\\n') -%}
{%- endif -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if loop.index0 > last.query and (loop.last or turn.thought) -%}
{{- '<think>\\n' + turn.thought.strip('\\n') + '\\n</think>\\n\\n' + turn.text.lstrip('\\n') -}}
{%- else -%}{{- turn.text -}}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{%- set call = call.function or call -%}
{%- if not loop.first or turn.text -%}{{- '\\n' -}}{%- endif -%}
{{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' -}}
{{- call.arguments if call.arguments is string else call.arguments | tojson -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- elif message.role == 'tool' -%}
{%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
{{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' -}}
{%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}\
{%- if enable_thinking is defined and enable_thinking is false -%}\
{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}{%- endif -%}
"""
"""Messages as Qwen3 writes them."""


def train_tokenizer(texts: Iterable[str], vocab_size: int = 1024) -> PreTrainedTokenizerFast:
    """Learns a byte-level BPE tokenizer (Sennrich et al., 2016, over bytes: lossless for any text).

    Deterministic in ``texts``. The end-of-turn token is ``eos``, ``<|endoftext|>`` is ``pad``.

    Args:
        texts: what the merges are learned from; training tasks only, or the tokenizer leaks the rest.
        vocab_size: ids in all, control tokens and the 256 bytes included; fewer where the texts
            have fewer pairs to merge.

    Raises:
        ConfigError: ``vocab_size`` has no room for bytes and control tokens.
        MissingDependency: ``tokenizers`` or ``transformers`` is not installed.
    """
    floor = 256 + len(SPECIAL_TOKENS) + len(MARKUP_TOKENS)
    if vocab_size < floor:
        raise ConfigError(
            f"vocab_size={vocab_size} is too small: bytes and control tokens take {floor}"
        )
    try:
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers, trainers
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingDependency("agentic-gym[train]", "training a tokenizer") from error

    learned = tokenizers.Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    learned.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(MARKUP_TOKENS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learned.train_from_iterator(texts, trainer)
    learned.add_tokens(
        [tokenizers.AddedToken(token, normalized=False, special=False) for token in MARKUP_TOKENS]
    )
    options: dict[str, Any] = {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2**31 - 1,
    }
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned, **options)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
