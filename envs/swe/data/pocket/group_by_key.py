"""Grouping dictionaries by the value of one field."""


def group_by_key(records, field, missing="other") -> dict:
    """Lists of records by field value, in order of appearance."""
    groups = {}
    for record in records:
        label = record.get(field, missing)
        if label not in groups:
            groups[label] = []
        groups[label].append(record)
    return groups


def totals(records, field, amount) -> dict:
    """Sum of amount for each value of field."""
    sums = {}
    for label, members in group_by_key(records, field).items():
        sums[label] = 0
        for member in members:
            sums[label] += member.get(amount, 0)
    return sums


def largest_group(records, field):
    """Label with most records; the earliest one on a tie."""
    best, size = None, 0
    for label, group in group_by_key(records, field).items():
        if len(group) > size:
            best, size = label, len(group)
    if best is None:
        raise ValueError("no records to group")
    return best
