"""Values and exact arithmetic: events, statistics, models, what is published. No noise, no Beam."""
