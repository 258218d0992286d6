"""Values and exact arithmetic: events, statistics, models, released values. No noise, no Beam."""
