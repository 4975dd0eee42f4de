"""Bug injection on concrete syntax trees."""
