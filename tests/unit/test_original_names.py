"""Variables of the original server count, unless ours are given, and a line names the new ones."""

from __future__ import annotations

from queenmq import settings

ORIGINAL = {
    "PORT": "7000",
    "NUM_WORKERS": "3",
    "DB_POOL_SIZE": "20",
    "DEFAULT_TIMEOUT": "1000",
    "DEFAULT_BATCH_SIZE": "5",
    "RETENTION_INTERVAL": "300000",
    "PG_HOST": "db",
    "PG_USER": "a b",
    "PG_PASSWORD": "p@ss/word",
    "PG_DB": "queen",
    "PG_USE_SSL": "true",
}


def test_original_names_are_read() -> None:
    loaded = settings.load(environ=ORIGINAL)
    assert (loaded.port, loaded.workers, loaded.db_pool_size) == (7000, 3, 20)
    assert (loaded.default_timeout_ms, loaded.default_batch_size) == (1000, 5)
    assert loaded.retention_interval_s == 300
    assert loaded.database_url == "postgresql://a%20b:p%40ss%2Fword@db:5432/queen?sslmode=require"
    lines = settings.find_original_names(ORIGINAL)
    assert ("PORT", "QUEEN_PORT") in lines
    assert ("RETENTION_INTERVAL", "QUEEN_RETENTION_INTERVAL_S") in lines
    assert ("PG_HOST", "QUEEN_DATABASE_URL") in lines


def test_our_names_go_before_them() -> None:
    environ = {**ORIGINAL, "QUEEN_PORT": "1", "QUEEN_DATABASE_URL": "postgresql://mine/x"}
    loaded = settings.load({"workers": "2"}, environ=environ)
    assert (loaded.port, loaded.workers) == (1, 2)
    assert loaded.database_url == "postgresql://mine/x"
    named = {variable for variable, _ in settings.find_original_names(environ)}
    assert not named & {"PORT", "PG_HOST"}


def test_nothing_given_means_our_defaults() -> None:
    assert settings.load(environ={}) == settings.Settings()
    assert settings.find_original_names({"PORT": ""}) == []


def test_variables_of_other_software_do_no_harm() -> None:
    foreign = {"PORT": "tcp://10.0.0.1:80", "DEFAULT_SUBSCRIPTION_MODE": "none", "PG_HOST": "db"}
    assert settings.load(environ=foreign).port == settings.Settings().port
    assert settings.load({"data_dir": "/data"}, environ=foreign).database_url is None
    own = {**foreign, "QUEEN_DATA_DIR": "/data"}
    assert settings.load(environ=own).database_url is None
