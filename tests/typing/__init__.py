"""Programs that are type-checked and never run: what users see of the client has these types."""
