"""Shows results: tables, JSON, times, help texts, keys."""
