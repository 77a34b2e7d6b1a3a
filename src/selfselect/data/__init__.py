"""The first stage: tables of any kind become coded rows."""
