"""Union of closed integer intervals."""


def merge_intervals(intervals):
    merged = []
    for start, end in sorted(intervals):
        if start > end:
            raise ValueError("start after end")
        if merged and start <= merged[-1][1] + 1:
            last = merged.pop()
            merged.append((last[0], max(last[1], end)))
        else:
            merged.append((start, end))
    return merged


def covered(intervals):
    total = 0
    for low, high in merge_intervals(intervals):
        total += high - low + 1
    return total
