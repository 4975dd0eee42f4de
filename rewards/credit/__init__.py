"""Credit assignment: which decisions of an episode earned its rewards."""
