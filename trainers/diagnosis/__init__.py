"""What is wrong with a run, read from its store: rules over facts, without torch (docs/diagnosis.md)."""
