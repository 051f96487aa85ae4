"""Queen's tests; the folders follow the kinds of test, `unit` mirrors `src`."""
