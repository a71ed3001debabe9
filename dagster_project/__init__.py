"""Dagster definitions of lakeidx: what runs when, and what it reports. No table logic lives here."""
