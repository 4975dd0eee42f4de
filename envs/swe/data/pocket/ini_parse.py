"""Reading simple INI text into dictionaries."""


def parse_value(text: str):
    """A boolean, a whole number or a string without its quotes."""
    if text.lower() in ("yes", "true", "on"):
        return True
    if text.lower() in ("no", "false", "off"):
        return False
    digits = text[1:] if text.startswith("-") else text
    if digits.isdecimal():
        return int(text)
    if len(text) > 1 and text[0] == '"' and text[-1] == '"':
        return text[1:-1]
    return text


def ini_parse(text: str, default: str = "main") -> dict:
    """Options by section; those before any section in default."""
    sections, current = {}, default
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            current = line[1:-1].strip()
            sections.setdefault(current, {})
        else:
            key, sign, value = line.partition("=")
            if sign == "":
                raise ValueError(f"line {number} has no equals sign")
            options = sections.setdefault(current, {})
            options[key.strip().lower()] = parse_value(value.strip())
    return sections
