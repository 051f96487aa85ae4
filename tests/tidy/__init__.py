"""Rules of the repository, as tests. A rule that stands in the way is changed here, in the open."""
