//! Which certificate, when, from whom.
