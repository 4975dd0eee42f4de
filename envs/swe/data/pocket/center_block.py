"""Centre a block of lines inside a wider frame."""


def center_line(line: str, width: int, fill: str = " ") -> str:
    """Centre one line; cut it if it is too long."""
    room = width - len(line)
    if room < 0:
        return line[:width]
    left = room // 2
    return fill * left + line + fill * (room - left)


def center_block(lines: list, width: int, together=True) -> list:
    """Centre lines as one left-aligned block, or each by itself."""
    if not together:
        return [center_line(line.strip(), width) for line in lines]
    widest = 0
    for entry in lines:
        widest = max(widest, len(entry))
    margin = " " * ((width - widest) // 2)
    centred = []
    for text in lines:
        shifted = margin + text
        centred.append(shifted.ljust(width))
    return centred
