"""Random walks over the whole broker, compared step by step with a small model of it."""
