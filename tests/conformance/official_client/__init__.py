"""The official Python client, unchanged, drives our broker."""
